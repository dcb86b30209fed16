-- The dialect of dlock: a string, the holder's token, or for shared holds and slots a sorted set,
-- token -> end of its lease (ms by this server's clock).

-- Most locks are free and nobody waits. What is refused shows before the lock is taken, at last.
if what == 'acquire' and ARGV[7] == 'x' and not string.find(ARGV[11], 'r') and
   redis.call('EXISTS', lock, holders, queue, waiters) == 0 then
  local number = next_fence(ARGV[10])
  redis.call('HSET', holders, token, number .. ' ' .. digits(now_us) .. ' ' .. ARGV[8] .. mute())
  redis.call('PEXPIRE', holders, ARGV[6])
  redis.call('SET', lock, token, 'PX', ARGV[6])
  return {1, number}
end
if what == 'release' and ARGV[6] == '0' and ARGV[9] == '0' and
   redis.call('EXISTS', queue, waiters) == 0 and redis.pcall('GET', lock) == token then
  redis.call('DEL', lock, holders)
  return {1}
end

local kind = redis.call('TYPE', lock).ok
-- Only a set of dlock's has a record beside each member.
local mode = kind == 'zset' and redis.call('HGET', holders, 'mode') or nil
for _, who in ipairs(mode and redis.call('ZRANGE', lock, 0, -1) or {}) do
  if not redis.call('HGET', holders, who) then
    mode = nil
    break
  end
end
if mode then
  for _, who in ipairs(redis.call('ZRANGEBYSCORE', lock, '-inf', digits(now))) do
    redis.call('ZREM', lock, who)
    redis.call('HDEL', holders, who)
  end
  if redis.call('EXISTS', lock) == 0 then kind, mode = 'none', nil end
end

-- The field of a holder's record.
local function field_of(who) return who end

-- All holds, as {who, mode, ms left}; who is '' for a key of another program's type.
local function all_holds()
  local found = {}
  if mode then
    local members = redis.call('ZRANGE', lock, 0, -1, 'WITHSCORES')
    for i = 1, #members, 2 do table.insert(found, {members[i], mode, members[i + 1] - now}) end
  elseif kind == 'string' then
    found[1] = {redis.call('GET', lock), 'x', redis.call('PTTL', lock)}
  elseif kind ~= 'none' then
    found[1] = {'', 'x', redis.call('PTTL', lock)}
  end
  return found
end

local function room(wanted)
  if kind == 'none' then return true end
  if wanted == 'x' or wanted ~= mode then return false end
  return wanted == 's' or redis.call('ZCARD', lock) < tonumber(wanted)
end

local function put(wanted, ms)
  if wanted == 'x' then
    redis.call('PEXPIRE', holders, ms)
    redis.call('SET', lock, token, 'PX', ms)
    kind = 'string'
    return
  end
  redis.call('HSET', holders, 'mode', wanted)
  redis.call('ZADD', lock, digits(now + ms), token)
  local last = redis.call('ZREVRANGE', lock, 0, 0, 'WITHSCORES')[2]
  redis.call('PEXPIREAT', lock, last)
  redis.call('PEXPIREAT', holders, last)
  kind, mode = 'zset', wanted
end

local function drop(hold)
  if mode and redis.call('ZCARD', lock) > 1 then
    redis.call('ZREM', lock, hold[1])
    redis.call('HDEL', holders, hold[1])
  else
    kind, mode = 'none', nil
  end
end

-- The last step of a script that has dropped a hold: while a cluster moves the slot, a script that
-- has removed a key may be refused the next step.
local function finish()
  if kind == 'none' then redis.call('DEL', lock, holders) end
end

-- Other programs poll for this kind of lock.
local function announce() end

-- The slots of the holders, if they differ from wanted.
local function other_slots(wanted)
  return tonumber(wanted) and tonumber(mode or '') and wanted ~= mode and tonumber(mode)
end

-- The record of a holder or waiter without one.
local function describe() return '' end

-- A user who may wake nobody still frees the lock. Its waiters check as behind another program.
local function publish(to, text) redis.pcall('PUBLISH', to, text) end
local function refuses() end
