-- Who am I in line (@me; beyond all others when not in line), and who is the first one
-- before me (@first)? Reads without locks: only a SELECT does, at READ COMMITTED.
SET @now = {now}, @me = NULL, @place = NULL, @first = NULL, @firstmode = NULL;
SELECT id, place INTO @me, @place FROM dlock_queue WHERE token = {token};
SET @me = COALESCE(@me, 18446744073709551615);
SELECT q.id, q.mode INTO @first, @firstmode FROM dlock_queue q
  WHERE q.name = {name} AND q.id < @me AND q.asleep = 0 AND {alive} ORDER BY q.id LIMIT 1;
