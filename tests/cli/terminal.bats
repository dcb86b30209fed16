# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2016 # what is quoted is for the inner shell
#
# On a real terminal, as a user sits at it: a shell with job control under tmux.

load ../lib/helpers
load ../redis/server

prepare() {
	need tmux
	# The shell reads no files of the user's; its prompt is "READY STATUS>".
	screen new-session -d -x 100 -y 30 \
		"env -u TMUX PS1='READY \$?> ' bash --norc --noprofile -i"
	SERVICES+=("$(screen display-message -p '#{pid}')")
	wait_until 5 prompt 0
}

# Prints what was on the screen, for a test that failed; some tests end the session themselves.
tidy() {
	if alive "${SERVICES[0]}"; then
		screen capture-pane -p
	fi
}

# screen ARG...: runs tmux with a server of this test's own
screen() {
	tmux -S "$T/tmux" -f /dev/null "$@" 3>&- 4>&-
}

# shows REGEX: true when a line of the screen matches
shows() {
	screen capture-pane -p | grep -Eq -- "$1"
}

# prompt STATUS: waits until the last line is the prompt; a ^C may stand before it
prompt() {
	# shellcheck disable=SC2053 # a pattern
	[[ $(screen capture-pane -p | grep -v '^$' | tail -n 1) == *READY\ $1\> ]]
}

# types TEXT: types TEXT and Enter at the keyboard
types() {
	screen send-keys -l "$1"
	screen send-keys Enter
}

keys() {
	screen send-keys "$@"
}

# shell_reads: the shell has the terminal, and reads a line from it. A line that is typed before the
# shell has restored the terminal's modes ends in a carriage return, and `read` does not return.
shell_reads() {
	types 'clear; echo ask""ing; read x; echo got $x'
	wait_until 5 shows '^asking'
	types word
	wait_until 5 shows '^got word'
}

# The screen shows what was typed as well as what came of it: probes print text that
# the command line does not contain.

@test "Ctrl-C reaches the command; then the lock is free, and the shell goes on" {
	types 'clear; $DLOCK run '"$LOCK"' -- sh -c "echo run\"\"ning; exec sleep 300"'
	wait_until 5 shows '^running'
	keys C-c
	wait_until 5 prompt 130
	is_free
}

@test "a command that handles INT gets one INT for a Ctrl-C" {
	types 'clear; $DLOCK run '"$LOCK"' -- $TOOLS/sigprobe -u QUIT'
	wait_until 5 shows '^ready'
	keys C-c
	wait_until 5 shows '^(\^C)?INT$'
	keys "C-\\"
	wait_until 5 prompt 0
	equal "$(screen capture-pane -p | grep -c 'INT$')" 1
}

@test "a command that sends itself INT does not end the script that called dlock" {
	types 'clear; sh -c "\$DLOCK run '"$LOCK"' -- sh -c \"kill -INT \\\$\\\$\"; echo af\"\"ter"'
	wait_until 5 shows '^after'
	wait_until 5 prompt 0
}

@test "Ctrl-C ends a waiter, and leaves none behind" {
	DLOCK_BACKEND=$REDIS hold --
	types 'clear; $DLOCK run -b '"$REDIS $LOCK"' -- true'
	wait_until 5 shows "held by|pid $HOLDER"
	keys C-c
	wait_until 5 prompt 130
	wait_until 2 test "$(rcli zcard "{$KEY}:queue")" = 0
	release
}

@test "Ctrl-Z stops the job, fg goes on with it" {
	local backend
	for backend in "$FILE" "$REDIS"; do
		types clear
		wait_until 5 not shows '^running'
		types '$DLOCK run -b '"$backend $LOCK"' -- sh -c "echo run\"\"ning \$\$; read line; echo got \$line; exit 7"'
		wait_until 5 shows '^running [0-9]'
		local command
		command=$(screen capture-pane -p | sed -n 's/^running //p')
		keys C-z
		wait_until 5 shows '\[1\]\+ +Stopped'
		wait_until 5 prompt 148
		wait_until 5 stopped "$command"
		# The job is stopped, and still holds the lock.
		DLOCK_BACKEND=$backend is_held
		types fg
		wait_until 5 not stopped "$command"
		types hello
		wait_until 5 shows '^got hello'
		wait_until 5 prompt 7
		DLOCK_BACKEND=$backend is_free
	done
}

