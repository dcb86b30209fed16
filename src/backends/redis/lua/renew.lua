-- ARGV: channel, token, ttl (ms; 0: that of the hold), usual (ms, see own_ttl).
-- Extends the hold of the token, and never takes the lock. Returns {1, ttl, fence}, with ttl 0 for a
-- hold without an end; {0, 0, ''} when nobody holds the lock; {2, 0, ''} when somebody else does.
look()
if not holds(token) then return {owner and 2 or 0, 0, ''} end
local number, since, text = settle(token)
local ttl = tonumber(ARGV[3])
if ttl == 0 then ttl = own_ttl(token, text, tonumber(ARGV[4])) end
redis.call('EXPIRE', fence, FENCE_SECONDS)
if not ttl then return {1, 0, number or ''} end
local changed = with_ttl(text, ttl)
if number and changed ~= text then set_note(token, number, since, changed) end
put(token, set and redis.call('HGET', holders, 'mode') or 'x', ttl)
return {1, ttl, number or ''}
