-- The hold has an end of its own now.
UPDATE dlock_sessions
  SET until = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + {rest}
  WHERE strategy = {strategy} AND name = {name} AND sharer IN ('', {digest})
    AND token = {digest};