@test "Ctrl-Z stops a waiter, fg goes on with it" {
	hold --
	types 'clear; $DLOCK run '"$LOCK"' -- echo do""ne'
	wait_until 5 shows "pid $HOLDER"
	keys C-z
	wait_until 5 prompt 148
	types fg
	release
	wait_until 5 shows '^done'
	wait_until 5 prompt 0
}

# Waits until the shell has seen the end of its job.
job_is_gone() {
	types 'clear; jobs; echo list""ed'
	wait_until 2 shows '^listed' || return
	not shows 'Stopped|Running'
}

# bats test_tags=more
@test "kill %1 and kill -9 %1 end a stopped job" {
	types 'clear; $DLOCK run '"$LOCK"' -- sh -c "echo run\"\"ning; exec sleep 300"'
	wait_until 5 shows '^running'
	keys C-z
	wait_until 5 prompt 148
	types 'clear; kill %1'
	wait_until 5 is_free
	wait_until 5 job_is_gone
	types 'clear; $DLOCK run '"$LOCK"' -- sh -c "echo run\"\"ning; exec sleep 300"'
	wait_until 5 shows '^running'
	keys C-z
	wait_until 5 prompt 148
	types 'clear; kill -9 %1'
	wait_until 8 is_free
}

@test "the command reads from the terminal, and may change its modes" {
	types 'clear; $DLOCK run '"$LOCK"' -- sh -c "stty -echo; echo no\"\"w; read line; stty echo; echo got \$line"; echo a""fter $?'
	wait_until 5 is_held
	wait_until 5 shows '^now'
	types secret
	wait_until 5 shows '^got secret'
	wait_until 5 shows '^after 0'
	equal "$(screen capture-pane -p | grep -c '^secret')" 0
	types 'clear; $DLOCK run '"$LOCK"' -- sh -c "read line </dev/tty; echo got \$line"'
	wait_until 5 is_held
	types again
	wait_until 5 shows '^got again'
	wait_until 5 prompt 0
}

@test "the command is in the foreground of the terminal, in dlock's session" {
	types 'clear; $DLOCK run '"$LOCK"' -- $TOOLS/sigprobe -sn'
	wait_until 5 shows '^foreground: yes'
	types 'clear; echo x | $DLOCK run '"$LOCK"' -- cat | tr x y'
	wait_until 5 shows '^y'
	wait_until 5 prompt 0
}

@test "Ctrl-C ends all of a pipeline, and the shell has the terminal back" {
	types 'clear; $DLOCK run '"$LOCK"' -- sh -c "echo run\"\"ning; exec sleep 300" | cat'
	wait_until 5 shows '^running'
	keys C-c
	wait_until 5 prompt 130
	is_free
	shell_reads
}

@test "in a pipeline, less has the keyboard while the command runs and after it" {
	need less
	local backend
	for backend in "$FILE" "$REDIS"; do
		types 'clear; $DLOCK run -b '"$backend $LOCK"' -- seq 500 | less'
		wait_until 5 shows '^29$'
		keys G
		wait_until 5 shows '^500$'
		keys q
		wait_until 5 prompt 0
		types 'clear; $DLOCK run -b '"$backend $LOCK"' -- sh -c "seq 500; exec sleep 300" | less'
		wait_until 5 shows '^29$'
		keys Space
		wait_until 5 shows '^50$'
		DLOCK_BACKEND=$backend is_held
		# All of the job stops together, and goes on together.
		keys C-z
		wait_until 5 prompt 148
		types 'clear; fg'
		wait_until 5 shows '^50$'
		keys Space
		wait_until 5 shows '^80$'
		keys C-c
		DLOCK_BACKEND=$backend wait_until 5 is_free
		# The shell may get a q, too, and then drops it.
		wait_until 5 eval 'keys q C-u; prompt "[0-9]*"'
	done
}

