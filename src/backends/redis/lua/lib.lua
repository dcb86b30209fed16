-- Shared by all scripts; see backend.c for the keys and the flow. A mode is 'x'
-- (exclusive: the lock is a string, the token), 's' (shared) or a number of slots
-- (both: a sorted set, token -> end of its lease in ms by this server's clock).
local lock, holders, queue, waiters, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local channel, token = ARGV[1], ARGV[2]

-- A lock that was handed to a waiter is its own for so long (ms), to say so.
local GRANT = 900
-- A waiter that asked a moment ago is lent the lock on what it said then; so much (ms) must
-- be left of it, and no more can be, unless this clock was set back.
local LEAST_LOAN, MOST_LOAN = 2500, 4500
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

-- A waiter's place (digits), mode, when it asked last (by its own clock), until when (ms,
-- by ours) it may be lent the lock on that, and text; or nil.
local function waiter(who)
  local note = redis.call('HGET', waiters, who)
  if note then return string.match(note, '^(%d+) (%w+) (%d+) (%d+) (.*)$') end
end

-- Of these waiters the ones that live: those whose channel has a listener. The server closes the
-- channel of a process that was killed the moment its kernel does. It is asked about many at once.
local function living(waiting)
  local lives = {}
  for from = 1, #waiting, 500 do
    local channels = {}
    for i = from, math.min(from + 499, #waiting) do
      table.insert(channels, channel .. waiting[i])
    end
    local counts = redis.call('PUBSUB', 'NUMSUB', unpack(channels))
    for i = 2, #counts, 2 do
      if counts[i] > 0 then table.insert(lives, waiting[from + i / 2 - 1]) end
    end
  end
  return lives
end

-- Tells a waiter to try in so many ms, or that it has the lock already: 0, when it asked,
-- and its fence. Nobody hears it: that one is dead, and out.
local function call(who, message)
  if redis.call('PUBLISH', channel .. who, message) > 0 then return true end
  leave(who)
  return false
end

-- A request that counts has a number of its own (hexadecimal digits), which the note's text keeps
-- of the last one: what was sent twice, for want of an answer, counts once.
local function is_counted(text, request)
  return string.match(text, '&op=(%x+)') == request
end

local function counted(text, request)
  return (string.gsub(text, '&op=%x+', '')) .. '&op=' .. request
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

-- For how long (ms) a hold with this text is extended by who does not say for how long: what it
-- was taken with. Another program, or an older dlock, has noted nothing: for usual, and never for
-- less than is left. nil: it has no end, and is to keep none.
local function own_ttl(who, text, usual)
  local ttl = tonumber(string.match(text or '', '^ttl=(%d+)'))
  if ttl then return ttl end
  local left = set and tonumber(redis.call('ZSCORE', lock, who)) - now_ms()
  if not set then left = redis.call('PTTL', lock) end
  if left >= 0 then return math.max(left, usual) end
end

-- The text of a hold that has this TTL (ms) from now on.
local function with_ttl(text, ttl)
  return 'ttl=' .. digits(ttl) .. '&' .. string.gsub(text, '^ttl=%d+&?', '')
end

-- The fence of who takes the lock now.
local function next_fence()
  local last = tonumber(redis.call('GET', fence) or '0') or 0
  local number = digits(math.max(last + 1, now_us()))
  redis.call('SET', fence, number, 'EX', FENCE_SECONDS)
  return number
end

-- Who has borrowed the lock, and nobody has noted it yet: does so.
local function settle(who)
  if owner ~= who or note_of(who) then return end
  local _, _, _, _, text = waiter(who)
  redis.call('DEL', holders)
  set_note(who, redis.call('GET', fence) or '0', digits(now_us()), '1', text or '')
  leave(who)
end

-- Hands the lock to who, the first in line, as a loan to begin with, or to confirm; the
-- rest is what waiter() says of it. Returns for how long (ms), or nil: it is dead.
local function hand_to(who, mode, asked, till)
  local ms, message = GRANT, '0'
  if mode == 'x' then
    local loan = tonumber(till) - now_ms()
    if loan >= LEAST_LOAN and loan <= MOST_LOAN then
      ms, message = loan, table.concat({0, asked, next_fence()}, ' ')
    end
  end
  if not call(who, message) then return end
  redis.call('ZREM', queue, who)
  if mode == 'x' then
    lend(who, ms)
  else
    if not owner then redis.call('DEL', lock, holders) end
    put(who, mode, ms)
  end
  return ms
end

-- Hands what room there is to the first in line that live, for each to confirm, and
-- tells the one behind them to look after that time, should they not. The places of
-- those called stay noted in waiters. Nobody is left: removes what is. Returns nil, or for
-- how long the last one called may.
local function hand_over()
  local called
  local line = redis.call('ZRANGE', queue, 0, 1)
  local first = line[1]
  while first do
    local _, mode, asked, till = waiter(first)
    if not mode then
      leave(first)
    elseif not room(mode) then
      break
    else
      called = hand_to(first, mode, asked, till) or called
    end
    if first == line[1] then first = line[2] else first = first_in_line() end
  end
  while called and first and not call(first, called + 5) do first = first_in_line() end
  if not owner then
    redis.call('DEL', lock, queue, waiters, holders)
    redis.call('PUBLISH', channel .. 'free', 0)
  end
  return called
end
