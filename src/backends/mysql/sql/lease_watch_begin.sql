-- Is there anything to wait for?
SET @go = 1, @now = {now};
SELECT 0 INTO @go FROM dlock_locks l WHERE l.name = {name} AND l.expires > @now;
