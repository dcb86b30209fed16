-- Extends an exclusive lease, never takes it anew.
UPDATE dlock_locks SET {renewed}
  WHERE name = {name} AND token = {token} AND mode = 0 AND expires > @now;
