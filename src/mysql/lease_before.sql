COALESCE(
  IF(@first IS NULL OR @place % 100, NULL, (SELECT q.token FROM dlock_queue q
    WHERE q.name = {name} AND q.id < @me AND q.place + 100 <= @place AND q.asleep = 0 AND
      {alive} ORDER BY q.id DESC LIMIT 1)),
  IF(@first IS NULL OR @place % 10, NULL, (SELECT q.token FROM dlock_queue q
    WHERE q.name = {name} AND q.id < @me AND q.place + 10 <= @place AND q.asleep = 0 AND
      {alive} ORDER BY q.id DESC LIMIT 1)),
  IF(@first IS NULL, NULL, (SELECT q.token FROM dlock_queue q
    WHERE q.name = {name} AND q.id < @me AND q.asleep = 0 AND {alive}
    ORDER BY q.id DESC LIMIT 1)),
  IF(@held = 0 AND @rest > 0, @holder, ''))
