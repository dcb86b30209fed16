-- ARGV: channel, token, ttl (ms), mode, request (see is_counted). One more acquisition of a
-- hold: {1, fence}; {2, 0}: it is held in a mode that gives less; else {0, 0}.
look()
settle(token)
local number, since, count, text = note_of(token)
if not number or not holds(token) then return {0, 0} end
local held = set and redis.call('HGET', holders, 'mode') or 'x'
if held ~= 'x' and held ~= ARGV[4] then return {2, 0} end
if is_counted(text, ARGV[5]) then return {1, number} end
set_note(token, number, since, digits(tonumber(count) + 1), counted(text, ARGV[5]))
put(token, held, tonumber(ARGV[3]))
return {1, number}
