-- Extends an exclusive lease, never takes it anew.
SET @now = {now}, @me = NULL, @first = NULL, @firstmode = NULL;
UPDATE dlock_locks SET expires = @now + {ttl}
  WHERE name = {name} AND token = {token} AND mode = 0 AND expires > @now;
