-- An end that is further away than a lease: the clock was set back since.
UPDATE dlock_sessions SET dead_by = {now} + lease
  WHERE strategy = {strategy} AND name = {name} AND token <> {digest}
    AND dead_by > {now} + lease;
