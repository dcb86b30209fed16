-- Who is next in line (@next: the connection), and did waiters die before that one?
SELECT q.id, q.mode, {link}, COALESCE(d.id < q.id, 1) INTO @first, @wanted, @next, @dead
  FROM dlock_queue d LEFT JOIN dlock_queue q ON q.id = (SELECT q.id FROM dlock_queue q
    WHERE q.name = {name} AND q.asleep = 0 AND {alive} ORDER BY q.id LIMIT 1)
  WHERE d.name = {name} ORDER BY d.id LIMIT 1;
