-- ARGV: channel, token, ttl (ms). Returns 1 when extended; else 0: the key is gone,
-- 2: it is somebody else's. Never takes it.
local owner = owner_of()
if owner ~= token then return owner and 2 or 0 end
redis.call('PEXPIRE', lock, ARGV[3])
redis.call('PEXPIRE', holder, ARGV[3])
redis.call('EXPIRE', fence, FENCE_SECONDS)
return 1