# bats test_tags=more
@test "in a pipeline the command gets the terminal when it wants it, and others when they do" {
	types 'clear; $DLOCK run '"$LOCK"' -- sh -c "read line </dev/tty; echo got \$line" | cat'
	wait_until 5 is_held
	types hello
	wait_until 5 shows '^got hello'
	wait_until 5 prompt 0
	# A program that asks for a password does so.
	types 'clear; echo x | $DLOCK run '"$LOCK"' -- sh -c "stty -echo </dev/tty; echo no\"\"w; read line </dev/tty; stty echo </dev/tty; cat; echo got \$line"'
	wait_until 5 shows '^now'
	types secret
	wait_until 5 shows '^got secret'
	wait_until 5 prompt 0
	equal "$(screen capture-pane -p | grep -c '^secret')" 0
	# First the command reads, then the other program while the command goes on.
	types 'clear; $DLOCK run '"$LOCK"' -- sh -c "read line </dev/tty; echo \$line; exec sleep 300" | sh -c "read line; echo fi\"\"rst \$line; read line </dev/tty; echo sec\"\"ond \$line"'
	wait_until 5 is_held
	types one
	wait_until 5 shows '^first one'
	types two
	wait_until 5 shows '^second two'
	is_held
	keys C-c
	# The status is that of the last program.
	wait_until 5 prompt 0
	is_free
	# The other one gets it, and keeps it when the command ends. The command waits, because bash
	# takes a job for stopped if dlock ends just when the other program, which was stopped, goes on.
	types 'clear; $DLOCK run '"$LOCK"' -- sh -c "read line </dev/tty; echo \$line; sleep 0.5" | sh -c "read line; echo fi\"\"rst \$line; read line </dev/tty; echo sec\"\"ond \$line"'
	wait_until 5 is_held
	types one
	wait_until 5 shows '^first one'
	types two
	wait_until 5 shows '^second two'
	wait_until 5 prompt 0
}

@test "within a script, whose shell waits in the same group, the command has the terminal" {
	types 'clear; sh -c "\$DLOCK run '"$LOCK"' -- $TOOLS/sigprobe -sn; true"'
	wait_until 5 shows '^foreground: yes'
	wait_until 5 prompt 0
	types 'clear; sh -c "\$DLOCK run '"$LOCK"' -- sh -c \"stty -echo; echo no\\\"\\\"w; read line; stty echo; echo got \\\$line\"; echo af\"\"ter"'
	wait_until 5 shows '^now'
	types word
	wait_until 5 shows '^got word'
	wait_until 5 shows '^after'
	wait_until 5 prompt 0
}

@test "in the background it leaves the terminal alone" {
	types 'clear; $DLOCK run '"$LOCK"' -- sh -c "echo run\"\"ning; exec sleep 300" &'
	# The line may stand behind the next prompt.
	wait_until 5 shows 'running$'
	shell_reads
	# The job can be brought back to the foreground and interrupted.
	types 'clear; fg'
	wait_until 5 shows '^[$]DLOCK run'
	keys C-c
	wait_until 5 prompt 130
	is_free
}

@test "a background job that reads the terminal is stopped, as without dlock" {
	types 'clear; $DLOCK run '"$LOCK"' -- cat &'
	wait_until 5 is_held
	types ''
	wait_until 5 eval 'keys Enter; shows "Stopped"'
	types 'clear; fg'
	# what fg prints, and not the line of the stopped job: see shell_reads
	wait_until 5 shows '^[$]DLOCK run'
	types text
	wait_until 5 eval '[[ $(screen capture-pane -p | grep -c "^text") == 2 ]]'
	keys C-d
	wait_until 5 prompt 0
}

