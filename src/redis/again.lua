-- ARGV: channel, token, ttl (ms). One more acquisition of a hold: {1, fence}, else {0, 0}.
local number, since, count, text = note_of(token)
if not number or not holds(token) then return {0, 0} end
set_note(token, number, since, digits(tonumber(count) + 1), text)
put(token, set and redis.call('HGET', holders, 'mode') or 'x', tonumber(ARGV[3]))
return {1, number}
