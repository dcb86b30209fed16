-- ARGV: channel, token, ttl (ms; 0: that of the hold), usual (ms, see own_ttl), request (see
-- is_counted).
-- Counts one more acquisition of a hold, and makes no lease shorter. Returns {1, fence, ttl}, with
-- ttl 0 for a hold without an end, or {0, 0, 0} when the token holds nothing.
look()
local number, since, count, text = settle(token)
if not number or not holds(token) then return {0, 0, 0} end
local ttl = own_ttl(token, text, tonumber(ARGV[4]))
if ttl then ttl = math.max(ttl, tonumber(ARGV[3])) end
if is_counted(text, ARGV[5]) then return {1, number, ttl or 0} end
if ttl then text = with_ttl(text, ttl) end
set_note(token, number, since, digits(tonumber(count) + 1), counted(text, ARGV[5]))
if ttl then put(token, set and redis.call('HGET', holders, 'mode') or 'x', ttl) end
return {1, number, ttl or 0}
