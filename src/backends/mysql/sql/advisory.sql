-- The strategy advisory: GET_LOCK() on a name, which the server keeps for all its databases
-- together.

-- name: advisory_try
-- Takes the lock if it is free. From now on the connection may be idle for {idle} s (see
-- session_parts.h).
SET SESSION wait_timeout = {idle};
SELECT GET_LOCK({key}, 0), {session_facts};

-- name: advisory_wait
-- Waits for the lock. A client that hangs when it gets the lock is disconnected after {hung} s.
SET SESSION wait_timeout = {hung};
SELECT {waiter} GET_LOCK({key}, {limit}), {session_facts};

-- name: advisory_confirm
-- The client is awake and has the lock: from now on the connection may be idle for a whole lease.
SET SESSION wait_timeout = {idle};
SELECT IS_USED_LOCK({key}) = CONNECTION_ID(), {session_facts};

-- name: advisory_prove
-- Proves that the lock is still ours. The question itself keeps the connection from being idle.
SELECT IS_USED_LOCK({key}) = CONNECTION_ID(), {session_facts};

-- name: advisory_renew
-- The proof comes first, so that it is answered also where the server refuses to write. The end of
-- the lease is counted from before this request was sent, and so is earlier than dead_by.
{advisory_prove}
{session_extend}

-- name: advisory_owner
SELECT IS_USED_LOCK({key});

-- name: advisory_release
{session_end}
SELECT RELEASE_LOCK({key}), {session_facts};
