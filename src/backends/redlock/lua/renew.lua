-- ARGV: channel, token, ttl (ms; 0: that of the hold), usual (ms, see own_ttl).
-- Extends the hold of the token on this node, and never takes the lock. Returns {1, ttl, fence,
-- since, text}, with ttl 0 for a hold without an end; {0} when nobody holds the lock here;
-- {2} when somebody else does.
look()
if owner ~= token then return {owner and 2 or 0} end
local number, since, text = note_of(token)
local ttl = tonumber(ARGV[3])
if ttl == 0 then ttl = own_ttl(token, text, tonumber(ARGV[4])) end
redis.call('EXPIRE', fence, FENCE_SECONDS)
if ttl then
  if number and with_ttl(text, ttl) ~= text then
    text = with_ttl(text, ttl)
    set_note(token, number, since, text)
  end
  put(token, 'x', ttl)
end
return {1, ttl or 0, number or '0', since or '0', text or ''}
