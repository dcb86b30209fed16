-- The ticket that it slept on was let go, on this connection, which remembers who was before
-- it: a try with nothing else around it. @first and the moment are looked at anew; as ever,
-- the UPDATE decides. The row after it tells, and what follows is nobody's hurry.
SET @now = {now}, @first = IF(@first IS NULL, NULL, (SELECT q.id FROM dlock_queue q
  WHERE q.name = {name} AND q.id < @me AND q.asleep = 0 AND {alive} ORDER BY q.id LIMIT 1));
UPDATE dlock_locks SET
    holds = 1, since = @now, keep = IF({keep} = 0, 0, @now + {keep}),
    version = LAST_INSERT_ID(GREATEST(version + 1, @now)),
    mode = 0, token = {token}, owner = {owner}, expires = @now + {ttl}
  WHERE name = {name} AND expires <= @now AND @first IS NULL;
SET @mine = ROW_COUNT();
SELECT @mine, LAST_INSERT_ID();
SET @nap = RELEASE_LOCK(@target);
DELETE FROM dlock_queue WHERE id = @me AND @mine > 0;
