-- What the scripts of the dialect redisson share; redisson.c describes the keys. kind is
-- 'reentrant', 'fair', 'fenced', 'readwrite' or 'semaphore'. A mode is 'x' (exclusive), 's' (shared)
-- or the number of a semaphore's permits. owner is the field of a hash, or the permit's id in
-- hexadecimal digits.
local lock, queue, timeouts = KEYS[1], KEYS[3], KEYS[4]
local channel, owner, kind = ARGV[1], ARGV[2], ARGV[3]
-- In a cluster the last argument says so.
local sharded = ARGV[#ARGV] == 'sharded'

-- A waiter of dlock tries every 5.5 s at least. After this time (ms) without a try it hangs.
local ALIVE = 11000
-- How long (ms) a waiter of the fair lock may be the first in line: Redisson's fairLockWaitTimeout.
local TURN = 300000
-- For how long (ms) a waiter of dlock that was called stays the first in line without a try.
local GRANT = 900
-- The notes of waiters are kept for this time (ms) after the last try of any of them.
local QUEUE = 12000

-- ---- notes of dlock, which Redisson never sees

local function keep_notes(ms)
  if redis.call('PTTL', notes) < ms then redis.call('PEXPIRE', notes, digits(ms)) end
end

-- Nobody holds the lock: removes the notes of holders whose leases have ended.
local function forget_holders()
  for _, name in ipairs(redis.call('HKEYS', notes)) do
    if string.sub(name, 1, 2) ~= 'w:' then redis.call('HDEL', notes, name) end
  end
end

-- A waiter's note, at the field 'w:' and its owner: since (us), mode, last try (ms), text.
local function waiter(who)
  local note = redis.call('HGET', notes, 'w:' .. who)
  if note then return string.match(note, '^(%d+) (%w+) (%d+) (.*)$') end
end

local function set_waiter(who, since, mode, seen, text)
  redis.call('HSET', notes, 'w:' .. who, table.concat({since, mode, digits(seen), text}, ' '))
end

-- In a cluster of Redis 7 or newer Redisson sleeps on sharded messages, and everywhere else on the
-- others. Older servers know none: an error does nothing.
local function publish(to, text)
  redis.call('PUBLISH', to, text)
  if sharded then redis.pcall('SPUBLISH', to, text) end
end

local function listeners(name)
  return redis.call('PUBSUB', 'NUMSUB', name)[2]
end

-- Does a waiter with this last try still try?
local function tries(seen)
  return tonumber(seen) + ALIVE >= now_ms()
end

-- Those of the waiters of dlock that live: {owner, since, mode, text} as they came. The notes of
-- the others are removed if purge is set.
local function living(purge)
  local found, all = {}, redis.call('HGETALL', notes)
  local nobody
  if kind == 'fair' then
    nobody = redis.call('EXISTS', queue) == 0
  else
    nobody = listeners(channel) == 0
  end
  for i = 1, #all, 2 do
    local who = string.match(all[i], '^w:(.*)$')
    if who then
      local since, mode, seen, text = string.match(all[i + 1], '^(%d+) (%w+) (%d+) (.*)$')
      if since and not nobody and tries(seen) then
        table.insert(found, {who, since, mode, text})
      elseif purge and (nobody or kind ~= 'fair') then
        redis.call('HDEL', notes, all[i])
      end
    end
  end
  table.sort(found, function(a, b) return tonumber(a[2]) < tonumber(b[2]) end)
  return found
end

-- ---- the lock

local has = redis.call('TYPE', lock).ok
-- How many permits of a semaphore are free, or nil; another value is no semaphore.
local free = kind == 'semaphore' and has == 'string' and tonumber(redis.call('GET', lock)) or nil

-- The member of a permit: 16 bytes.
local function permit(who)
  return (string.gsub(who, '%x%x', function(byte) return string.char(tonumber(byte, 16)) end))
end

local function hex(member)
  return (string.gsub(member, '.', function(c) return string.format('%02x', string.byte(c)) end))
end

-- The key that ends with the nth acquisition of a read lock.
local function read_key(who, n)
  local name = string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}'
  return name .. ':' .. who .. ':rwlock_timeout:' .. n
end

-- What is left (ms) of the longest of so many acquisitions of a read lock; less than 0: nothing.
local function read_left(who, count)
  local left = -2
  for n = 1, tonumber(count) or 0 do
    left = math.max(left, redis.call('PTTL', read_key(who, n)))
  end
  return left
end

-- What is left of the longest read lock of all readers.
local function all_left()
  local left, all = -2, redis.call('HGETALL', lock)
  for i = 1, #all, 2 do
    if all[i] ~= 'mode' then left = math.max(left, read_left(all[i], all[i + 1])) end
  end
  return left
end

-- The field of the hash that a hold in this mode has.
local function field(mode)
  if kind == 'readwrite' and mode == 'x' then return owner .. ':write' end
  return owner
end

-- The mode in which the owner, which is dlock, holds the lock, and what is left of the lease (ms; -1:
-- no end). nil: it holds nothing. dlock's field counts one acquisition.
local function held()
  if kind == 'semaphore' then
    local ends = redis.call('ZSCORE', timeouts, permit(owner))
    if not ends or not free or tonumber(ends) <= now_ms() then return end
    return digits(free + redis.call('ZCARD', timeouts)), tonumber(ends) - now_ms()
  end
  if has ~= 'hash' then return end
  if redis.call('HEXISTS', lock, field('x')) == 1 then return 'x', redis.call('PTTL', lock) end
  if kind ~= 'readwrite' or redis.call('HEXISTS', lock, owner) == 0 then return end
  local left = read_left(owner, 1)
  if left > 0 then return 's', left end
end

