-- ARGV: channel, token, keep (ms for which the lock stays taken; 0: none), how ('1': all
-- acquisitions, '0': one, '2': one, but not the last one, '3': what a try has taken in vain,
-- without waking anybody or leaving the line), request (see is_counted), forget ('1': the fence
-- goes, too), number (the fence of this node becomes at least this).
-- Returns 1 when the lock was held here until now, 2 when acquisitions are left, 4 when only the
-- last one is left, which stays, 0 when the token held nothing here.
local keep, how = tonumber(ARGV[3]), ARGV[4]
-- Nobody waits for most locks, and they have no minimum hold.
if how == '1' and keep == 0 and ARGV[6] == '0' and redis.pcall('GET', lock) == token and
    redis.call('EXISTS', queue, waiters) == 0 and
    not string.find(redis.call('HGET', holders, token) or '', '&min=', 1, true) then
  redis.call('DEL', lock, holders)
  redis.call('PUBLISH', channel .. 'free', '0')
  return 1
end
---- all other locks
look()
if how ~= '3' then leave(token) end
if ARGV[6] == '1' then redis.call('DEL', fence) end
if ARGV[7] ~= '0' then raise(ARGV[7], 0) end
if owner ~= token then
  if not owner and how ~= '3' then wake() end
  return 0
end
if how == '3' then
  redis.call('DEL', lock, holders)
  return 1
end
local number, since, count, text = note_of(token)
if number and how ~= '1' and count_down(token, number, since, count, text, ARGV[5]) then
  return 2
end
if how == '2' then return 4 end
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
