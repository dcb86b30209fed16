-- ARGV: channel, owner, kind, ttl (ms), mode, queue ('1': stand in line when it is busy), text of
-- the holder.
-- Returns {1, fence} when the owner holds the lock; {2, N} when the semaphore has N permits; else
-- {0, when to try again (ms; -1: when woken), waiters ahead, text of a holder, since when it holds
-- (ms ago)}.
local ttl, mode, in_line, text = tonumber(ARGV[4]), ARGV[5], ARGV[6] == '1', ARGV[7]

local function may_take()
  if kind == 'semaphore' then return free and free > 0 end
  if kind == 'readwrite' and mode == 's' and has == 'hash' then
    return redis.call('HGET', lock, 'mode') == 'read'
  end
  if has ~= 'none' then return false end
  if kind ~= 'fair' then return true end
  local first = first_in_line()
  return not first or first == owner
end

-- Redisson counts a turn for each waiter before one, and one of them has gone.
local function begin_turn()
  redis.call('LREM', queue, 0, owner)
  redis.call('ZREM', timeouts, owner)
  for _, who in ipairs(redis.call('ZRANGE', timeouts, 0, -1)) do
    redis.call('ZINCRBY', timeouts, -TURN, who)
  end
end

-- The lock is taken last, so that a missing permission shows before anything is taken.
local function take()
  local number = kind == 'fenced' and digits(redis.call('INCR', fence)) or next_fence()
  if has == 'none' then forget_holders() end
  set_note(owner, number, now(), text)
  keep_notes(ttl)
  redis.call('HDEL', notes, 'w:' .. owner)
  if kind == 'fair' then begin_turn() end
  if kind == 'semaphore' then
    redis.call('ZADD', timeouts, digits(now_ms() + ttl), permit(owner))
    redis.call('DECR', lock)
    return {1, number}
  end
  if mode == 's' then redis.call('SET', read_key(owner, 1), '1', 'PX', digits(ttl)) end
  if kind == 'readwrite' then
    redis.call('HSET', lock, 'mode', mode == 's' and 'read' or 'write')
  end
  redis.call('HSET', lock, field(mode), '1')
  local left = redis.call('PTTL', lock)
  if has == 'none' or left >= 0 then
    redis.call('PEXPIRE', lock, digits(math.max(ttl, left)))
  end
  return {1, number}
end

-- Redisson gives a waiter the time of the one before it and a turn more. As long as a waiter of
-- dlock tries, its time does not end.
local function stand_in_line()
  local since, place = waiter(owner), kind == 'fair' and place_in_line()
  if not since then living(true) end
  since = since or now()
  set_waiter(owner, since, mode, now_ms(), text)
  keep_notes(QUEUE)
  if kind ~= 'fair' then return end
  local ends = place and redis.call('ZSCORE', timeouts, owner)
  if ends then
    ends = math.max(tonumber(ends), now_ms() + place * TURN)
  else
    local last = not place and redis.call('LINDEX', queue, -1)
    ends = last and redis.call('ZSCORE', timeouts, last)
    ends = (tonumber(ends) or now_ms() + math.max(0, redis.call('PTTL', lock))) + TURN
  end
  redis.call('ZADD', timeouts, digits(ends), owner)
  if not place then redis.call('RPUSH', queue, owner) end
end

-- As Redisson's trySetPermits().
if kind == 'semaphore' and has == 'none' then
  redis.call('ZREMRANGEBYSCORE', timeouts, '-inf', digits(now_ms()))
  free, has = tonumber(mode) - redis.call('ZCARD', timeouts), 'string'
  redis.call('SET', lock, digits(free))
  publish(channel, mode)
end
sweep()
if free then
  local total = free + redis.call('ZCARD', timeouts)
  if total ~= tonumber(mode) then return {2, total} end
end
-- An earlier try was granted, and its answer was lost.
local mine = held()
if mine then
  extend(mine, ttl)
  leave()
  return {1, note_of(owner) or redis.call('GET', fence) or '0'}
end
if may_take() then return take() end

local ahead = -1
if in_line then
  stand_in_line()
  if kind == 'fair' then ahead = place_in_line() - 1 end
end
local holds, left = all_holds(), -1
for _, hold in ipairs(holds) do
  if hold[3] >= 0 and (left == -1 or hold[3] < left) then left = hold[3] end
end
if ahead > 0 then left = -1 end
-- The lock is free, but not for this one: the first in line may have missed its message.
local first = has == 'none' and redis.call('LINDEX', queue, 0)
if first then
  call(first)
  if ahead == 1 then left = GRANT + 100 end
end
local who, _, since = '', nil, nil
if holds[1] then who, _, since = describe(holds[1][1]) end
return {0, left, ahead, who, ms_since(since)}
