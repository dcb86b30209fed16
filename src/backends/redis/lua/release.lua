-- ARGV: channel, token, keep (ms for which the lock stays taken; 0: none), unused ('1': nobody has
-- used the hold, which has no minimum then; may be missing). Releases the hold, or gives up the
-- place in line. Returns 1 when the lock was held until now, 0 when the token held nothing.
local keep, unused = ARGV[3], ARGV[4] == '1'

-- Most holders hold the lock alone, and nobody waits for it.
if not unused and keep == '0' and redis.call('EXISTS', queue, waiters) == 0 and
   redis.pcall('GET', lock) == token then
  local note = redis.call('HGET', holders, token)
  if note and not string.find(note, '&min=', 1, true) then
    redis.call('DEL', lock, holders)
    redis.call('PUBLISH', channel .. 'free', '0')
    return 1
  end
end
---- all other locks
keep = tonumber(keep)

look()
if not holds(token) then
  local first = first_in_line()
  leave(token)
  hand_over()
  -- Another program wakes nobody when it releases the lock, so the new first in line has to look.
  if first == token and is_foreign() then tell(0, '0') end
  return 0
end
-- A server whose memory is full refuses commands that may need more, unless the script has already
-- called one that writes and needs none.
redis.call('EXPIRE', fence, FENCE_SECONDS)
local number, since, text = note_of(token)
if not number then
  -- The lock was handed to the token, which has not confirmed: its place is still noted.
  if keep > 0 then settle(token) else leave(token) end
end
if not unused then keep = kept_for(keep, since, text) end
if keep > 0 then
  put(token, set and redis.call('HGET', holders, 'mode') or 'x', keep)
  note_kept(token, keep)
  -- The first waiter learns when the lock becomes free, which is earlier than the end of the lease
  -- that it knows.
  tell(0, '0')
  return 1
end
if set then
  redis.call('ZREM', lock, token)
  redis.call('HDEL', holders, token)
  look()
else
  -- hand_over() removes the key, or gives it to another.
  owner = false
end
hand_over()
return 1
