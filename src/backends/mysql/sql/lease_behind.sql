-- Is there still somebody before me? Without locks: only a SELECT by itself reads so.
SET @first = NULL;
SELECT q.id INTO @first FROM dlock_queue q
  WHERE q.name = {name} AND q.id < @me AND q.asleep = 0 AND {alive} ORDER BY q.id LIMIT 1;
