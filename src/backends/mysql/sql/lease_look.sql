-- Who am I in line (@me), and who is the first one before me (@first)?
SELECT m.id, m.place, m.asleep, f.id, f.mode, f.place
  INTO @me, @place, @asleep, @first, @wanted, @front
  FROM dlock_queue m LEFT JOIN dlock_queue f ON f.id = (SELECT q.id FROM dlock_queue q
    WHERE q.name = {name} AND q.id < m.id AND q.asleep = 0 AND {alive} ORDER BY q.id LIMIT 1)
  WHERE m.token = {token};
