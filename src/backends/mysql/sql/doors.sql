-- The doors of the strategies row, advisory and table: locks of the server, which other programs
-- can use, too. A client passes the door when it has the entry of the lock (sql/entries.sql).
-- end_stale finds a statement that waits by its comment.

-- name: row_tables
-- The rows that are locked.
CREATE TABLE IF NOT EXISTS dlock_rows (
  name VARBINARY(200) NOT NULL PRIMARY KEY
) ENGINE = InnoDB;
{entries_tables}

-- name: row_grants
GRANT SELECT, INSERT ON {database}.dlock_rows TO {user}@'%';
{entries_grants}

-- name: table_tables
-- The table that `dlock check` locks.
CREATE TABLE IF NOT EXISTS dlock_probe (
  name VARBINARY(200) NOT NULL PRIMARY KEY
) ENGINE = InnoDB;
{entries_tables}

-- name: table_grants
-- SELECT is enough on each table that is to be locked.
GRANT LOCK TABLES, SELECT ON {database}.* TO {user}@'%';
{entries_grants}

-- name: door_facts
-- The columns about the session in each answer about a door, behind "has it the door?".
CONNECTION_ID(), @@SESSION.wait_timeout, {read_only}

-- name: door_confirm
-- For a client that is awake and has the door: the connection may be idle for a whole lease, and
-- does not wait long for other locks. A proof follows.
SET SESSION wait_timeout = {idle}, innodb_lock_wait_timeout = 1, lock_wait_timeout = 1;

-- name: door_prove
-- Proves that this is still the session that has the door. The request keeps the connection from
-- being idle.
SELECT 1, {door_facts};

-- name: row_try
-- Locks the row if it is free. Does not make a missing row, because then the client could not
-- distinguish a row that it has made from one that it has locked. Also lifts MariaDB's limits for
-- idle transactions.
SET SESSION wait_timeout = {idle}
  /*M!100300 , idle_transaction_timeout = 0, idle_readonly_transaction_timeout = 0,
  idle_write_transaction_timeout = 0 */;
START TRANSACTION;
SELECT 1, {door_facts} FROM dlock_rows WHERE name = {name} {clause} {nowait};

-- name: row_make
ROLLBACK;
INSERT IGNORE INTO dlock_rows (name) VALUES ({name});

-- name: door_ready
-- A client that hangs when it gets the door is disconnected after {hung} s. The statement that
-- waits is alone in the next packet, so that no answer precedes its end. It ends after {limit} s.
SET SESSION wait_timeout = {hung}, innodb_lock_wait_timeout = {limit}, lock_wait_timeout = {limit};

-- name: row_ready
{door_ready}
START TRANSACTION;

-- name: row_wait
SELECT /* dlock door {token} */ 1, {door_facts} FROM dlock_rows WHERE name = {name} {clause};

-- name: row_open
SELECT 1, {door_facts};
COMMIT;

-- name: row_probe
START TRANSACTION;
SELECT 1 FROM dlock_rows WHERE name = {name} {clause} {nowait};
ROLLBACK;

-- name: advisory_try
SET SESSION wait_timeout = {idle};
SELECT GET_LOCK({key}, 0), {door_facts};

-- name: advisory_wait
SELECT /* dlock door {token} */ GET_LOCK({key}, {limit}), {door_facts};

-- name: advisory_prove
SELECT IS_USED_LOCK({key}) = CONNECTION_ID(), {door_facts};

-- name: advisory_open
SELECT RELEASE_LOCK({key}), {door_facts};

-- name: advisory_probe
SELECT IS_USED_LOCK({key});

-- name: table_try
SET SESSION wait_timeout = {idle};
LOCK TABLES {table} {clause} {nowait};
SELECT 1, {door_facts};

-- name: table_wait
LOCK TABLES /* dlock door {token} */ {table} {clause};

-- name: table_open
SELECT 1, {door_facts};
UNLOCK TABLES;

-- name: table_probe
LOCK TABLES {table} {clause} {nowait};
UNLOCK TABLES;
