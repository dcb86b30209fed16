-- A shared hold ends, and nothing of its command is alive any more.
DELETE FROM dlock_sessions
  WHERE strategy = {strategy} AND name = {name} AND sharer = {digest};
