-- Extends a lease, never takes it anew.
SET @now = {now};
UPDATE dlock_inserts SET {renewed}
  WHERE name = {name} AND token = {token} AND expires > @now;
{insert_state}
