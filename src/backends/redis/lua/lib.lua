-- What scripts need that find a lock in use; backend.c describes the flow.

-- For how long (ms) a waiter holds a lock that was handed to it, until it confirms.
local GRANT = 900
-- How much (ms) must be left of the time for which a waiter allows a loan, and how much can be left
-- at most: with more, this server's clock was set back.
local LEAST_LOAN, MOST_LOAN = 2500, 4500
-- When no waiter has tried for this time (ms), all are dead, and the queue expires.
local QUEUE = '60000'

-- The value of the lock's key. owner: the string, '' for another type, false when there is no key;
-- set: the value is a sorted set of dlock's holders. Everything that is neither a string nor such a
-- set belongs to another program: it counts as a hold, and no script writes to it.
local owner, set = false, false

-- Is the sorted set at the lock's key dlock's? Then holders has the mode, and a note for each
-- member. The search stops at the first member that has none, so that a large set of another
-- program costs little.
local function is_ours()
  if not redis.call('HGET', holders, 'mode') then return false end
  local from = 0
  repeat
    local members = redis.call('ZRANGE', lock, from, from + 99)
    for _, who in ipairs(members) do
      if not redis.call('HGET', holders, who) then return false end
    end
    from = from + 100
  until #members < 100
  return true
end

-- Reads the lock, and removes holders from the set whose lease has ended.
local function look()
  owner, set = redis.pcall('GET', lock), false
  if type(owner) ~= 'table' then return end
  owner = ''
  if redis.call('TYPE', lock).ok ~= 'zset' or not is_ours() then return end
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

-- One of the holders, or false.
local function a_holder()
  return set and redis.call('ZRANGE', lock, '0', '0')[1] or owner
end

-- Is there room for one more holder in this mode?
local function room(mode)
  if not owner then return true end
  if not set or mode == 'x' or redis.call('HGET', holders, 'mode') ~= mode then
    return false
  end
  return mode == 's' or redis.call('ZCARD', lock) < tonumber(mode)
end

-- Gives the lock to who alone for ms from now, without a note.
local function lend(who, ms)
  redis.call('SET', lock, who, 'PX', ms)
  owner, set = who, false
end

-- Gives the lock to who for ms from now.
local function put(who, mode, ms)
  if mode == 'x' then
    lend(who, ms)
    redis.call('PEXPIRE', holders, ms)
    return
  end
  redis.call('ZADD', lock, digits(now_ms() + ms), who)
  redis.call('HSET', holders, 'mode', mode)
  local last = redis.call('ZREVRANGE', lock, '0', '0', 'WITHSCORES')[2]
  redis.call('PEXPIREAT', lock, last)
  redis.call('PEXPIREAT', holders, last)
  owner, set = '', true
end

local function leave(who)
  redis.call('ZREM', queue, who)
  redis.call('HDEL', waiters, who)
end

local function first_in_line()
  return redis.call('ZRANGE', queue, '0', '0')[1]
end

-- A waiter's place (digits), mode, last try (by the waiter's clock), the time (ms, by this server's
-- clock) until which this try allows a loan, text, and when it came (us, by this server's clock);
-- or nil. The place is the time at which it came.
local function waiter(who)
  local note = redis.call('HGET', waiters, who)
  if not note then return end
  local place, mode, asked, till, came, text =
    string.match(note, '^(%d+) (%w+) (%d+) (%d+) (%d+) (.*)$')
  return place, mode, asked, till, text, came
end

-- Those of the waiters that are alive: whose channel has a listener. The connection of a process
-- that is killed ends at once, and its subscription with it. One command asks about many channels.
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

-- Sends a message to a waiter: the number of ms after which to try, or "0 ASKED FENCE" with a loan.
-- When nobody listens, the waiter is dead and is removed. Returns whether somebody does.
local function call(who, message)
  if redis.call('PUBLISH', channel .. who, message) > 0 then return true end
  leave(who)
  return false
end

-- Sends the message to the waiter at this place of the line (0: the first one), or to the next one
-- that is alive.
local function tell(place, message)
  local who
  repeat
    who = redis.call('ZRANGE', queue, place, place)[1]
  until not who or call(who, message)
end

-- Is the lock held by another program? Such a program tells nobody when it releases the lock. A
-- token of dlock's that holds the lock has a note or, before it confirms, its place in waiters.
local function is_foreign()
  return owner and not set and not note_of(owner) and not waiter(owner)
end

-- The TTL (ms) for which a hold with this text is extended when the request names none: the TTL in
-- the text. Other programs write no such text: then usual, but at least what is left. nil: the hold
-- has no end, and gets none.
local function own_ttl(who, text, usual)
  local ttl = tonumber(string.match(text or '', '^ttl=(%d+)'))
  if ttl then return ttl end
  local left = set and tonumber(redis.call('ZSCORE', lock, who)) - now_ms()
  if not set then left = redis.call('PTTL', lock) end
  if left >= 0 then return math.max(left, usual) end
end

-- Returns the note of a token, which is written first if the token has borrowed the lock.
local function settle(who)
  local number, since, text = note_of(who)
  if number or owner ~= who then return number, since, text end
  local _, _, _, _, its_text = waiter(who)
  redis.call('DEL', holders)
  set_note(who, redis.call('GET', fence) or '0', now(), its_text or '')
  leave(who)
  return note_of(who)
end

-- Hands the lock to who, the first in line, as a loan or until it confirms. mode, asked and till
-- are from waiter(). Returns for how long (ms), or nil: the waiter is dead.
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
    -- Marks the member as dlock's until the waiter writes its note.
    redis.call('HSET', holders, who, 'called')
    put(who, mode, ms)
  end
  return ms
end

-- Hands the lock to the first waiters that are alive, as far as there is room, and tells the waiter
-- behind them to try after the time that they have for confirming. Their places stay noted in
-- waiters. Removes all keys when there is neither holder nor waiter.
local function hand_over()
  local called
  local line = redis.call('ZRANGE', queue, '0', '1')
  local first = line[1]
  while first do
    local _, mode, asked, till = waiter(first)
    if not mode then
      leave(first)
    elseif not room(mode) then
      -- Those behind the first waiter may share the lock, from which a dead one must not keep them.
      if not set or not room(redis.call('HGET', holders, 'mode')) then break end
      if living({first})[1] then break end
      leave(first)
    else
      called = hand_to(first, mode, asked, till) or called
    end
    if first == line[1] then first = line[2] else first = first_in_line() end
  end
  while called and first and not call(first, called + 5) do first = first_in_line() end
  if not owner then
    redis.call('DEL', lock, queue, waiters, holders)
    redis.call('PUBLISH', channel .. 'free', '0')
  end
end
