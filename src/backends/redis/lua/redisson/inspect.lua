-- ARGV: channel, owner (unused), kind, break ('1': takes the lock away from the holders that are
-- shown).
-- Returns {fence, holds, waiters, ''}. A hold is {text, mode, fence, age, expires}, a waiter is
-- {text, mode, waiting}. Times are in ms; -1: there is none.
local holds, waits = {}, {}
local found = all_holds()
for _, hold in ipairs(found) do
  local text, number, since = describe(hold[1])
  table.insert(holds, {text, hold[2], number or '0', ms_since(since), hold[3]})
end
if kind == 'fair' then
  for _, who in ipairs(redis.call('LRANGE', queue, 0, -1)) do
    local since, mode, _, text = waiter(who)
    if not is_dead(who) then
      table.insert(waits, {text or shown('Redisson ' .. who), mode or 'x',
                           ms_since(since)})
    end
  end
else
  for _, who in ipairs(living(false)) do
    table.insert(waits, {who[4], who[3], ms_since(who[2])})
  end
end
if #found > 0 and ARGV[4] == '1' then
  for _, hold in ipairs(found) do
    if hold[1] then redis.call('HDEL', notes, (string.gsub(hold[1], ':write$', ''))) end
    if free then
      redis.call('ZREM', timeouts, permit(hold[1]))
    elseif hold[2] == 's' then
      for n = 1, hold[4] do redis.call('DEL', read_key(hold[1], n)) end
    end
  end
  if free then
    redis.call('INCRBY', lock, #found)
  else
    redis.call('DEL', lock)
  end
  wake(kind == 'readwrite')
end
return {redis.call('GET', fence) or '0', holds, waits, ''}
