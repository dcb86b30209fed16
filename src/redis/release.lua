-- ARGV: channel, token, keep (ms, 0: free it now). Leaves the line, too.
-- Returns 1 when the lock was held, 0 when not.
leave(token)
local owner = owner_of()
if owner ~= token then
  if not owner then hand_over() end
  return 0
end
if tonumber(ARGV[3]) > 0 then
  redis.call('PEXPIRE', lock, ARGV[3])
  redis.call('PEXPIRE', holder, ARGV[3])
  return 1
end
redis.call('DEL', holder)
if not hand_over() then redis.call('DEL', lock) end
return 1
