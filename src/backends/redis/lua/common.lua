-- The beginning of the script in each dialect. KEYS: the lock and the keys beside it, see
-- backend.c. ARGV: the request, the prefix of the waiters' channels, the token (Redisson's: the
-- owner), the two lifetimes below, and then:
--
--	acquire  TTL (ms), mode, record, queued_at ('0': not known yet), least fence ('0': this
--		 server's clock gives one), enqueues ('1': stay in the queue when the lock is taken)
--		 -> {1, fence}; {2, N}: held with N slots; {0, lease left (ms; -1: no end), waiters
--		 ahead (-1: not enqueued), queued_at, foreign (1: held by another program, or one
--		 that may wake nobody), digest of a holder, its age (ms), its TTL (ms)}
--	renew    TTL (ms), record ('': as it is)
--		 -> {1, fence, record}; {0}: nobody holds the lock; {2}: somebody else does;
--		 {3}: TTL refused
--	release  keep (ms), record, silent ('1': wake nobody), least fence ('0': as it is)
--		 -> {1}: it held; {0}: it did not
--	show     -> {fence, holds, waiters}. A hold is {id, mine, mode, age, record, fence, left}, a
--		 waiter the same without the last two. Times are in ms; -1: not known.
--	break    id of a hold -> {1}; {0}: it is gone; {type}: of a key that is not dlock's to
--		 delete
--
-- A mode is 'x' (exclusive), 's' (shared) or a number of slots. In Redis's commands, numbers as
-- text cost less.
local lock, holders, queue, waiters, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local what, channel, token = ARGV[1], ARGV[2], ARGV[3]
-- HOLD_LATE_MS and HOLD_QUEUE_MS of lock/hold.h.
local LATE, QUEUE = tonumber(ARGV[4]), ARGV[5]

-- A fence outlives its lock by 30 days. After that the server's clock gives a greater one anyway.
local FENCE_SECONDS = '2592000'


local function digits(n) return string.format('%.0f', n) end

-- The end of a holder's record if its user may publish nothing, so that its release wakes nobody.
-- Before Redis 7 there is no way to ask.
local function mute()
  local asks = redis.acl_check_cmd
  return asks and not asks('PUBLISH', channel .. token, '0') and '&mute=1' or ''
end

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now = math.floor(now_us / 1000)

-- Text that is no number, which somebody else has put there, counts as no fence.
local function last_fence() return tonumber(redis.call('GET', fence) or '0') or 0 end

-- Raises the last fence to least, unless it is greater.
local function raise_fence(least)
  if tonumber(least) > last_fence() then redis.call('SET', fence, least, 'EX', FENCE_SECONDS) end
end

-- The next fence: at least this one, or this server's clock.
local function next_fence(least)
  local number = digits(math.max(last_fence() + 1, least == '0' and now_us or least))
  redis.call('SET', fence, number, 'EX', FENCE_SECONDS)
  return number
end

-- A server whose memory is full refuses commands that may need more, unless the script has already
-- called one that writes and needs none.
local function keep_fence() redis.call('EXPIRE', fence, FENCE_SECONDS) end

-- ---- the queue: waiter -> queued_at. Redisson's fair lock has its own

local function all_waiters() return redis.call('ZRANGE', queue, 0, -1) end
local function at(place) return redis.call('ZRANGE', queue, place, place)[1] end
local function last_place() return redis.call('ZREVRANGE', queue, 0, 0, 'WITHSCORES')[2] or 0 end
local function dequeue(who) redis.call('ZREM', queue, who) end
-- A user who may not ask takes each waiter for a living one.
local function listens(who)
  local answer = redis.pcall('PUBSUB', 'NUMSUB', channel .. who)
  return answer.err or answer[2] > 0
end

-- Returns how many waiters are ahead.
local function enqueue(queued_at)
  redis.call('ZADD', queue, queued_at, token)
  redis.call('PEXPIRE', queue, QUEUE)
  return redis.call('ZRANK', queue, token)
end
