-- Who is first in line (@first)? Reads without locks: only a SELECT does, at READ COMMITTED.
SELECT q.id, q.mode INTO @first, @wanted FROM dlock_queue q
  WHERE q.name = {name} AND q.asleep = 0 AND {alive} ORDER BY q.id LIMIT 1;
