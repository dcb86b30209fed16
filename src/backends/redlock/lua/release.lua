-- ARGV: channel, token, keep (ms for which the lock stays taken; 0: none), vain ('1': what a try has
-- taken in vain, without waking anybody or leaving the line), forget ('1': the fence goes, too),
-- number (the fence of this node becomes at least this).
-- Returns 1 when the lock was held here until now, 0 when the token held nothing here.
local keep, vain, forget = tonumber(ARGV[3]), ARGV[4] == '1', ARGV[5] == '1'
-- Nobody waits for most locks, and they have no minimum hold.
if not vain and keep == 0 and not forget and redis.pcall('GET', lock) == token and
    redis.call('EXISTS', queue, waiters) == 0 and
    not string.find(redis.call('HGET', holders, token) or '', '&min=', 1, true) then
  redis.call('DEL', lock, holders)
  redis.call('PUBLISH', channel .. 'free', '0')
  return 1
end
---- all other locks
look()
if not vain then leave(token) end
if forget then redis.call('DEL', fence) end
if ARGV[6] ~= '0' then raise(ARGV[6], 0) end
if owner ~= token then
  if not owner and not vain then wake() end
  return 0
end
if vain then
  redis.call('DEL', lock, holders)
  return 1
end
local _, since, text = note_of(token)
keep = kept_for(keep, since, text)
if keep > 0 then
  put(token, 'x', keep)
  note_kept(token, keep)
  -- The first waiter learns when the lock becomes free, which is earlier than the end of the lease
  -- that it knows.
  tell(0, '0')
  return 1
end
redis.call('DEL', lock, holders)
wake()
return 1
