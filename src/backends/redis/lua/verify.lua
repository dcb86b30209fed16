-- ARGV: channel, token. Returns the mode in which the token holds the lock, or ''.
look()
if not holds(token) then return '' end
if set then return redis.call('HGET', holders, 'mode') or 's' end
return 'x'
