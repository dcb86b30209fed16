-- ARGV: channel, token, mode ('a': any). Returns 1 when it holds the lock now, 2 when it
-- does so in a mode that gives less, else 0.
look()
local mode = ARGV[3]
if not holds(token) then return 0 end
if not set or mode == 'a' or mode == redis.call('HGET', holders, 'mode') then return 1 end
return 2
