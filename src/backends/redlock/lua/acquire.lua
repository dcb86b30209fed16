-- ARGV: channel, token, ttl (ms), fence (the client's clock, us), text of the holder, place (us,
-- when the waiter came; 0: do not stand in line).
-- Returns {1, fence} when this node has the lock for the token. Else {0, pttl, digest of the
-- holder's token, waiters ahead, text of the holder, since when it holds (ms ago)}.
local ttl, clock, text, place = tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6]
-- Most locks are free, and nobody waits for them. The lock is taken last, so that a missing
-- permission shows before anything is taken.
if redis.call('EXISTS', lock, holders, queue, waiters) == 0 then
  local number = raise(clock, 1)
  set_note(token, number, digits(now_us()), text)
  redis.call('PEXPIRE', holders, ttl)
  redis.call('SET', lock, token, 'PX', ttl)
  return {1, number}
end
---- all other locks
look()
if not owner or (owner == token and not set) then
  local number = owner and note_of(token)
  if not number then
    number = raise(clock, 1)
    redis.call('DEL', holders)
    set_note(token, number, digits(now_us()), text)
  end
  leave(token)
  put(token, 'x', ttl)
  return {1, number}
end
local ahead = -1
if place ~= '0' then
  redis.call('HSET', waiters, token, table.concat({place, 'x', '0', '0', place, text}, ' '))
  redis.call('ZADD', queue, place, token)
  redis.call('PEXPIRE', queue, QUEUE)
  redis.call('PEXPIRE', waiters, QUEUE)
  -- The dead lose their place. Who is alive, and has only lost a connection, comes back to its own.
  local line = redis.call('ZRANGE', queue, 0, redis.call('ZRANK', queue, token))
  table.remove(line)
  local alive = {}
  for _, first in ipairs(living(line)) do alive[first] = true end
  for _, first in ipairs(line) do
    if not alive[first] then leave(first) end
  end
  ahead = redis.call('ZRANK', queue, token)
end
local who = a_holder()
local _, since, holder = note_of(who)
return {0, redis.call('PTTL', lock), redis.sha1hex(who), ahead, holder or '', ms_since(since)}
