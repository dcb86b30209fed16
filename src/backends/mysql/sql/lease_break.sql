-- Takes it away from those whom the SELECT shows.
ROLLBACK;
START TRANSACTION;
SELECT version INTO @version FROM dlock_locks WHERE name = {name} FOR UPDATE;
SET @now = {now};
{lease_inspect}
UPDATE dlock_locks SET token = '', expires = 0, keep = 0, freed = @now
  WHERE name = {name} AND expires > @now;
DELETE FROM dlock_holders WHERE name = {name};
COMMIT;
