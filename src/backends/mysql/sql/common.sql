-- Parts that the texts of several strategies use, and what every connection needs.

-- name: now
-- The server's clock in microseconds since the epoch, taken when the statement begins.
-- UTC_TIMESTAMP is free of time zones and daylight saving.
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))

-- name: read_only
-- True on a server that accepts writes from administrators only, such as a replaced primary. Even
-- an account that may write there must neither take nor extend a lock, because the new primary does
-- not get it. Some servers return the variable as 0 or 1, some as a word.
(CONCAT(@@GLOBAL.read_only) NOT IN ('0', 'OFF'))

-- name: writable
-- True; an error (MYSQL_READ_ONLY) on a read-only server, also for administrators.
(~0 + {read_only})

-- name: is_writable
SET @writable = {writable};

-- name: outside
-- True on a member of Group Replication that is not part of its group, such as an old primary that
-- was started again, or whose group has no majority: what it commits is lost, or waits for others.
SELECT COALESCE(SUM(member_state = 'UNREACHABLE') * 2 >= COUNT(*) OR
    SUM(member_id IN ('', @@server_uuid) AND member_state <> 'ONLINE') > 0, 0)
  FROM performance_schema.replication_group_members

-- name: is_outside
SELECT /*!80000 ({outside}) OR */ 0;

-- name: session
-- The settings that precede the first request of each connection, so that statements do not depend
-- on the server's defaults. Lifts time limits of statements, because waiters sleep in one. A wait for
-- a row that has changed by then is no error: MariaDB since 11.6.2 would report one (1020).
-- max_join_size is before sql_big_selects, which it changes. tx_read_only stays as it is, because an
-- administrator may have set it to keep writers out. @home is the account and the server: only
-- connections of one home can wake each other. All is one statement, because KILL QUERY between two
-- would drop the second one.
SET SESSION autocommit = 1, completion_type = 0, sql_mode = 'NO_ENGINE_SUBSTITUTION', time_zone = '+00:00',
  sql_select_limit = 18446744073709551615, max_join_size = 18446744073709551615,
  sql_big_selects = 1, sql_safe_updates = 0, unique_checks = 1, div_precision_increment = 4,
  wait_timeout = 86400, innodb_lock_wait_timeout = 1, lock_wait_timeout = 1
  /*M!100101 , max_statement_time = 0, tx_isolation = 'READ-COMMITTED' */
  /*M!110602 , innodb_snapshot_isolation = 0 */
  /*!50720 , max_execution_time = 0, transaction_isolation = 'READ-COMMITTED' */,
  NAMES utf8mb4, @home = CONCAT(CURRENT_USER(), ' ', @@hostname, ':', @@port);

-- name: interrupt
-- MariaDB's SLEEP() of all connections has one mutex. A sleep that begins or ends at the moment of an
-- interrupt has this mutex and waits for the end of the interrupt, which waits for the mutex: for 2 s
-- no sleep begins or ends. So clients interrupt one at a time there, each waits until the sleep has
-- ended, and the others wait for longer than that: an interrupt would stop the sleeps again.
/*M!100301 BEGIN NOT ATOMIC
  DECLARE CONTINUE HANDLER FOR SQLEXCEPTION DO 0;
  DO GET_LOCK('dlock interrupts', 3); */

-- name: interrupt_end
; /*M!100301 DO SLEEP(0.001); DO RELEASE_LOCK('dlock interrupts'); END *//*!50700 DO 0 */;

-- name: end_stale
-- Ends a connection that we have closed, if it is still in a statement with the digest of our
-- token. Behind a balancer or after a restart of the server, another client may have this number.
SET @stale = NULL;
SELECT ID INTO @stale FROM information_schema.PROCESSLIST
  WHERE ID = {stale} AND INSTR(INFO, LOWER(HEX({token})));
{interrupt} KILL CONNECTION @stale {interrupt_end}

-- name: kill_connection
KILL CONNECTION {connection};
