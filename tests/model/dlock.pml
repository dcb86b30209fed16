/* SPDX-License-Identifier: MIT */
/*
 * A model of `dlock run` for the model checker Spin: the supervisor, the guard, the keeper, the
 * command, a leftover of the command, the lock server, and a contender for the lock. README.md
 * beside this file says what is modelled, what is left out, and what each switch takes out.
 *
 * Time is counted in ticks, and all times are countdowns, so that the number of states is finite
 * while time is not. The clock goes on by one tick when no running process has anything left to
 * do. A running process therefore acts within the tick in which it learns something, and a
 * stopped process lets any number of ticks pass. Each atomic step is one system call or less:
 * processes are killed and stopped between any two of them.
 */

#ifndef FAULTS
#define FAULTS	2	/* how many times something is killed or stopped in one run */
#endif

/* What is killed or stopped at a time. */
#define KILL_ONE	1
#define STOP_ONE	2
#define FREEZE_GUARD	4	/* stopped so that SIGCONT does not help, by a debugger */
#define KILL_GROUP	8	/* dlock's process group */
#define STOP_GROUP	16
#define KILL_ALL	32	/* all three processes at once */
#define STOP_ALL	64

#ifndef KINDS
#define KINDS	127
#endif

#define TTL	5	/* ticks that the server keeps a lease */
#define LEASE	(TTL - 1)	/* ticks that dlock relies on: from before the send, less drift */
#define TERM_AT	2	/* ticks left of the lease when the guard sends TERM */
#define KILL_AT	1	/* ticks left of the lease when KILL is sent */
#define GRACE	1	/* ticks between TERM and KILL when no lease ends */
#define CALL	1	/* ticks until the keeper gives up a request */
#define OFFER	1	/* ticks until an offer that nobody takes is withdrawn */
#define WORD	2	/* ticks in which the keeper must have released, once told to */
#define NEVER	15

/* What a process of dlock does. */
#define RUNS	0
#define STOPPED	1
#define FROZEN	2
#define DEAD	3

byte supervisor = RUNS, guard = RUNS;
#ifdef FILE_LOCK
byte keeper = DEAD;	/* there is none */
#else
byte keeper = RUNS;
#endif

/* The command, and what it left running. */
#define NONE	0
#define ALIVE	1
#define ENDED	2

byte command = NONE, leftover = NONE;

#define tree_dead	(command != ALIVE && leftover != ALIVE)

/* The lock, as the server knows it. */
#define FREE	0
#define OURS	1
#define THEIRS	2

byte holder = FREE;
byte server_left = 0;	/* ticks left of our lease, as the server counts */

/* The one request that is under way. */
#define IDLE	0
#define SENT	1	/* on its way to the server, perhaps for ever */
#define YES	2	/* on its way back */
#define NO	3	/* on its way back */
#define ACQUIRE	0
#define RENEW	1
#define RELEASE	2

byte call = IDLE;
byte verb = ACQUIRE;
byte sent_ago = 0;	/* ticks since a request was sent, at most LEASE */

/* The memory that the three processes share. */
#define UNMADE	0
#define MADE	1	/* by the keeper, which holds the lock */
#define TAKEN	2	/* by the guard */
#define WITHDRAWN 3	/* by the keeper */
#define CLOSED	4	/* by the supervisor */

byte offer = UNMADE;
byte lease_left = NEVER;	/* ticks left of our lease, as the keeper published it */

/* What the processes have told each other. */
bool run_order = false;		/* supervisor to guard */
bool release_order = false;	/* supervisor to keeper */
bool tree_dead_byte = false;	/* guard to keeper, in the pipe */
bool last_event = false;	/* guard to supervisor: the tree is dead */

byte timer_left = NEVER;	/* the guard's kernel timer that kills it */
byte wake_left = NEVER;		/* the one that continues it; 0: again and again */
byte start_left = NEVER;	/* until it is too late for the guard to start the command */
byte guard_grace = 0;		/* until the guard sends KILL */
byte offer_left = 0, word_left = 0;

byte faults = FAULTS;		/* that may still come */
bool busy = true;		/* more may come from outside before the next tick */
bool excused = false;		/* nobody of dlock is left to end the leftover */

