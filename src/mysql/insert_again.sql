SET @now = {now};
UPDATE dlock_inserts SET holds = holds + 1, expires = @now + {ttl}
  WHERE name = {name} AND token = {token} AND expires > @now;
{insert_state}
