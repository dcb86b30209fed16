-- ARGV: channel, owner, kind, ttl (ms; 0: that of the hold), usual (ms, see own_ttl), request (see
-- is_counted), most (as for renew.lua).
-- Counts one more acquisition of a hold, and makes no lease shorter. Returns {1, fence, ttl};
-- {0, 0, 0} when the owner holds nothing; {3, 0, 0} for more than a read lock can have.
local mode, count, left = held()
if not mode then return {0, 0, 0} end
local number, since, noted, text = note_of(owner)
local ttl = math.max(own_ttl(text, tonumber(ARGV[5]), left), tonumber(ARGV[4]))
if mode == 's' and ttl > tonumber(ARGV[7]) then return {3, 0, 0} end
number, since = number or redis.call('GET', fence) or '0', since or now()
if is_counted(text, ARGV[6]) then return {1, number, ttl} end
text = counted(with_ttl(text, ttl), ARGV[6])
set_note(owner, number, since, digits(tonumber(noted or '1') + 1), text)
count_by(mode, count, 1)
extend(mode, count + 1, ttl)
return {1, number, ttl}
