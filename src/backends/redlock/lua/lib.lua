-- What the scripts of Redlock share, behind redis/lua/lib.lua. The holder is always a string.

-- How long (ms) the waiter that is first in line has, until the one behind it tries.
local HANG = 1000

-- Makes the fence of this node number, if it is less, and returns what it is then.
local function raise(number)
  local last = tonumber(redis.call('GET', fence) or '0') or 0
  number = digits(math.max(last, tonumber(number)))
  redis.call('SET', fence, number, 'EX', FENCE_SECONDS)
  return number
end

-- Tells the first waiter that is alive to try, and the one behind it to do so when the first one
-- has had its time. Both stay in line until they hold the lock, for other nodes may tell others.
local function wake()
  for place, message in ipairs({'0', tostring(HANG)}) do
    local who = redis.call('ZRANGE', queue, place - 1, place - 1)[1]
    while who and not call(who, message) do
      who = redis.call('ZRANGE', queue, place - 1, place - 1)[1]
    end
  end
  redis.call('PUBLISH', channel .. 'free', '0')
end