/*
 * The search ends where nothing that is still to come can break what is checked: no overlap once
 * the command and its leftover have ended or cannot start any more; and no lock that is kept for
 * ever once the keeper sends no renewals any more, for then its lease runs out.
 */
#ifdef CHECK_FREED
#ifdef FILE_LOCK
#define over	(command == ENDED && holder != OURS)
#else
#define over	(keeper == DEAD || verb == RELEASE)
#endif
#elif defined(CHECK_TIME) || defined(CHECK_STEPS)
#define over	false
#else
#define over	(leftover != ALIVE && (command == ENDED || (command == NONE && \
		 (guard == DEAD || offer == WITHDRAWN || offer == CLOSED))))
#endif

/* ---- the kernel ---- */

/* The lock of `file:` is free once no process has its descriptor. */
inline close_descriptor(other)
{
#ifdef FILE_LOCK
	holder = (other == DEAD && holder == OURS -> FREE : holder)
#else
	skip
#endif
}

/* PR_SET_PDEATHSIG: the command dies with the guard, its parent. */
inline guard_dies()
{
#ifndef NO_PDEATHSIG
	command = (command == ALIVE -> ENDED : command);
#endif
	timer_left = NEVER;
	wake_left = NEVER;
	start_left = NEVER;
	guard_grace = 0;
	close_descriptor(supervisor);
	guard = DEAD
}

inline supervisor_dies()
{
	word_left = 0;
	close_descriptor(guard);
	supervisor = DEAD
}

inline keeper_dies()
{
	offer_left = 0;
	keeper = DEAD
}

/*
 * timer_create() with SIGKILL: it also ends a guard that is stopped. Another one, with SIGCONT,
 * wakes the guard whenever it has to act, be it asleep or stopped, until it is set again.
 */
active proctype kernel()
{
	do
	:: d_step { timer_left == 0 && guard != DEAD -> guard_dies() }
#ifdef WAKE_ONCE
	:: d_step { wake_left == 0 && guard != DEAD ->
			guard = (guard == STOPPED -> RUNS : guard); wake_left = NEVER }
#elif !defined(NO_WAKE_TIMER)
	:: d_step { wake_left == 0 && guard == STOPPED -> guard = RUNS }
#endif
	od
}

/* ---- the supervisor ---- */

active proctype supervisor_process() provided (supervisor == RUNS && !over)
{
#ifdef FILE_LOCK
	atomic { holder = OURS; offer = TAKEN; }
	run_order = true;
#else
	do
	/* The guard takes the offer when it is ordered. */
	:: offer == MADE -> run_order = true; break
	:: d_step { keeper == DEAD || guard == DEAD -> offer = CLOSED };
		goto give_back
	od;
#endif
	do
	:: last_event -> break
	:: guard == DEAD && !last_event -> goto end_tree
	/* The second pair of eyes: the lease ends, and the guard has not acted. */
	:: d_step { lease_left == 0 && guard != DEAD && !last_event -> guard_dies() };
		goto end_tree
#ifndef NO_WATCH_GUARD
	:: d_step { guard == STOPPED -> guard = RUNS }
#endif
	od;
	goto give_back;
end_tree:
	/* The supervisor is a subreaper: what the guard left are its own children now. */
	do
	:: d_step { command == ALIVE -> command = ENDED }
	:: d_step { leftover == ALIVE -> leftover = ENDED }
	:: tree_dead -> break
	od;
give_back:
#ifdef FILE_LOCK
	atomic { holder = (holder == OURS -> FREE : holder) }
#endif
	atomic { release_order = true; word_left = WORD }
	atomic { keeper == DEAD || word_left == 0 -> keeper_dies() }
	atomic { guard_dies() }
	atomic { supervisor_dies() }
	false
}

/* ---- the guard ---- */

/*
 * The timer that kills stands at the end of the lease as it is known now, until the command is
 * dead. It is not set to what has passed.
 */
inline arm_timer()
{
#ifndef NO_KERNEL_TIMER
	timer_left = (command == ENDED -> NEVER : (lease_left == 0 -> timer_left : lease_left))
#else
	skip
#endif
}

/*
 * It falls asleep, to be woken when it must act. Half of the lease is over with TERM_AT left. That
 * is one step for two timers: one that is stopped between the two is woken earlier, as the second
 * one was set before, and sets it then.
 */
