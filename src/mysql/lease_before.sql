COALESCE(
  IF(@first IS NULL OR @place % 256, NULL, (SELECT q.token FROM dlock_queue q
    WHERE q.name = {name} AND q.id < @me AND q.place + 256 <= @place AND q.asleep = 0 AND
      {alive} ORDER BY q.id DESC LIMIT 1)),
  IF(@first IS NULL OR @place % 64, NULL, (SELECT q.token FROM dlock_queue q
    WHERE q.name = {name} AND q.id < @me AND q.place + 64 <= @place AND q.asleep = 0 AND
      {alive} ORDER BY q.id DESC LIMIT 1)),
  IF(@first IS NULL OR @place % 16, NULL, (SELECT q.token FROM dlock_queue q
    WHERE q.name = {name} AND q.id < @me AND q.place + 16 <= @place AND q.asleep = 0 AND
      {alive} ORDER BY q.id DESC LIMIT 1)),
  IF(@first IS NULL OR @place % 4, NULL, (SELECT q.token FROM dlock_queue q
    WHERE q.name = {name} AND q.id < @me AND q.place + 4 <= @place AND q.asleep = 0 AND
      {alive} ORDER BY q.id DESC LIMIT 1)),
  IF(@first IS NULL, NULL, (SELECT q.token FROM dlock_queue q
    WHERE q.name = {name} AND q.id < @me AND q.asleep = 0 AND {alive}
    ORDER BY q.id DESC LIMIT 1)),
  IF(@held = 0 AND @rest > 0, @holder, ''))
