-- Part of a wait for a lock to become free: see lease_doze.sql.
SET @go = IF(@go, 1, SLEEP({slice} / 1000000)), @now = {now};
SELECT 1 INTO @go FROM dlock_locks l WHERE NOT @go AND l.name = {name} AND l.expires <= @now;