inline sleep()
{
	arm_timer();
	start_left = NEVER;
	wake_left = (!stopping -> lease_left - TERM_AT :
		     (lease_left - KILL_AT < guard_grace -> lease_left - KILL_AT : guard_grace));
	awake = false
}

/*
 * Before the lock is the guard's. Whether it is too late to start is judged by the lease as it was
 * read first, for no timer is set to one that has ended, even if it is renewed then.
 */
inline read_lease()
{
	atomic { start_left = (lease_left == NEVER -> NEVER :
			       (lease_left > TERM_AT -> lease_left - TERM_AT : 0)) }
}

inline arm()
{
	atomic { arm_timer() }
	atomic { wake_left = start_left }
}

inline arm_first()
{
	read_lease();
#if !defined(ARM_LATE) && !defined(ARM_AFTER_TAKING)
	arm()
#endif
}

#define too_late	(start_left == 0)

inline take_timers_back()
{
	atomic { wake_left = NEVER }
	atomic { timer_left = NEVER }
}

#define guard_must_stop	(!stopping && (supervisor == DEAD || lease_left <= TERM_AT || \
			 (command == ENDED && leftover == ALIVE)))
#define guard_must_kill	(stopping && (guard_grace == 0 || lease_left <= KILL_AT))

active proctype guard_process() provided (guard == RUNS && !over)
{
	bool stopping = false, awake = true;

	if
	:: run_order -> arm_first()
	:: supervisor == DEAD && !run_order -> goto leave
	fi;
	/* The offer may have been withdrawn before the order came. */
	if
	:: d_step { offer == MADE -> offer = TAKEN }
	:: offer == WITHDRAWN -> goto finish
	:: offer == TAKEN
	fi;
#ifdef ARM_AFTER_TAKING
	arm();
#endif
	if
	:: too_late -> goto finish
	:: !too_late
	fi;
	command = ALIVE;
#ifdef ARM_LATE
	arm();
#endif
	do
	:: d_step { (awake || wake_left == 0 || wake_left == NEVER) &&
			!guard_must_stop && !guard_must_kill && !tree_dead &&
			(stopping || lease_left != NEVER) -> sleep() }
	:: d_step { guard_must_stop && !tree_dead ->
			stopping = true; guard_grace = GRACE; awake = true }
	:: d_step { guard_must_kill && command == ALIVE -> command = ENDED }
	:: d_step { guard_must_kill && leftover == ALIVE -> leftover = ENDED }
	/* The timer would end the command only: a slow guard is better than none now. */
	:: d_step { command == ENDED && timer_left != NEVER && !tree_dead -> arm_timer() }
	:: d_step { tree_dead -> stopping = false; awake = false; start_left = NEVER } break
	od;
finish:
#ifdef DISARM_EARLY
	take_timers_back();
#endif
#ifdef FILE_LOCK
	atomic { holder = (holder == OURS -> FREE : holder) }
#endif
	tree_dead_byte = true;
#ifndef DISARM_EARLY
	/* Only now: stopped before the keeper was told, it would keep the lock. */
	take_timers_back();
#endif
	last_event = true;
	supervisor == DEAD;
leave:
	atomic { guard_dies() }
	false
}

/* ---- the keeper ---- */

inline send(what)
{
	call = SENT;
	verb = what;
	sent_ago = 0
}

/* The lease counts from before the send. */
inline publish()
{
#ifdef LEASE_FROM_REPLY
	lease_left = LEASE;
#else
	lease_left = LEASE - sent_ago;
#endif
	call = IDLE
}

/*
 * The keeper gives up a request after a while, and in any case when the command must be dead. After
 * that it renews no more.
 */
#define call_failed	(sent_ago >= CALL || lease_left <= KILL_AT)
#define call_allowed	(lease_left > KILL_AT)

/* The lease is left to lapse then, because the leftover may live. */
#define keeper_is_last	(guard == DEAD && supervisor == DEAD)
#define keeper_must_release	(tree_dead_byte || release_order)
#define keeper_is_busy	(keeper_must_release || keeper_is_last)
#define keeper_may_call	(!keeper_is_busy && sent_ago > 0 && call_allowed)

