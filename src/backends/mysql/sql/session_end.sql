-- Nothing of its command is alive any more: whoever has the lock next need not wait for it.
UPDATE dlock_sessions SET dead_by = 0
  WHERE strategy = {strategy} AND name = {name} AND sharer IN ('', {digest})
    AND token = {digest};