-- Gives the hold a lease of ms from now.
local function extend(mode, ms)
  keep_notes(ms)
  if kind == 'semaphore' then
    redis.call('ZADD', timeouts, digits(now_ms() + ms), permit(owner))
  elseif mode == 's' then
    redis.call('SET', read_key(owner, 1), '1', 'PX', digits(ms))
    redis.call('PEXPIRE', lock, digits(all_left()))
  else
    redis.call('PEXPIRE', lock, digits(ms))
  end
end

-- The TTL (ms) for which a hold with this text is extended when the request names none. Without a
-- note: usual, but at least what is left.
local function own_ttl(text, usual, left)
  return tonumber(string.match(text or '', '^ttl=(%d+)')) or math.max(left, usual)
end

-- ---- the line of the fair lock

-- A waiter of dlock is dead when nobody listens to its channel or it has not tried for long. Of
-- others only the time tells that Redisson keeps for each.
local function is_dead(who)
  local ends = redis.call('ZSCORE', timeouts, who)
  if not ends or tonumber(ends) <= now_ms() then return true end
  local _, _, seen = waiter(who)
  return seen ~= nil and (not tries(seen) or listeners(channel .. ':' .. who) == 0)
end

-- Removes dead waiters that are first in line. Returns who is the first then, or false.
local function first_in_line()
  local first = redis.call('LINDEX', queue, 0)
  while first and first ~= owner and is_dead(first) do
    redis.call('LPOP', queue)
    redis.call('ZREM', timeouts, first)
    redis.call('HDEL', notes, 'w:' .. first)
    first = redis.call('LINDEX', queue, 0)
  end
  return first
end

local function place_in_line()
  for place, who in ipairs(redis.call('LRANGE', queue, 0, -1)) do
    if who == owner then return place end
  end
end

-- Wakes the first in line. A waiter of dlock that does not try soon then counts as dead. If the
-- second one is of dlock, too, it is told to look after that time (ms).
local function call(who)
  local since, mode, seen, text = waiter(who)
  if since then set_waiter(who, since, mode, math.min(seen, now_ms() - ALIVE + GRANT), text) end
  publish(channel .. ':' .. who, '0')
  local second = redis.call('LINDEX', queue, 1)
  if second and waiter(second) then
    publish(channel .. ':' .. second, GRANT + 100)
  end
end

-- Gives the place in line up. Redisson counts a turn for each waiter before one, and so those
-- behind get a turn less.
local function leave()
  redis.call('HDEL', notes, 'w:' .. owner)
  local place = kind == 'fair' and place_in_line()
  if not place then return end
  for _, who in ipairs(redis.call('LRANGE', queue, place, -1)) do
    redis.call('ZINCRBY', timeouts, -TURN, who)
  end
  redis.call('ZREM', timeouts, owner)
  redis.call('LREM', queue, 0, owner)
end

-- ---- waking

-- Tells those who wait that the lock is free, or, with changed, that its lease has become shorter,
-- which all must hear. One message of '0' wakes one thread of each Java program, '1' all of them.
local function wake(changed)
  if kind == 'fair' then
    local first = first_in_line()
    if first then call(first) end
    -- `dlock wait` listens here; nobody else does.
    publish(channel, '0')
  elseif kind == 'semaphore' then
    publish(channel, changed and '1' or redis.call('GET', lock))
  else
    publish(channel, changed and '1' or '0')
  end
  if redis.call('EXISTS', notes) == 1 then living(true) end
end

-- Takes back the permits of a semaphore whose leases have ended.
local function sweep()
  if not free then return end
  local over = redis.call('ZRANGEBYSCORE', timeouts, '-inf', digits(now_ms()))
  for _, member in ipairs(over) do
    redis.call('ZREM', timeouts, member)
    redis.call('HDEL', notes, hex(member))
  end
  if #over == 0 then return end
  free = redis.call('INCRBY', lock, #over)
  if free > 0 then wake() end
end

-- ---- to show

-- A text for a holder of whom dlock has no note, as holder.h has it.
local function shown(what)
  return 'cmd=' .. (string.gsub(what, '[^%w%-._~/:]', function(c)
    return string.format('%%%02X', string.byte(c))
  end))
end

-- Text, fence, and since when (us) a field or permit is held; the last two are nil when dlock does
-- not hold it. who is false for a key of another type.
local function describe(who)
  if not who then return shown('key of type ' .. has) end
  local number, since, text = note_of((string.gsub(who, ':write$', '')))
  return text or shown('Redisson ' .. who), number, since
end

-- All holds: {who, mode, left (ms; -1: no end), how often a read lock was acquired}. A key of another type is one of nobody.
local function all_holds()
  local found = {}
  if free then
    local all = redis.call('ZRANGE', timeouts, 0, -1, 'WITHSCORES')
    for i = 1, #all, 2 do
      -- Redisson's permits without an end have the year 31,197.
      local left = tonumber(all[i + 1]) - now_ms()
      if left > 0 then
        if left > 900000000000000 then left = -1 end
        local total = digits(free + #all / 2)
        table.insert(found, {hex(all[i]), total, left})
      end
    end
  elseif has == 'hash' then
    local all, readwrite = redis.call('HGETALL', lock), redis.call('HEXISTS', lock, 'mode') == 1
    for i = 1, #all, 2 do
      local who, left, mode = all[i], redis.call('PTTL', lock), 'x'
      if readwrite and not string.find(who, ':write$') then
        mode, left = 's', read_left(who, all[i + 1])
      end
      if who ~= 'mode' and left ~= -2 then
        table.insert(found, {who, mode, left, tonumber(all[i + 1]) or 1})
      end
    end
  elseif has ~= 'none' then
    table.insert(found, {false, 'x', redis.call('PTTL', lock)})
  end
  return found
end
