-- The lease begins anew. What has ended meanwhile (this came late) stays ended.
UPDATE dlock_sessions SET dead_by = {now} + {lease}
  WHERE strategy = {strategy} AND name = {name} AND sharer IN ('', {digest})
    AND token = {digest} AND dead_by > 0;
