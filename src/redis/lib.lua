-- Shared by all scripts; see redis.c for the keys and the flow.
local lock, holder, queue, waiters, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local channel, token = ARGV[1], ARGV[2]

-- A lock that was handed to a waiter is its own for so long (ms), to say so.
local GRANT = 900
-- Fences outlive their locks: 30 days. Later the server's clock is ahead anyway.
local FENCE_SECONDS = 2592000
-- Nobody looked at the queue for so long (ms): all who wait are dead.
local QUEUE = 60000

local function now_us()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- Numbers beyond 2^31 as digits, not as 1.7e+15.
local function digits(n)
  return string.format('%.0f', n)
end

-- The value at the lock's key; false when free. A key of another type is taken.
local function owner_of()
  local value = redis.pcall('GET', lock)
  if type(value) == 'table' then return '' end
  return value
end

local function leave(who)
  redis.call('ZREM', queue, who)
  redis.call('HDEL', waiters, who)
end

-- Tells the first in line to try in delay ms. Nobody hears it: that one is dead, and
-- out of the line.
local function call_first(delay)
  while true do
    local first = redis.call('ZRANGE', queue, 0, 0)[1]
    if not first then return nil end
    if redis.call('PUBLISH', channel .. first, delay) > 0 then return first end
    leave(first)
  end
end

-- The lock is free: hands it to the first waiter that lives, for it to confirm, and
-- tells the one behind to look after GRANT, should it not. Its place stays noted in
-- waiters. Returns the new owner, or false.
local function hand_over()
  local first = call_first(0)
  if not first then
    redis.call('DEL', queue, waiters)
    return false
  end
  redis.call('ZREM', queue, first)
  redis.call('SET', lock, first, 'PX', GRANT)
  call_first(GRANT + 5)
  return first
end
