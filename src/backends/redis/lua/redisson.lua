-- The dialect of Redisson; redisson.c describes the keys. An owner is the field of a hash, or the
-- id of a semaphore's permit in hex digits. The mode of a permit is the number of all permits.
local family, java, most, sharded = ARGV[#ARGV - 3], ARGV[#ARGV - 2], ARGV[#ARGV - 1], ARGV[#ARGV]
local timeouts = KEYS[6]
-- How long (ms) a waiter of the fair lock may be the first: Redisson's fairLockWaitTimeout.
local TURN = 300000

local kind = redis.call('TYPE', lock).ok
-- How many permits of a semaphore are free, or nil; another value is no semaphore.
local free = family == 'semaphore' and kind == 'string' and tonumber(redis.call('GET', lock)) or nil

local function field_of(who) return (string.gsub(who, ':write$', '')) end

-- In a cluster of Redis 7 or newer Redisson sleeps on sharded messages, and everywhere else on the
-- others. Older servers know none, and a user may lack the permission: an error does nothing.
local function publish(to, text)
  redis.pcall('PUBLISH', to, text)
  if sharded == '1' then redis.pcall('SPUBLISH', to, text) end
end

-- Java's waiters sleep on one channel, those of the fair lock on one each. A message of '0' wakes
-- one thread of each Java program, '1' all of them, as for a lease that has become shorter
-- (changed).
local function announce(changed, wanted)
  if family == 'fair' then return end
  if free then return publish(java, changed and '1' or redis.call('GET', lock)) end
  if not changed and kind ~= 'none' then return end
  publish(java, (changed or family == 'readwrite' and wanted == 'x') and '1' or '0')
end

-- ---- permits

-- The member of a permit: 16 bytes.
local function permit(who)
  return (string.gsub(who, '%x%x', function(byte) return string.char(tonumber(byte, 16)) end))
end

local function hex(member)
  return (string.gsub(member, '.', function(c) return string.format('%02x', string.byte(c)) end))
end

local function all_permits() return digits(free + redis.call('ZCARD', timeouts)) end

-- As Redisson's trySetPermits().
if family == 'semaphore' and kind == 'none' and what == 'acquire' then
  redis.call('ZREMRANGEBYSCORE', timeouts, '-inf', digits(now))
  free, kind = tonumber(ARGV[7]) - redis.call('ZCARD', timeouts), 'string'
  redis.call('SET', lock, digits(free))
  publish(java, ARGV[7])
end
if free and what ~= 'show' then
  local over = redis.call('ZRANGEBYSCORE', timeouts, '-inf', digits(now))
  for _, member in ipairs(over) do
    redis.call('ZREM', timeouts, member)
    redis.call('HDEL', holders, hex(member))
  end
  if #over > 0 then
    free = redis.call('INCRBY', lock, #over)
    announce()
  end
end

-- ---- read locks

-- The key that ends with the nth acquisition of a read lock.
local function read_key(who, n)
  local name = string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}'
  return name .. ':' .. who .. ':rwlock_timeout:' .. n
end

-- The time left (ms) of the longest of count acquisitions of a read lock; below 0: none.
local function read_left(who, count)
  local left = -2
  for n = 1, tonumber(count) or 0 do
    left = math.max(left, redis.call('PTTL', read_key(who, n)))
  end
  return left
end

-- The field of the hash that a hold in this mode has.
local function field(wanted)
  return family == 'readwrite' and wanted == 'x' and token .. ':write' or token
end

-- ---- holds

-- All holds, as {who, mode, ms left (-1: no end), how often a read lock was acquired}; who is ''
-- for a key of another type.
local function all_holds()
  local found = {}
  if free then
    local all = redis.call('ZRANGE', timeouts, 0, -1, 'WITHSCORES')
    for i = 1, #all, 2 do
      -- Redisson's permits without an end have the year 31,197.
      local left = all[i + 1] - now
      if left > 900000000000000 then left = -1 end
      if left > 0 or left == -1 then
        table.insert(found, {hex(all[i]), all_permits(), left})
      end
    end
  elseif kind == 'hash' then
    local all, shares = redis.call('HGETALL', lock), redis.call('HEXISTS', lock, 'mode') == 1
    for i = 1, #all, 2 do
      local who, left, mode = all[i], redis.call('PTTL', lock), 'x'
      if shares and not string.find(who, ':write$') then
        mode, left = 's', read_left(who, all[i + 1])
      end
      if who ~= 'mode' and left ~= -2 then
        table.insert(found, {who, mode, left, tonumber(all[i + 1]) or 1})
      end
    end
  elseif kind ~= 'none' then
    found[1] = {'', 'x', redis.call('PTTL', lock)}
  end
  return found
end

-- The lock stays for as long as the longest read lock of all readers.
local function keep_readers()
  local left = 0
  for _, hold in ipairs(all_holds()) do left = math.max(left, hold[3]) end
  if left > 0 then return redis.call('PEXPIRE', lock, digits(left)) end
  redis.call('DEL', lock)
  kind = 'none'
end

local function room(wanted)
  if family == 'semaphore' then return free and free > 0 end
  if family == 'readwrite' and wanted == 's' and kind == 'hash' then
    return redis.call('HGET', lock, 'mode') == 'read'
  end
  return kind == 'none'
end

local function put(wanted, ms, mine)
  if redis.call('PTTL', holders) < tonumber(ms) then redis.call('PEXPIRE', holders, ms) end
  if free then
    redis.call('ZADD', timeouts, digits(now + ms), permit(token))
    if not mine then free = redis.call('DECR', lock) end
    return
  end
  local new, ends = kind == 'none', kind ~= 'none' and redis.call('PTTL', lock) ~= -1
  if wanted == 's' then redis.call('SET', read_key(token, 1), '1', 'PX', ms) end
  if family == 'readwrite' then
    redis.call('HSET', lock, 'mode', wanted == 's' and 'read' or 'write')
  end
  if not mine then redis.call('HSET', lock, field(wanted), '1') end
  kind = 'hash'
  if wanted == 'x' then
    redis.call('PEXPIRE', lock, ms)
  elseif new or ends then
    keep_readers()
  end
end

local function drop(hold)
  local who, wanted = hold[1], hold[2]
  redis.call('HDEL', holders, field_of(who))
  if free then
    redis.call('ZREM', timeouts, permit(who))
    free = redis.call('INCR', lock)
  elseif wanted == 's' then
    for n = 1, hold[4] do redis.call('DEL', read_key(who, n)) end
    redis.call('HDEL', lock, who)
    keep_readers()
  else
    redis.call('DEL', lock)
    kind = 'none'
  end
end

local function finish() end

local function other_slots(wanted)
  return free and all_permits() ~= wanted and tonumber(all_permits())
end

-- The watchdog of a Java reader sets the lease of the whole lock: see redisson.c.
local function refuses(mine, ms) return mine == 's' and tonumber(ms) > tonumber(most) end

-- As src/lock/holder.h has it.
local function describe(who)
  local text = who == '' and 'key of type ' .. kind or 'Redisson ' .. who
  return 'cmd=' .. (string.gsub(text, '[^%w%-._~/:]', function(c)
    return string.format('%%%02X', string.byte(c))
  end))
end

-- The fences of a fenced lock are Redisson's, and never expire.
if family == 'fenced' then
  next_fence = function() return digits(redis.call('INCR', fence)) end
  keep_fence = function() end
end

-- ---- the queue of a fair lock: Redisson's list, and until when (ms) each may stay

if family == 'fair' then
  local has_channel = listens

  all_waiters = function() return redis.call('LRANGE', queue, 0, -1) end
  at = function(place) return redis.call('LINDEX', queue, place) end
  last_place = function() return 0 end

  local function place_of(who)
    for place, other in ipairs(all_waiters()) do
      if other == who then return place - 1 end
    end
  end

  -- Redisson gives a waiter the time of the one before it and a turn more. As long as a waiter of
  -- dlock tries, its time does not end.
  enqueue = function()
    local place = place_of(token)
    local ends = place and redis.call('ZSCORE', timeouts, token)
    if ends then
      ends = math.max(tonumber(ends), now + (place + 1) * TURN)
    else
      local last = not place and redis.call('LINDEX', queue, -1)
      ends = last and redis.call('ZSCORE', timeouts, last)
      ends = (tonumber(ends) or now + math.max(0, redis.call('PTTL', lock))) + TURN
    end
    redis.call('ZADD', timeouts, digits(ends), token)
    return place or redis.call('RPUSH', queue, token) - 1
  end

  -- Redisson counts a turn for each waiter before one, and so those behind get a turn less.
  dequeue = function(who)
    local place = place_of(who)
    if not place then return end
    for _, other in ipairs(redis.call('LRANGE', queue, place + 1, -1)) do
      redis.call('ZINCRBY', timeouts, -TURN, other)
    end
    redis.call('ZREM', timeouts, who)
    redis.call('LREM', queue, 0, who)
  end

  -- Java's waiters have no channel of their own, but a time.
  listens = function(who)
    if redis.call('HGET', waiters, who) then return has_channel(who) end
    local ends = redis.call('ZSCORE', timeouts, who)
    return ends and tonumber(ends) > now
  end
end
