-- ARGV: channel, token, ttl (ms), mode, text of the holder, came (us; the last value of the answers
-- to this token, or 0; may be missing for 0). A token that is to stand in line while the lock is in
-- use has two more: asked (the client's name for this try), loan (for how long from now, in ms, the
-- server may lend the lock on this try).
-- Returns the fence when the token holds the lock; {2, N} when the lock is in use with N slots;
-- {3, text} when a newer waiter, which has this text, has replaced the token; else {0, pttl,
-- waiters ahead, text of a holder, since when it holds (ms ago), whether the holder is another
-- program (1 or 0), came}. came is 0 for a token that replaces nobody and does not stand in line.
local ttl, mode, text = ARGV[3], ARGV[4], ARGV[5]

-- Most locks are free and have no waiters.
if mode == 'x' and not string.find(text, '&replaces=', 1, true) and
   redis.call('EXISTS', lock, holders, queue, waiters) == 0 then
  local number = next_fence()
  set_note(token, number, now(), text)
  redis.call('PEXPIRE', holders, ttl)
  -- The lock is taken last, so that a missing permission shows before anything is taken.
  redis.call('SET', lock, token, 'PX', ttl)
  return number
end
---- all other locks
local came, asked, loan = tonumber(ARGV[6] or '0'), ARGV[7], ARGV[8]
-- The last come of those that replace waiters: when it came (us), its token, and its text.
-- It is seldom there, and in a cluster a script with such a key in KEYS is refused for as long as
-- its slot moves.
local newest = (string.gsub(fence, ':fence$', ':newest'))
-- Does a waiter with this text replace those that came before it with the same wish?
local function is_replacing(text)
  return string.find(text or '', '&replaces=', 1, true) ~= nil
end
local replaces = is_replacing(text)

look()

-- When the newest waiter that replaces others came (us), its token and its text.
local function newest_one()
  local at, who, its_text = string.match(redis.call('GET', newest) or '', '^(%d+) (%w+) (.*)$')
  return tonumber(at or 0), who, its_text
end

-- The time at which the token comes, which is later than that of those in line, even when this
-- server's clock was set back.
local function stamp()
  local last = redis.call('ZREVRANGE', queue, '0', '0', 'WITHSCORES')[2] or '0'
  local least = math.max(tonumber(last) + 1, now_us())
  if replaces then least = math.max(least, newest_one() + 1) end
  return least
end

-- From now on those that came before the token, and wished to replace others, are replaced. This
-- outlives the queue, for one of them may have lost its connection, and would come back as if it
-- were new.
local function become_newest()
  if came == 0 then came = stamp() end
  if newest_one() < came then
    redis.call('SET', newest, table.concat({digits(came), token, text}, ' '), 'EX', FENCE_SECONDS)
  end
end

local function take()
  if replaces then become_newest() end
  local number
  if holds(token) then number = note_of(token) end
  if not number then
    number = next_fence()
    if mode == 'x' or not owner then redis.call('DEL', holders) end
    set_note(token, number, now(), text)
  end
  -- The lock is taken last, so that a missing permission shows before anything is taken.
  leave(token)
  put(token, mode, ttl)
  -- No release has handed over what room is left when a lease ended, or when another program held
  -- the lock.
  if mode ~= 'x' then hand_over() end
  return number
end

-- A token that holds the lock, or to which it was just handed, is not replaced any more.
if replaces and came > 0 and not holds(token) then
  local at, who, its_text = newest_one()
  if at >= came and who ~= token then
    leave(token)
    return {3, its_text}
  end
end

-- Sends away those in line that came before the token and wish to replace others. There may be room
-- for those behind them.
local function replace_waiters()
  become_newest()
  local first = first_in_line()
  for _, who in ipairs(redis.call('ZRANGE', queue, '0', '-1')) do
    local _, _, _, _, its_text, its_time = waiter(who)
    if is_replacing(its_text) and tonumber(its_time) < came then
      leave(who)
      redis.call('PUBLISH', channel .. who, '0')
    end
  end
  -- Another program wakes nobody when it releases the lock, so the new first in line has to look.
  if first_in_line() ~= first and is_foreign() then tell(0, '0') end
end

-- The place of the token: the last one, unless it was called and has kept its place meanwhile, or
-- was taken for dead, as all waiters are by the first one that comes back to a server that was
-- restarted.
local function stand_in_line()
  local place, _, _, _, _, time = waiter(token)
  if not place then
    if came == 0 then came = stamp() end
    place = digits(came)
    time = place
  end
  came = tonumber(time)
  local till = digits(now_ms() + loan)
  redis.call('HSET', waiters, token, table.concat({place, mode, asked, till, time, text}, ' '))
  redis.call('ZADD', queue, place, token)
  redis.call('PEXPIRE', queue, QUEUE)
  redis.call('PEXPIRE', waiters, QUEUE)
end

-- Removes dead waiters that are first in line. Those behind a living one stay in line: they may
-- only have lost a connection, and then come back to their place.
local function drop_dead()
  local first = first_in_line()
  while first and first ~= token do
    if redis.call('PUBSUB', 'NUMSUB', channel .. first)[2] > 0 then return end
    leave(first)
    first = first_in_line()
  end
end

if set and tonumber(mode) then
  local agreed = redis.call('HGET', holders, 'mode')
  if tonumber(agreed) and agreed ~= mode then return {2, tonumber(agreed)} end
end
if not holds(token) then
  if asked and replaces and not waiter(token) then replace_waiters() end
  if asked and waiter(token) then stand_in_line() end
  local first = first_in_line()
  if first and first ~= token then
    hand_over()
  elseif room(mode) then
    return take()
  end
end
if holds(token) then return take() end
-- All waiters may have been dead.
if not first_in_line() and room(mode) then return take() end

local ahead = -1
if asked then
  if not waiter(token) then stand_in_line() end
  drop_dead()
  ahead = redis.call('ZRANK', queue, token)
  if ahead > 0 then ahead = #living(redis.call('ZRANGE', queue, 0, ahead - 1)) end
end
local _, since, holder = note_of(a_holder())
if replaces and came == 0 then came = stamp() end
local foreign = not since and is_foreign()
return {0, redis.call('PTTL', lock), ahead, holder or '', ms_since(since), foreign and 1 or 0, came}
