-- The strategy row: SELECT ... FOR UPDATE in a transaction that stays open, through the primary
-- key of dlock_rows. The row is made beforehand, in another transaction.

-- name: row_tables
-- The rows that are locked.
CREATE TABLE IF NOT EXISTS dlock_rows (
  name VARBINARY(200) NOT NULL PRIMARY KEY
) ENGINE = InnoDB;
{session_tables}

-- name: row_grants
GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.dlock_rows TO {account};
{session_grants}

-- name: row_try
-- Locks the row if it is free. A missing row is not created here, because a transaction that has
-- created the row could not be told from one that holds it. From now on the connection may be idle
-- for {idle} s (see session_parts.h); MariaDB has further limits of that kind for transactions,
-- which are lifted.
SET SESSION wait_timeout = {idle}
  /*M!100300 , idle_transaction_timeout = 0, idle_readonly_transaction_timeout = 0,
  idle_write_transaction_timeout = 0 */;
START TRANSACTION;
SELECT 1, {session_facts} FROM dlock_rows
  WHERE name = {name} {lock} {nowait};

-- name: row_make
-- Creates the row, in a transaction of its own.
ROLLBACK;
INSERT IGNORE INTO dlock_rows (name) VALUES ({name});

-- name: row_wait
-- Waits for the row. A client that hangs when it gets the lock is disconnected after {hung} s.
SET SESSION wait_timeout = {hung}, innodb_lock_wait_timeout = {limit};
START TRANSACTION;
SELECT {waiter} 1, {session_facts} FROM dlock_rows
  WHERE name = {name} {lock};

-- name: row_confirm
-- The client is awake and has the lock: from now on the connection may be idle for a whole lease,
-- and it waits for no other row.
SET SESSION wait_timeout = {idle}, innodb_lock_wait_timeout = 1;
SELECT 1, {session_facts};

-- name: row_release
-- The registration ends in the same transaction, so the next holder sees that this hold ended in
-- good order.
{session_leave}
SELECT 1, {session_facts};
COMMIT;

-- name: row_probe
START TRANSACTION;
SELECT 1 FROM dlock_rows WHERE name = {name} {lock} {nowait};
ROLLBACK;

-- name: row_forget
DELETE FROM dlock_rows WHERE name = {name};
