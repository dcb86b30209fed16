-- What is known of a lock: itself ('l'), its holders ('h'), and who waits ('w').
SELECT 'l' AS kind, l.version AS place, l.mode, 0, 0, 0, '' FROM dlock_locks l
  WHERE l.name = {name}
UNION ALL
SELECT 'h', l.version, 0, @now - l.since, l.expires - @now, l.holds, l.owner FROM dlock_locks l
  WHERE l.name = {name} AND l.mode = 0 AND l.expires > @now
UNION ALL
SELECT 'h', h.fence, l.mode, @now - h.since, h.expires - @now, h.holds, h.owner
  FROM dlock_locks l JOIN dlock_holders h ON h.name = {name}
  WHERE l.name = {name} AND l.mode <> 0 AND l.expires > @now AND h.expires > @now
UNION ALL
SELECT 'w', q.id, q.mode, @now - q.since, 0, 0, q.owner FROM dlock_queue q
  WHERE q.name = {name} AND {alive}
ORDER BY 1, 2;
