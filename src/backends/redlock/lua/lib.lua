-- What the scripts of Redlock share, behind redis/lua/lib.lua. The holder is always a string.

-- How long (ms) the waiter that is first in line has, until the one behind it tries.
local HANG = 1000

-- Raises the fence of this node to number, or to its last value plus step if that is more. Returns
-- what it is then.
local function raise(number, step)
  local last = tonumber(redis.call('GET', fence) or '0') or 0
  number = digits(math.max(last + step, tonumber(number)))
  redis.call('SET', fence, number, 'EX', FENCE_SECONDS)
  return number
end

-- Tells the first waiter to try, and the one behind it to do so when the first one has had its
-- time. Both stay in line until they hold the lock, for other nodes may tell others.
local function wake()
  tell(0, '0')
  tell(1, HANG)
  redis.call('PUBLISH', channel .. 'free', '0')
end
