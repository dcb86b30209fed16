-- Locks that are held, by their names from {after} on.
SELECT name FROM dlock_locks WHERE name > {after} AND expires > {now} ORDER BY name LIMIT 1000;
