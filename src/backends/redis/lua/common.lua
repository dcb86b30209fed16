-- What the scripts of all dialects need to take a lock: the clock, the fence, and a holder's note.
-- It is apart from notes.lua and lib.lua because each function that a script makes costs the server
-- up to a microsecond, and most locks are free. A number as an argument of redis.call() costs as
-- much, because Redis writes it as text; so those that do not change are text here.

-- A fence outlives its lock by 30 days. After that the server's clock gives a greater one anyway.
local FENCE_SECONDS = '2592000'

-- The keys of the last fence, and of the hash that has a note for each holder.
local fence, notes = KEYS[5], KEYS[2]

-- This server's clock (us, digits), which is read once, and only by scripts that need it.
local instant
local function now()
  if not instant then
    local time = redis.call('TIME')
    instant = time[1] .. string.format('%06d', time[2])
  end
  return instant
end

-- A number beyond 2^31 as digits: Lua would write 1.7e+15.
local function digits(n)
  return string.format('%.0f', n)
end

-- Writes a holder's note: fence, since (us), text.
local function set_note(who, number, since, text)
  redis.call('HSET', notes, who, number .. ' ' .. since .. ' ' .. text)
end

-- The fence for whoever takes the lock now.
local function next_fence()
  local last, number = tonumber(redis.call('GET', fence) or '0') or 0, now()
  if last >= tonumber(number) then number = digits(last + 1) end
  redis.call('SET', fence, number, 'EX', FENCE_SECONDS)
  return number
end
