-- May one more hold in the mode @mode enter the lock l at @now?
(l.expires <= @now OR @mode <> 0 AND l.mode = @mode AND (@mode < 0 OR (SELECT COUNT(*)
FROM dlock_holders h WHERE h.name = {name} AND h.expires > @now) < @mode))
