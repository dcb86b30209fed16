-- ARGV: channel, owner, kind, ttl (ms; 0: that of the hold), usual (ms, see own_ttl), most (ms for
-- which a read lock can be held, see redisson.c).
-- Extends the hold of the owner, and never takes the lock. Returns {1, ttl, fence};
-- {0, 0, ''} when nobody holds the lock; {2, 0, ''} when somebody else does; {3, 0, ''} for more than
-- a read lock can have.
local ttl, mode, left = tonumber(ARGV[4]), held()
if not mode then return {(free or has == 'none') and 0 or 2, 0, ''} end
local number, since, text = note_of(owner)
if ttl == 0 then ttl = own_ttl(text, tonumber(ARGV[5]), left) end
if mode == 's' and ttl > tonumber(ARGV[6]) then return {3, 0, ''} end
if kind ~= 'fenced' then redis.call('EXPIRE', fence, FENCE_SECONDS) end
if number and with_ttl(text, ttl) ~= text then
  set_note(owner, number, since, with_ttl(text, ttl))
end
extend(mode, ttl)
return {1, ttl, number or ''}
