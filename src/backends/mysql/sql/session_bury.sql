-- Somebody who knows says that this holder's command is dead.
UPDATE dlock_sessions SET dead_by = 0
  WHERE strategy = {strategy} AND name = {name} AND connection = {connection}
    AND fence = {fence};
