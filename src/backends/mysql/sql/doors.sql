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
GRANT SELECT, INSERT, UPDATE ON {database}.dlock_rows TO {user}@'%';
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

-- name: door_settings
-- For a client that tries to pass a door, or has passed it: for how long the connection may be idle,
-- and waits for other clients. A limit of 0 s is 1 s for Oracle's server. Also lifts MariaDB's limits
-- for idle transactions.
SET SESSION wait_timeout = {idle}, innodb_lock_wait_timeout = {limit}, lock_wait_timeout = {limit}
  /*M!100300 , idle_transaction_timeout = 0, idle_readonly_transaction_timeout = 0,
  idle_write_transaction_timeout = 0 */;

-- name: door_facts
-- The columns about the session in each proof, behind "has it the door?". A proof shows that this is
-- still the session that has the door, and keeps the connection from being idle.
CONNECTION_ID(), @@SESSION.wait_timeout, {read_only}

-- name: row_begin
INSERT IGNORE INTO dlock_rows (name) SELECT {name} FROM DUAL
  WHERE NOT EXISTS (SELECT 1 FROM dlock_rows r WHERE name = {name});
START TRANSACTION;

-- name: row_pass
SELECT /* dlock door {token} */ 1 FROM dlock_rows WHERE name = {name} {clause} {nowait};

-- name: row_prove
SELECT COUNT(*), {door_facts} FROM dlock_rows WHERE name = {name};

-- name: row_open
COMMIT;

-- name: advisory_key
-- The name of a lock in the server, which has at most 64 characters, and the server may ignore case
-- and accents. A name without such characters is used as it is, and any other one by its digest.
IF(LENGTH({name}) <= 64 AND
  CONVERT({name} USING utf8mb4) COLLATE utf8mb4_bin NOT REGEXP '[^-a-z0-9_.:/+=@,#]',
  CONVERT({name} USING utf8mb4), CONCAT('dlock:', LEFT(SHA2({name}, 256), 48)))

-- name: advisory_pass
SELECT /* dlock door {token} */ GET_LOCK({advisory_key}, {limit});

-- name: advisory_prove
SELECT IS_USED_LOCK({advisory_key}) = CONNECTION_ID(), {door_facts};

-- name: advisory_open
DO RELEASE_LOCK({advisory_key});

-- name: advisory_probe
SELECT IS_USED_LOCK({advisory_key});

-- name: table_pass
LOCK TABLES /* dlock door {token} */ {table} {clause};
SELECT 1;

-- name: table_prove
SELECT 1, {door_facts};

-- name: table_open
UNLOCK TABLES;
