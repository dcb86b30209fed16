-- ARGV: channel, token, ttl (ms), mode, queue ('1': stand in line when it is busy), text of the
-- holder, asked (the client's name for this try), loan (for how long from now, in ms, the server
-- may lend the lock on this try).
-- Returns {1, fence} when the token holds the lock; {2, N} when the lock is in use with N slots;
-- else {0, pttl, waiters ahead, text of a holder, since when it holds (ms ago), whether the holder
-- is another program (1 or 0)}.
local ttl, mode, in_line, text = tonumber(ARGV[3]), ARGV[4], ARGV[5] == '1', ARGV[6]

-- Most locks are free and have no waiters.
local unused = redis.call('EXISTS', lock, holders, queue, waiters) == 0
if not unused then look() end

local function take()
  local number
  if holds(token) then number = note_of(token) end
  if not number then
    number = next_fence()
    if not unused and (mode == 'x' or not owner) then redis.call('DEL', holders) end
    set_note(token, number, digits(now_us()), '1', text)
  end
  -- The lock is taken last, so that a missing permission shows before anything is taken.
  if not unused then leave(token) end
  put(token, mode, ttl)
  -- No release has handed over what room is left when a lease ended, or when another program held
  -- the lock.
  if not unused and mode ~= 'x' then hand_over() end
  return {1, number}
end

if unused then return take() end

-- The place of the token: the last one, unless it was called and has kept its place meanwhile.
local function stand_in_line()
  local place = waiter(token)
  if not place then
    local last = redis.call('ZREVRANGE', queue, 0, 0, 'WITHSCORES')[2] or '0'
    place = digits(math.max(tonumber(last) + 1, now_us()))
  end
  local till = digits(now_ms() + tonumber(ARGV[8]))
  redis.call('HSET', waiters, token, table.concat({place, mode, ARGV[7], till, text}, ' '))
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
  if in_line and waiter(token) then stand_in_line() end
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
if in_line then
  stand_in_line()
  drop_dead()
  ahead = redis.call('ZRANK', queue, token)
  if ahead > 0 then ahead = #living(redis.call('ZRANGE', queue, 0, ahead - 1)) end
end
local who = owner
if set then who = redis.call('ZRANGE', lock, 0, 0)[1] end
local _, since, _, holder = note_of(who)
local age = -1
if since then age = math.floor((now_us() - tonumber(since)) / 1000) end
return {0, redis.call('PTTL', lock), ahead, holder or '', age, is_foreign() and 1 or 0}
