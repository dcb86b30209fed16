-- What there is; see struct simple_state.
SELECT token = {token}, fence, @now - since, expires - @now, holds, owner FROM dlock_inserts
  WHERE name = {name} AND expires > @now;
