-- Locks that are waited for.
SET @now = {now};
SELECT DISTINCT q.name FROM dlock_queue q WHERE q.name > {after} AND {alive}
  ORDER BY q.name LIMIT 1000;
