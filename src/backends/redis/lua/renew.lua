-- ARGV: channel, token, ttl (ms, 0: its own), usual (ms): see own_ttl. Returns {1, ttl} when
-- extended, ttl 0: it has no end; else {0, 0}: nobody holds it, {2, 0}: somebody else does. Never
-- takes it.
look()
if not holds(token) then return {owner and 2 or 0, 0} end
settle(token)
local number, since, count, text = note_of(token)
local ttl = tonumber(ARGV[3])
if ttl == 0 then ttl = own_ttl(token, text, tonumber(ARGV[4])) end
redis.call('EXPIRE', fence, FENCE_SECONDS)
if not ttl then return {1, 0} end
if number and string.match(text, '^ttl=(%d+)') ~= digits(ttl) then
  set_note(token, number, since, count, with_ttl(text, ttl))
end
put(token, set and redis.call('HGET', holders, 'mode') or 'x', ttl)
return {1, ttl}
