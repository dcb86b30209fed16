-- May one more hold in the mode @wanted enter the lock l?
(l.expires <= {clock} OR @wanted <> 0 AND l.mode = @wanted AND (@wanted < 0 OR (SELECT COUNT(*)
FROM dlock_holders r WHERE r.name = {name} AND r.expires > {clock}) < @wanted))
