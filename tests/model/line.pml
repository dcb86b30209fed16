/* SPDX-License-Identifier: MIT */
/*
 * A model of the line in which clients wait for a lock, for the model checker Spin. README.md beside
 * this file says what is checked and what each switch takes out.
 *
 * A release frees the lock and calls the first in line, which takes it like anybody else: nobody is
 * handed a lock. Between a call and a take the line is a barrier that no newcomer passes. A waiter
 * that was called and does not take within LATE ticks is evicted by the next one that looks. Each
 * inline below that the server carries out is one step: a script, a transaction, or one write.
 *
 * A tick passes when no client that runs has anything to do at once: clients are quicker than a
 * tick, but for those that hang. The commands of a holder that hangs end before its lease: that is
 * for dlock.pml.
 */
#define CLIENTS	3
#define LATE	1	/* ticks that a called waiter has for taking */
#define LOOK	3	/* a waiter that nobody calls looks so often */
#define TTL	3	/* ticks that the server keeps a hold which nobody renews */
#define WORK	2	/* a holder releases after so many ticks at most */
/* FAULTS: so many messages are lost, and clients die or hang, in one run. SWITCH, instead of a rule: */
#define NOTHING	0
#define NEWCOMERS_PASS	1
#define EVICT_AT_ONCE	2
#define NO_EVICTION	3
#define NO_LOOKS	4
#define CALL_ONE	5
#define HAND_OVER	6
/* For so many ticks there is room for the first in line at most, while one lives that waits. */
#define IDLE_MOST	(faults * LOOK)
/* So many ticks a waiter that lives waits at most. */
#define WAIT_MOST	((CLIENTS - 1) * WORK + faults * (TTL + LOOK))

mtype = { away, comes, naps, holds, dead };

/* The clients. */
mtype does[CLIENTS] = away;
bool hangs[CLIENTS], shares[CLIENTS];
bool called[CLIENTS];		/* a message has come, and was not read yet */
byte left[CLIENTS];		/* ticks of the nap, or of the work */
/* The server. */
bool held[CLIENTS];
byte lease[CLIENTS];
byte line[CLIENTS], length;
bool calling;			/* the first in line was called, and there is room for it */
byte since;			/* ticks for which that has been so */
/* The checks. */
byte faults, idle, waited;

#define runs(i)		(!hangs[i] && does[i] != dead)
#define excludes(i, j)	(i != j && held[j] && !(shares[i] && shares[j]))
#define room(i)		(!excludes(i, 0) && !excludes(i, 1) && !excludes(i, 2))
#define due(i)		(runs(i) && (does[i] == comes || (does[i] == holds && left[i] == 0) || \
			 (does[i] == naps && (called[i] || left[i] == 0))))
#define lives(i)	(runs(i) && does[i] == naps)

/* A message to a waiter, which may be lost. The second in line is told when to look for the first. */
inline send(to, first)
{
	if
	:: faults < FAULTS -> faults++
	:: first -> called[to] = true
	:: !first -> left[to] = (left[to] > LATE + 1 -> LATE + 1 : left[to])
	fi
}

inline call_first()
{
	if
	:: length && !calling && room(line[0]) ->
		calling = true;
		since = 0;
		send(line[0], true);
		if
		:: length > 1 -> send(line[1], false)
		:: else
		fi
	:: else
	fi
}

/* Takes the place at in the line out of it. */
inline leave(at)
{
	calling = calling && at > 0;
	length--;
	line[0] = (at == 0 -> line[1] : line[0]);
	line[1] = (at <= 1 -> line[2] : line[1]);
	line[length] = 0
}

inline take(i)
{
	/* Never two holders whose modes exclude each other. */
	assert(room(i));
	held[i] = true;
	lease[i] = TTL;
	does[i] = holds;
	called[i] = false;
	waited = (i == 0 -> 0 : waited);
	select(n : 0 .. WORK);
	left[i] = n;
	/* There may be room for one more. */
	calling = (SWITCH == CALL_ONE);
	call_first()
}

/* One try of a client: it gets in line unless it is there, evicts a late first, and takes or naps. */
inline try(i)
{
	n = 0;
	do
	:: n < length && line[n] != i -> n++
	:: else -> break
	od;
	if
	:: SWITCH == HAND_OVER && called[i] && n < length -> leave(n); take(i); goto tried
	:: SWITCH == HAND_OVER && called[i] && n == length -> take(i); goto tried
	:: SWITCH == NEWCOMERS_PASS && n == length && room(i) -> assert(!n); take(i); goto tried
	:: else
	fi;
	line[n] = i;
	length = (n == length -> length + 1 : length);
	called[i] = false;
	/*
	 * Nobody overtakes but by eviction, and only of one that is late, or dead, which the server
	 * knows by its connection.
	 */
	do
	:: line[0] != i && (does[line[0]] == dead || (calling && SWITCH != NO_EVICTION &&
						      (since >= LATE || SWITCH == EVICT_AT_ONCE))) ->
		assert(does[line[0]] == dead || since >= LATE);
		leave(0);
		call_first()
	:: else -> break
	od;
	if
	:: line[0] == i && room(i) -> leave(0); take(i)
	:: else ->
		does[i] = naps;
		left[i] = LOOK;
		call_first();
		left[i] = (calling && length > 1 && line[1] == i -> LATE : left[i])
	fi;
tried:	skip
}

inline release(i)
{
	held[i] = false;
	does[i] = away;
	call_first()
}

inline tick()
{
	for (i : 0 .. CLIENTS - 1) {
		/* A holder that runs renews. */
		lease[i] = (held[i] && !(runs(i) && does[i] == holds) -> lease[i] - 1 : lease[i]);
		held[i] = held[i] && lease[i] > 0;
		left[i] = (left[i] && runs(i) && !(SWITCH == NO_LOOKS && does[i] == naps)
			   -> left[i] - 1 : left[i])
	}
	calling = calling && room(line[0]);
	since = (calling && since < LATE -> since + 1 : since);
	/* Each fault, as a call that is lost, costs one look at most. */
	idle = (length && room(line[0]) && (lives(0) || lives(1) || lives(2)) -> idle + 1 : 0);
	assert(idle <= IDLE_MOST);
	/* Every waiter that lives gets its turn. */
	waited = (lives(0) -> waited + 1 : 0);
	assert(waited <= WAIT_MOST)
}

active proctype world()
{
	byte i, n;

	do
	:: atomic {
		select(i : 0 .. CLIENTS - 1);
		if
		:: runs(i) && does[i] == away -> does[i] = comes; select(n : 0 .. 1); shares[i] = n
		:: due(i) && does[i] != holds -> try(i)
		/* Who has lost its lease learns so, and has nothing to give back. */
		:: due(i) && does[i] == holds && held[i] -> release(i)
		:: runs(i) && does[i] == holds && !held[i] -> does[i] = away
		:: runs(i) && faults < FAULTS -> faults++; does[i] = dead; called[i] = false
		:: runs(i) && faults < FAULTS -> faults++; hangs[i] = true
		:: hangs[i] -> hangs[i] = false
		:: !due(0) && !due(1) && !due(2) -> tick()
		fi;
		i = 0; n = 0
	   }
	od
}
