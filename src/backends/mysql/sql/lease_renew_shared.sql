-- Extends the lease of one of those who hold it together: see lease_join.sql.
SET @until = 0;
ROLLBACK;
START TRANSACTION;
SELECT mode, expires INTO @held, @until FROM dlock_locks WHERE name = {name} FOR UPDATE;
SET @now = {now};
UPDATE dlock_holders SET {renewed}
  WHERE name = {name} AND token = {token} AND @held <> 0 AND @until > @now AND expires > @now;
SET @done = ROW_COUNT();
SELECT COALESCE(MAX(expires), @now) INTO @until FROM dlock_holders WHERE name = {name};
UPDATE dlock_locks SET expires = @until WHERE name = {name} AND @done > 0;
COMMIT;