# bats test_tags=more
@test "a command that wants the terminal where no shell could continue dlock: both sleep" {
	local pid
	# The subshell ends at once, so that the group of dlock is an orphan.
	types '($DLOCK run '"$LOCK"' -- cat /dev/tty & echo $! >pid)'
	wait_until 5 test -s pid
	pid=$(<pid)
	guard_of "$pid"
	wait_until 5 child "$GUARD" cat
	pause 0.3
	idles "$pid"
	idles "$GUARD"
	kill -TERM "$pid"
	wait_until 5 ended "$pid"
	is_free
}

@test "the window's size changes for the command too" {
	types 'clear; $DLOCK run '"$LOCK"' -- $TOOLS/sigprobe'
	wait_until 5 shows '^ready'
	screen resize-window -x 90 -y 25
	wait_until 5 shows '^WINCH'
	keys C-c
	wait_until 5 shows '^(\^C)?INT$'
	keys "C-\\"
	wait_until 5 shows 'QUIT$'
	kill -TERM "$(sed -n 's/^ready //p' <<<"$(screen capture-pane -p)")"
	wait_until 5 prompt 0
}

@test "closing the terminal ends the command, and frees the lock" {
	types 'clear; $DLOCK run '"$LOCK"' -- sh -c "echo run\"\"ning; exec sleep 300"'
	wait_until 5 shows '^running'
	is_held
	screen kill-session
	wait_until 5 is_free
}

@test "waiting shows one live line, which goes when the wait is over" {
	DLOCK_BACKEND=$REDIS hold --
	types 'clear; $DLOCK run -b '"$REDIS $LOCK"' -- echo do""ne'
	wait_until 5 shows "$(uname -n).*pid $HOLDER"
	# The elapsed time changes in the same line.
	wait_until 5 shows '[^0-9]([2-9]|[1-9][0-9])s'
	equal "$(screen capture-pane -p | grep -c "pid $HOLDER")" 1 "lines about the holder"
	release
	wait_until 5 shows '^done'
	wait_until 5 prompt 0
	not shows "pid $HOLDER"
}

@test "Ctrl-C while dlock waits: the live line goes" {
	local backend
	for backend in "$FILE" "$REDIS"; do
		DLOCK_BACKEND=$backend hold --
		types 'clear; $DLOCK run -b '"$backend $LOCK"' -- true'
		wait_until 5 shows "waiting .*pid $HOLDER"
		keys C-c
		wait_until 5 prompt 130
		not shows "pid $HOLDER"
		release
	done
}

# bats test_tags=more
@test "a waiter in the background leaves the prompt alone; fg shows its line, Ctrl-Z and bg end it" {
	local command
	hold --
	for command in "\$DLOCK run $LOCK -- true" "\$DLOCK wait $LOCK"; do
		types "clear; ${command#\\} &"
		wait_until 5 prompt 0
		screen send-keys -l 'what the user types'
		holds_for 1500 not shows "pid $HOLDER"
		shows 'READY 0> what the user types$'
		keys C-u
		types 'clear; fg'
		wait_until 5 shows "pid $HOLDER"
		keys C-z
		wait_until 5 prompt 148
		types 'clear; bg'
		wait_until 5 prompt 0
		screen send-keys -l 'more'
		holds_for 1500 not shows "pid $HOLDER"
		types ''
		wait_until 5 eval 'keys C-u; types "clear; kill %1; wait; echo go\"\"ne"; shows "^gone"'
	done
	# The end of its wait, too, is nothing to the screen.
	types 'clear; $DLOCK run '"$LOCK"' -- true &'
	wait_until 5 prompt 0
	keys C-u
	types 'clear; fg'
	wait_until 5 shows "pid $HOLDER"
	keys C-z
	wait_until 5 prompt 148
	types 'clear; bg'
	wait_until 5 prompt 0
	screen send-keys -l 'what the user types'
	release
	wait_until 5 is_free
	wait_until 5 shows 'READY 0> what the user types$'
}