#ifndef FILE_LOCK
active proctype keeper_process() provided (keeper == RUNS && !over)
{
	atomic { send(ACQUIRE) }
	if
	:: d_step { call == YES -> publish() }
	:: call != YES && sent_ago >= CALL -> goto release
	fi;
	if
	:: d_step { offer == UNMADE -> offer = MADE; offer_left = OFFER }
	:: offer != UNMADE -> goto release
	fi;
	do
	:: offer == TAKEN -> break
	:: offer == CLOSED -> goto release
	:: d_step { offer == MADE && (offer_left == 0 || supervisor == DEAD) ->
			offer = WITHDRAWN };
		goto release
	od;
	do
	:: keeper_must_release -> break
	:: keeper_is_last && !keeper_must_release -> goto leave
	:: d_step { keeper_may_call -> send(RENEW) };
		if
		:: d_step { call == YES -> publish() }
		/* The lock is lost: its lease has no time left. */
		:: d_step { call == NO -> call = IDLE; lease_left = 0 }
		:: d_step { call != YES && call_failed -> skip }
		fi
	od;
release:
	atomic { send(RELEASE) }
	call == YES || call == NO || sent_ago >= CALL;
leave:
	atomic { call = IDLE; keeper_dies() }
	false
}
#endif

/* ---- all that may happen, or may not ---- */

inline serve()
{
#ifdef CHECK_FREED
	/* A lease may have run out, or not: only what the keeper does is checked. */
	holder = OURS;
	if
	:: call = YES
	:: verb == RENEW -> call = NO
	fi
#else
	if
	:: verb == ACQUIRE && holder != THEIRS -> holder = OURS; server_left = TTL; call = YES
	:: verb == RENEW && holder == OURS -> server_left = TTL; call = YES
	:: verb == RELEASE && holder == OURS -> holder = FREE; server_left = 0; call = YES
	:: else -> call = NO
	fi
#endif
}

#define somebody_is_left	(supervisor != DEAD || guard != DEAD || keeper != DEAD)

/*
 * Who of dlock goes on, and ends what is left. A guard that is stopped is woken in time: it has set
 * the timer for that before the command could start.
 */
#ifdef FILE_LOCK
#define guard_wakes	(guard == STOPPED && wake_left != NEVER)	/* there is no lease */
#else
#define guard_wakes	(guard == STOPPED)
#endif
#define guard_acts	(guard == RUNS || guard_wakes)
#define somebody_acts	(supervisor == RUNS || guard_acts)

/*
 * After a fault: is anybody left who could end the leftover? One signal must never get that far,
 * unless it kills all three; and none that only stops.
 */
inline count_fault(kills_all)
{
	faults--;
#ifdef CHECK_OVERLAP
	excused = (!somebody_acts && (kills_all || faults + 1 < FAULTS) -> true : excused)
#endif
}

/* Who is continued before the lease ends has the time to end the leftover. */
inline count_relief()
{
#ifdef CHECK_OVERLAP
	excused = (somebody_acts && lease_left > 0 -> false : excused)
#else
	skip
#endif
}

#define fault(kind)	busy && faults > 0 && (KINDS & kind) != 0

