-- Who holds waits no longer.
SELECT COUNT(*) INTO @got FROM dlock_locks l
  LEFT JOIN dlock_holders h ON h.name = {name} AND h.token = {token}
  WHERE l.name = {name} AND l.expires > @now AND
    IF(l.mode = 0, l.token = {token}, COALESCE(h.expires > @now, 0));
DELETE FROM dlock_queue WHERE id = @me AND @got;
SET @me = IF(@got, 18446744073709551615, @me);
