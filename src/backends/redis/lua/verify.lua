-- ARGV: channel, token. Returns the mode in which it holds the lock now, as put() has it, or ''.
look()
if not holds(token) then return '' end
if set then return redis.call('HGET', holders, 'mode') or 's' end
return 'x'
