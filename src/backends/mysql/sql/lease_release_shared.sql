-- The same for one of those who hold it together: see lease_join.sql.
SET @until = 0;
ROLLBACK;
START TRANSACTION;
SELECT mode, expires INTO @held, @until FROM dlock_locks WHERE name = {name} FOR UPDATE;
SET @now = {now};
UPDATE dlock_holders SET expires = GREATEST(@now + {keep}, keep)
  WHERE name = {name} AND token = {token} AND @held <> 0 AND @until > @now AND
    expires > @now AND (holds <= 1 OR {all});
SET @done = ROW_COUNT();
DELETE FROM dlock_holders WHERE name = {name} AND expires <= @now;
SELECT COALESCE(MAX(expires), 0) INTO @until FROM dlock_holders WHERE name = {name};
UPDATE dlock_locks SET expires = @until, freed = @now WHERE name = {name} AND @done > 0;
COMMIT;
