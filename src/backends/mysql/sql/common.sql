-- Parts that the texts of several strategies use, and what every connection needs.

-- name: now
-- The server's clock in microseconds since the epoch, taken when the statement begins.
-- UTC_TIMESTAMP is free of time zones and daylight saving.
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))

-- name: read_only
-- True on a server that takes writes from administrators only, as a primary does that was replaced.
-- An account that may write there all the same must neither take nor extend a lock: the next
-- primary knows nothing of it. Some servers give the variable as 0 or 1, some as a word.
(CONCAT(@@GLOBAL.read_only) NOT IN ('0', 'OFF'))

-- name: writable
-- True; on a server that is read-only an error (MYSQL_READ_ONLY), also for administrators.
(~0 + {read_only})

-- name: is_writable
SET @writable = {writable};

-- name: session
-- The settings that precede the first request of every connection, so that the statements do not
-- depend on the server's defaults. Time limits of statements are meant for users' queries and are
-- lifted, because waiters sleep in a statement. @home is the account and the server: only
-- connections of one home can wake each other.
SET SESSION autocommit = 1, completion_type = 0, sql_mode = '', time_zone = '+00:00',
  wait_timeout = 86400, innodb_lock_wait_timeout = 1, lock_wait_timeout = 1
  /*M!100101 , max_statement_time = 0, tx_isolation = 'READ-COMMITTED' */
  /*!50720 , max_execution_time = 0, transaction_isolation = 'READ-COMMITTED' */,
  @home = CONCAT(CURRENT_USER(), ' ', @@hostname, ':', @@port);

-- name: end_stale
-- Ends a connection that we have closed, if it is still at a statement with the digest of our token.
-- Behind a balancer or after a restart of the server, the number may be that of a stranger's
-- connection.
SET @stale = NULL;
SELECT ID INTO @stale FROM information_schema.PROCESSLIST
  WHERE ID = {stale} AND INSTR(INFO, LOWER(HEX({token})));
KILL CONNECTION @stale;

-- name: kill_connection
KILL CONNECTION {connection};
