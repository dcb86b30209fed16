-- The strategy table: LOCK TABLES on the table that has the name of the lock. Whoever wants to
-- write to the table, or with WRITE also to read it, waits as dlock does.

-- name: table_tables
-- The table that `dlock check` locks.
CREATE TABLE IF NOT EXISTS dlock_probe (
  name VARBINARY(200) NOT NULL PRIMARY KEY
) ENGINE = InnoDB;
{session_tables}

-- name: table_grants
-- SELECT is enough on each table that is to be locked.
GRANT LOCK TABLES, SELECT ON {database}.* TO {account};
{session_grants}

-- name: table_try
-- Locks the table if it is free. From now on the connection may be idle for {idle} s (see
-- session_parts.h).
SET SESSION wait_timeout = {idle};
LOCK TABLES {table} {lock} {nowait};
SELECT 1, {session_facts};

-- name: table_wait
-- Waits for the table. A client that hangs when it gets the lock is disconnected after {hung} s.
SET SESSION wait_timeout = {hung}, lock_wait_timeout = {limit};
LOCK TABLES {waiter} {table} {lock};
SELECT 1, {session_facts};

-- name: table_release
-- While the table is locked this connection cannot write to any other table, so the registration
-- ends afterwards.
SELECT 1, {session_facts};
UNLOCK TABLES;
{session_leave}

-- name: table_probe
LOCK TABLES {table} {lock} {nowait};
UNLOCK TABLES;
