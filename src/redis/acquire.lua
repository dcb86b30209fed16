-- ARGV: channel, token, ttl (ms), queue ('1': stand in line), holder text.
-- Returns {1, fence} when held, else {0, pttl, ahead, who holds it, for how long (ms)}.
local ttl, in_line, text = ARGV[3], ARGV[4] == '1', ARGV[5]

local function take(owner)
  local number
  if owner == token and redis.call('HGET', holder, 'token') == token then
    -- Held already: the reply was lost. The fence stays.
    number = redis.call('HGET', holder, 'fence')
  else
    local last = tonumber(redis.call('GET', fence) or '0') or 0
    local now = now_us()
    number = digits(math.max(last + 1, now))
    redis.call('SET', fence, number, 'EX', FENCE_SECONDS)
    redis.call('DEL', holder)
    redis.call('HSET', holder, 'token', token, 'fence', number, 'text', text,
               'since', digits(now))
  end
  redis.call('SET', lock, token, 'PX', ttl)
  redis.call('PEXPIRE', holder, ttl)
  leave(token)
  return {1, number}
end

-- Our place: kept while we are awaited elsewhere, else the last.
local function stand_in_line()
  local place = redis.call('HGET', waiters, token)
  if place then
    place = string.match(place, '^%d+')
  else
    local last = redis.call('ZREVRANGE', queue, 0, 0, 'WITHSCORES')[2] or '0'
    place = digits(math.max(tonumber(last) + 1, now_us()))
    redis.call('HSET', waiters, token, place .. ' ' .. text)
  end
  redis.call('ZADD', queue, place, token)
  redis.call('PEXPIRE', queue, QUEUE)
  redis.call('PEXPIRE', waiters, QUEUE)
end

-- Those ahead of us that are dead make no difference to anybody but us.
local function drop_dead()
  while true do
    local first = redis.call('ZRANGE', queue, 0, 0)[1]
    if not first or first == token then return end
    if redis.call('PUBSUB', 'NUMSUB', channel .. first)[2] > 0 then return end
    leave(first)
  end
end

local owner = owner_of()
if not owner then
  if in_line and redis.call('HEXISTS', waiters, token) == 1 then stand_in_line() end
  local first = redis.call('ZRANGE', queue, 0, 0)[1]
  if first and first ~= token then owner = hand_over() end
end
if not owner or owner == token then return take(owner) end

local ahead = -1
if in_line then
  stand_in_line()
  drop_dead()
  ahead = redis.call('ZRANK', queue, token)
end
local who, since = '', -1
local held = redis.call('HMGET', holder, 'token', 'text', 'since')
if held[1] == owner then
  who = held[2]
  since = math.floor((now_us() - tonumber(held[3])) / 1000)
end
return {0, redis.call('PTTL', lock), ahead, who, since}
