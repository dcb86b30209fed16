-- Is there still somebody before me?
SET @first = (SELECT q.id FROM dlock_queue q
  WHERE q.name = {name} AND q.id < @me AND q.asleep = 0 AND {alive} ORDER BY q.id LIMIT 1);