active proctype environment() provided (!over)
{
	do
	:: busy -> busy = false
	/* The network is as slow as it likes. */
	:: atomic { busy && call == SENT -> serve() }
	/* The command works, forks, and ends when it likes; TERM only says that it may. */
	:: d_step { busy && command == ALIVE && leftover == NONE -> leftover = ALIVE }
	:: d_step { busy && command == ALIVE -> command = ENDED }
	:: d_step { busy && leftover == ALIVE -> leftover = ENDED }
	/* Somebody continues what was stopped. */
	:: d_step { busy && supervisor == STOPPED -> supervisor = RUNS; count_relief() }
	:: d_step { busy && guard == STOPPED -> guard = RUNS; count_relief() }
	:: d_step { busy && keeper == STOPPED -> keeper = RUNS; count_relief() }

	:: d_step { fault(KILL_ONE) && supervisor != DEAD -> printf("kill supervisor\n");
			supervisor_dies(); count_fault(false) }
	:: d_step { fault(KILL_ONE) && guard != DEAD -> printf("kill guard\n");
			guard_dies(); count_fault(false) }
	:: d_step { fault(KILL_ONE) && keeper != DEAD -> printf("kill keeper\n");
			keeper_dies(); count_fault(false) }
	:: d_step { fault(STOP_ONE) && supervisor == RUNS -> printf("stop supervisor\n");
			supervisor = STOPPED; count_fault(false) }
	:: d_step { fault(STOP_ONE) && guard == RUNS -> printf("stop guard\n");
			guard = STOPPED; count_fault(false) }
	:: d_step { fault(STOP_ONE) && keeper == RUNS -> printf("stop keeper\n");
			keeper = STOPPED; count_fault(false) }
	:: d_step { fault(FREEZE_GUARD) && guard == RUNS -> printf("freeze guard\n");
			guard = FROZEN; count_fault(false) }
#ifdef NO_OWN_GROUP
	:: d_step { fault(KILL_GROUP) && (supervisor != DEAD || guard != DEAD) ->
			printf("kill group\n");
			supervisor_dies(); guard_dies(); count_fault(false) }
	:: d_step { fault(STOP_GROUP) && (supervisor == RUNS || guard == RUNS) ->
			printf("stop group\n");
			supervisor = (supervisor == RUNS -> STOPPED : supervisor);
			guard = (guard == RUNS -> STOPPED : guard);
			count_fault(false) }
#else
	/* The supervisor is alone in its group. */
	:: d_step { fault(KILL_GROUP) && supervisor != DEAD -> printf("kill group\n");
			supervisor_dies(); count_fault(false) }
	:: d_step { fault(STOP_GROUP) && supervisor == RUNS -> printf("stop group\n");
			supervisor = STOPPED; count_fault(false) }
#endif
	:: d_step { fault(KILL_ALL) && somebody_is_left -> printf("kill all\n");
			supervisor_dies(); keeper_dies(); guard_dies(); count_fault(true) }
	:: d_step { fault(STOP_ALL) && somebody_is_left -> printf("stop all\n");
			supervisor = (supervisor == RUNS -> STOPPED : supervisor);
			guard = (guard == RUNS -> STOPPED : guard);
			keeper = (keeper == RUNS -> STOPPED : keeper);
			count_fault(false) }
	od
}

/* ---- time ---- */

inline less(countdown)
{
	countdown = (countdown > 0 && countdown != NEVER -> countdown - 1 : countdown)
}

active proctype clock() provided (!over)
{
	do
	:: atomic { timeout ->
		printf("tick\n");
		less(lease_left); less(timer_left);
		less(wake_left); less(start_left); less(guard_grace);
		less(offer_left); less(word_left);
		sent_ago = (sent_ago < (call == IDLE -> 1 : LEASE) -> sent_ago + 1 : sent_ago);
		holder = (server_left == 1 && holder == OURS -> FREE : holder);
		less(server_left);
		busy = true }
#ifdef CHECK_TIME
progress:	skip
#endif
	od
}

/* ---- what must hold ---- */

#ifdef CHECK_OVERLAP
/* Nobody else can have the lock while the command lives, or its leftover. */
active proctype contender()
{
	atomic { holder == FREE && (command == ALIVE || (leftover == ALIVE && !excused)) ->
		holder = THEIRS };
	assert(false)
}
#endif

#ifdef CHECK_FREED
/*
 * Unless the command runs, the lock is free in the end: the keeper lets go of it, or is dead or
 * stopped, or renews no more, so that its lease runs out. It may be kept while a debugger holds the
 * guard, which no timer kills any more, or while the guard is dead and the supervisor stopped. A lock
 * of `file:` has no lease: it may be kept while a debugger holds the guard, or everybody who could
 * give it back is stopped, and by a supervisor that was stopped as it obtained it.
 */
#define guard_is_stuck	(guard == FROZEN && timer_left == NEVER && offer == TAKEN)
#ifdef FILE_LOCK
ltl freed { [] (command == ENDED -> <> (holder != OURS || !somebody_acts || guard == FROZEN)) }
#else
ltl freed {
	[] (command != ALIVE && holder == OURS ->
	    <> (over || command == ALIVE || keeper != RUNS || lease_left == 0 ||
		guard_is_stuck || (guard == DEAD && supervisor == STOPPED)))
}
#endif
#endif
