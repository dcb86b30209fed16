-- Parts that the texts of several strategies use, and what every connection needs.

-- name: now
-- The server's clock in microseconds since the epoch, taken when the statement begins.
-- UTC_TIMESTAMP is free of time zones and daylight saving.
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))

-- name: clock
-- The server's clock at the moment of evaluation; on a Galera node {now} is the moment when the
-- whole request began. SYSDATE must not be used in statements that a statement-based log replays.
-- The session's time zone is UTC.
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6))

-- name: read_only
-- True on a server that takes writes from administrators only, as a primary does that was replaced.
-- An account that may write there all the same must neither take nor extend a lock: the next
-- primary knows nothing of it. Some servers give the variable as 0 or 1, some as a word.
(CONCAT(@@GLOBAL.read_only) NOT IN ('0', 'OFF'))

-- name: own_ttl
-- The TTL in ms that the column owner begins with (see lock/holder.h). Where an older dlock noted
-- none, the usual TTL is taken, but no less than what is left of the lease.
IF(owner LIKE 'ttl=%', CAST(SUBSTRING_INDEX(SUBSTRING(owner, 5), '&', 1) AS UNSIGNED),
  GREATEST(expires - @now, {usual}) DIV 1000)

-- name: no_ttl
-- The column owner without its TTL, and without the note that the lock is kept: the hold goes on.
SUBSTRING_INDEX(IF(owner LIKE 'ttl=%', SUBSTRING(owner, LOCATE('&', owner) + 1), owner),
  '&kept=', 1)

-- name: kept
-- The column owner of a hold that was released, and that stays taken until expires for its minimum
-- hold (see lock/holder.h). The column keep is 0 but for a hold of dlock acquire.
CONCAT(SUBSTRING_INDEX(owner, '&kept=', 1), '&kept=', expires DIV 1000, IF(keep > 0, '&min=1', ''))

-- name: renewed
-- Extends a hold by {ttl} microseconds, or by the hold's own TTL when {ttl} is 0, and notes the
-- TTL in owner. Assignments are made from left to right.
owner = CONCAT('ttl=', IF({ttl} > 0, {ttl} DIV 1000, {own_ttl}), '&', {no_ttl}),
expires = @now + 1000 * {own_ttl}

-- name: session
-- The settings that precede the first request of every connection, so that the statements do not
-- depend on the server's defaults. Time limits of statements are meant for users' queries and are
-- lifted, because waiters sleep in a statement. @cluster is true where GET_LOCK works on one node
-- alone; {cluster} is empty where the server has no such variable.
SET SESSION autocommit = 1, completion_type = 0, sql_mode = '', time_zone = '+00:00',
  wait_timeout = 86400, innodb_lock_wait_timeout = 1, lock_wait_timeout = 1
  /*M!100101 , max_statement_time = 0 */ /*!50708 , max_execution_time = 0 */,
  @cluster = 0 {cluster};
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;

-- name: session_cluster
/*M!100101 + @@wsrep_on */

-- name: kill_connection
KILL CONNECTION {connection};

-- name: kill_waiter
-- Ends a connection if it is at a statement in which {comment} stands (see words_add_waiter()).
-- Behind a balancer or after a restart of the server, the number may be that of a stranger's
-- connection.
SET @ours = NULL;
SELECT id INTO @ours FROM information_schema.PROCESSLIST
  WHERE id = {connection} AND INSTR(info, {comment});
KILL CONNECTION @ours;

-- name: simple_kill
-- The same for the statements of struct simple_kind, in which the digest of the token stands.
SET @ours = NULL;
SELECT id INTO @ours FROM information_schema.PROCESSLIST WHERE id = {connection} AND
  (INSTR(info, LOWER(HEX({token}))) OR INSTR(info, LOWER(HEX({by}))));
KILL CONNECTION @ours;

-- name: kill_query
-- Interrupts a connection only while it sleeps. If the server interrupted a request between two
-- statements, it would drop the rest without telling the client.
SET @sleeper = NULL;
SELECT id INTO @sleeper FROM information_schema.PROCESSLIST
  WHERE id = {connection} AND state IN ('User sleep', 'User lock');
KILL QUERY @sleeper;

-- name: waiters
-- Waiters say in a comment what they wait for. CONCAT keeps this statement from looking like a
-- waiter itself.
SELECT ID, TIME * 1000, INFO FROM information_schema.PROCESSLIST
  WHERE INFO LIKE CONCAT('%/* dl', 'ock ', {mark}, ' %') ORDER BY ID;

-- name: waiters_watch
-- Wakes the client after {pause} s to look again: the server does not announce the end of a hold.
DO SLEEP({pause});

-- name: simple_doze
-- A waiter pauses in this statement, so that the list of processes shows who waits for what.
DO {waiter} SLEEP({pause} / 1000);

-- name: has_table
-- Whoever only looks creates no tables, and so has to know whether there is one.
SELECT COUNT(*) FROM information_schema.TABLES
  WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '{table}';
