-- ARGV: channel, token, ttl (ms). Returns 1 when extended; else 0: nobody holds it,
-- 2: somebody else does. Never takes it.
look()
if not holds(token) then return owner and 2 or 0 end
settle(token)
put(token, set and redis.call('HGET', holders, 'mode') or 'x', tonumber(ARGV[3]))
redis.call('EXPIRE', fence, FENCE_SECONDS)
return 1
