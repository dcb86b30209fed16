-- A hold is extended, by its own TTL when {ttl} is 0, and notes by which. The assignments are made
-- from left to right.
owner = CONCAT('ttl=', IF({ttl} > 0, {ttl} DIV 1000, {own_ttl}), '&', {no_ttl}),
expires = @now + 1000 * {own_ttl}
