-- Shared by all scripts; see redis.c for the keys and the flow. A mode is 'x'
-- (exclusive: the lock is a string, the token), 's' (shared) or a number of slots
-- (both: a sorted set, token -> end of its lease in ms by this server's clock).
local lock, holders, queue, waiters, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local channel, token = ARGV[1], ARGV[2]

-- A lock that was handed to a waiter is its own for so long (ms), to say so.
local GRANT = 900
-- Fences outlive their locks: 30 days. Later the server's clock is ahead anyway.
local FENCE_SECONDS = 2592000
-- Nobody looked at the queue for so long (ms): all who wait are dead.
local QUEUE = 60000

-- This server's clock, asked once, by those who need it.
local instant
local function now_us()
  if not instant then
    local time = redis.call('TIME')
    instant = time[1] * 1000000 + time[2]
  end
  return instant
end

local function now_ms()
  return math.floor(now_us() / 1000)
end

-- Numbers beyond 2^31 as digits, not as 1.7e+15.
local function digits(n)
  return string.format('%.0f', n)
end

-- What is at the lock's key: owner (a string, '' for a type that is not ours; false
-- when there is none) and whether it is a set of holders.
local owner, set = false, false

-- Finds out. Ends leases in a set.
local function look()
  owner, set = redis.pcall('GET', lock), false
  if type(owner) ~= 'table' then return end
  owner = ''
  if redis.call('TYPE', lock).ok ~= 'zset' then return end
  local over = redis.call('ZRANGEBYSCORE', lock, '-inf', digits(now_ms()))
  for _, who in ipairs(over) do
    redis.call('ZREM', lock, who)
    redis.call('HDEL', holders, who)
  end
  set = redis.call('ZCARD', lock) > 0
  if not set then owner = false end
end

local function holds(who)
  if set then return redis.call('ZSCORE', lock, who) ~= false end
  return owner == who
end

-- May one more enter in this mode?
local function room(mode)
  if not owner then return true end
  if not set or mode == 'x' or redis.call('HGET', holders, 'mode') ~= mode then
    return false
  end
  return mode == 's' or redis.call('ZCARD', lock) < tonumber(mode)
end

-- Lets who alone hold for ms from now, and no longer; and no note of it.
local function lend(who, ms)
  redis.call('SET', lock, who, 'PX', ms)
  owner, set = who, false
end

-- Lets who hold for ms from now, and no longer.
local function put(who, mode, ms)
  if mode == 'x' then
    lend(who, ms)
    redis.call('PEXPIRE', holders, ms)
    return
  end
  redis.call('ZADD', lock, digits(now_ms() + ms), who)
  redis.call('HSET', holders, 'mode', mode)
  local last = redis.call('ZREVRANGE', lock, 0, 0, 'WITHSCORES')[2]
  redis.call('PEXPIREAT', lock, last)
  redis.call('PEXPIREAT', holders, last)
  owner, set = '', true
end

local function leave(who)
  redis.call('ZREM', queue, who)
  redis.call('HDEL', waiters, who)
end

local function first_in_line()
  return redis.call('ZRANGE', queue, 0, 0)[1]
end

-- A waiter's place (digits) and mode, or nil.
local function place_of(who)
  local note = redis.call('HGET', waiters, who)
  if note then return string.match(note, '^(%d+) (%w+) ') end
end

-- Tells a waiter to try in delay ms. Nobody hears it: that one is dead, and out.
local function call(who, delay)
  if redis.call('PUBLISH', channel .. who, delay) > 0 then return true end
  leave(who)
  return false
end

-- Hands what room there is to the first in line that live, for each to confirm, and
-- tells the one behind them to look after GRANT, should they not. The places of
-- those called stay noted in waiters.
local function hand_over()
  local called = false
  local first = first_in_line()
  while first do
    local _, mode = place_of(first)
    if not mode then
      leave(first)
    elseif not room(mode) then
      break
    elseif call(first, 0) then
      redis.call('ZREM', queue, first)
      if not owner then redis.call('DEL', holders) end
      if mode == 'x' then lend(first, GRANT) else put(first, mode, GRANT) end
      called = true
    end
    first = first_in_line()
  end
  while called and first and not call(first, GRANT + 5) do first = first_in_line() end
  if not owner and not first then
    redis.call('DEL', queue, waiters, holders)
    redis.call('PUBLISH', channel .. 'free', 0)
  end
end

-- A holder's note: fence, since (us), count, text.
local function note_of(who)
  local note = redis.call('HGET', holders, who)
  if not note then return end
  return string.match(note, '^(%d+) (%d+) (%d+) (.*)$')
end

local function set_note(who, number, since, count, text)
  redis.call('HSET', holders, who, table.concat({number, since, count, text}, ' '))
end
