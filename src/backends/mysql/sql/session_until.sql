-- The hold has an end of its own now.
UPDATE dlock_sessions
  SET until = {now} + {rest}
  WHERE strategy = {strategy} AND name = {name} AND sharer IN ('', {digest})
    AND token = {digest};
