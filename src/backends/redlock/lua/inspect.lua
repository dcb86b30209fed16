-- ARGV: channel, token (unused), break ('1': takes the lock away from its holder).
-- Returns {fence, digest of the holder's token ('': nobody holds the lock here), text, fence of the
-- hold, age, expires, waiters}. A waiter is {digest of its token, text, waiting}. Times are
-- in ms; -1: there is none.
look()
local waits = {}
for _, who in ipairs(living(redis.call('ZRANGE', queue, 0, -1))) do
  local place, _, _, _, text = waiter(who)
  if place then table.insert(waits, {redis.sha1hex(who), text, ms_since(place)}) end
end
local last = redis.call('GET', fence) or '0'
if not owner then return {last, '', '', '0', -1, -1, waits} end
local who = a_holder()
local number, since, text = note_of(who)
local view = {last, redis.sha1hex(who), text or '', number or '0', ms_since(since),
              redis.call('PTTL', lock), waits}
if ARGV[3] == '1' then
  redis.call('DEL', lock, holders)
  wake()
end
return view
