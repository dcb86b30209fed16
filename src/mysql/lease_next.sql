-- Who is next in line (@next: the connection), and did waiters die before that one?
SET @me = NULL, @first = NULL, @firstmode = NULL, @next = NULL, @dead = 0, @now = {now};
SELECT q.id, q.mode, {link} INTO @first, @firstmode, @next FROM dlock_queue q
  WHERE q.name = {name} AND q.asleep = 0 AND {alive} ORDER BY q.id LIMIT 1;
SELECT 1 INTO @dead FROM dlock_queue q
  WHERE q.name = {name} AND q.id < COALESCE(@first, 18446744073709551615) AND NOT ({alive})
  LIMIT 1;
