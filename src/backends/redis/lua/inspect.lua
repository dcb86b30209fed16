-- ARGV: channel, token (unused), break ('1': takes the lock away from the holders that are shown,
-- unless the key is neither a string nor dlock's).
-- Returns {fence, holds, waiters, type}. type: of the key, when that is why it was not broken, or
-- ''. A hold is {text, mode, fence, age, expires}, a waiter is
-- {text, mode, waiting}. Times are in ms; -1: there is none.
look()
local function hold(who, mode, expires)
  local number, since, text = note_of(who)
  local _
  if not number then _, _, _, _, text = waiter(who) end
  return {text or '', mode, number or '0', ms_since(since), expires}
end

local holds_now, waits = {}, {}
if set then
  local mode = redis.call('HGET', holders, 'mode') or 's'
  local members = redis.call('ZRANGE', lock, '0', '-1', 'WITHSCORES')
  for i = 1, #members, 2 do
    table.insert(holds_now, hold(members[i], mode, tonumber(members[i + 1]) - now_ms()))
  end
elseif owner then
  table.insert(holds_now, hold(owner, 'x', redis.call('PTTL', lock)))
end
for _, who in ipairs(living(redis.call('ZRANGE', queue, '0', '-1'))) do
  local _, mode, _, _, text, came = waiter(who)
  if mode then table.insert(waits, {text, mode, ms_since(came)}) end
end
local kept = ''
if owner and ARGV[3] == '1' then
  local kind = set and 'string' or redis.call('TYPE', lock).ok
  if kind == 'string' then
    redis.call('DEL', lock, holders)
    owner, set = false, false
    hand_over()
  else
    kept = kind
  end
end
return {redis.call('GET', fence) or '0', holds_now, waits, kept}
