-- Takes the lock with others, shared or in a slot. The lock's row is locked first, by
-- all who change its holders: so they come one after the other, and cannot deadlock.
ROLLBACK;
START TRANSACTION;
SELECT version, mode, expires INTO @version, @held, @until FROM dlock_locks
  WHERE name = {name} FOR UPDATE;
SET @now = {now};
DELETE FROM dlock_holders WHERE name = {name} AND (expires <= @now OR @until <= @now);
SELECT COUNT(*) INTO @used FROM dlock_holders WHERE name = {name};
SELECT fence INTO @fence FROM dlock_holders WHERE name = {name} AND token = {token};
SET @take = @fence IS NOT NULL OR @version IS NOT NULL AND @first IS NULL AND
  (@until <= @now OR @held = {mode} AND ({mode} < 0 OR @used < {mode}));
SET @fence = COALESCE(@fence, GREATEST(@version + 1, @now));
INSERT INTO dlock_holders (name, token, fence, holds, since, expires, keep, owner)
  SELECT {name}, {token}, @fence, 1, @now, @now + {ttl}, IF({keep} = 0, 0, @now + {keep}), {owner}
    FROM DUAL WHERE @take
  ON DUPLICATE KEY UPDATE expires = @now + {ttl};
UPDATE dlock_locks SET
    since = IF(expires <= @now, @now, since),
    expires = GREATEST(IF(expires <= @now, 0, expires), @now + {ttl}),
    version = GREATEST(version, @fence), mode = {mode}, token = '', holds = 0, keep = 0,
    owner = '', freed = @now
  WHERE name = {name} AND @take;
COMMIT;