@test "TERM=dumb, or none: no escape sequence, and no live line" {
	local term
	hold --
	for term in TERM=dumb TERM= -uTERM; do
		types "clear; script -qec 'env $term timeout --foreground -s INT 1.5 \$DLOCK run $LOCK -- true; env $term timeout --foreground 0.5 \$DLOCK status --watch $LOCK' typescript; echo do\"\"ne"
		wait_until 9 shows '^done'
		grep -q "pid $HOLDER" typescript
		equal "$(grep -c $'\e' typescript)" 0 "$term: lines with an escape"
		equal "$(grep -c waiting typescript)" 0 "$term: live lines"
	done
	release
}

@test "dlock wait on a terminal shows the live line, too" {
	local backend
	for backend in "$FILE" "$REDIS"; do
		DLOCK_BACKEND=$backend hold --
		types 'clear; $DLOCK wait -b '"$backend $LOCK"
		wait_until 5 shows "waiting .*pid $HOLDER"
		wait_until 5 shows '[^0-9]([2-9]|[1-9][0-9])s'
		equal "$(screen capture-pane -p | grep -c "pid $HOLDER")" 1 "lines about the holder"
		release
		wait_until 8 prompt 0
		not shows "pid $HOLDER"
	done
}

@test "status on a terminal says on which backend the locks are" {
	hold --
	types 'clear; $DLOCK status '"$LOCK"
	wait_until 5 shows "pid $HOLDER"
	wait_until 5 shows '^on file:/'
	release
}

@test "break asks on a terminal; after Ctrl-D its answer has a line of its own" {
	hold --
	types 'clear; $DLOCK break '"$LOCK"
	wait_until 5 shows '\[y/N\]'
	keys C-d
	wait_until 5 prompt 1
	shows "^dlock: $LOCK: left as it is$"
	release
}

@test "waiting on a terminal with -q shows nothing" {
	hold --
	types 'clear; $DLOCK run -q '"$LOCK"' -- echo do""ne'
	holds_for 1500 not shows "pid $HOLDER"
	release
	wait_until 5 shows '^done'
}

@test "a live line fits a narrow window" {
	screen resize-window -x 30 -y 25
	hold --
	types 'clear; $DLOCK run '"$LOCK"' -- true'
	wait_until 5 shows "$LOCK|pid|held"
	holds_for 2500 true
	# one line, rewritten in place: the prompt line (wrapped) and it are all there is
	between "$(screen capture-pane -p | grep -c 'held')" 0 1 "copies of the line"
	release
}

# status_on_terminal COLUMNS [VARIABLE=VALUE]: the table that a terminal of this width shows
status_on_terminal() {
	local columns=$1
	shift
	env TERM=xterm "$@" script -qec "stty cols $columns; '$DLOCK' status" /dev/null </dev/null | tr -d '\r'
}

@test "status fits the terminal, where an overdue lease is red; a pipe gets all" {
	need script
	local long red=$'\e[31m'
	export DLOCK_BACKEND=$REDIS
	printf -v long "%s-%80s-end" "$LOCK" ''
	long=${long// /x}
	"$DLOCK" acquire -q -t 10m --slots 3 "$long" >/dev/null
	"$DLOCK" acquire -q -t 10m --slots 3 "$long" >/dev/null
	DLOCK_TTL=10m hold --
	run -0 "$DLOCK" status
	matches "${lines[0]}" ' FENCE '
	matches "$output" "$long  slot 1 of 3 "
	matches "$output" '  slot 2 of 3 '
	run -0 status_on_terminal 80
	not grep -E '.{81}' <<<"$output"
	not matches "$output" FENCE
	matches "$output" '\.\.\..*-end  slot 1 of 3 '
	[[ $output != *"$red"* ]]
	rcli pexpire "$KEY" 100000
	run -0 status_on_terminal 120
	[[ $output == *"$red$LOCK "* ]] || fail "not red"
	run -0 status_on_terminal 120 NO_COLOR=1
	[[ $output != *"$red"* ]]
	run -0 "$DLOCK" status
	[[ $output != *"$red"* ]]
	release
	"$DLOCK" break -q --yes "$long"
}
