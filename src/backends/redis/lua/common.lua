-- What the scripts of all dialects share, in front of the lib.lua of each.

-- A fence outlives its lock by 30 days. After that the server's clock gives a greater one anyway.
local FENCE_SECONDS = 2592000

-- This server's clock, which is read once, and only by scripts that need it.
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

-- A number beyond 2^31 as digits: Lua would write 1.7e+15.
local function digits(n)
  return string.format('%.0f', n)
end

-- The hash that has a note for each holder.
local notes = KEYS[2]

-- A holder's note: fence, since (us), count (of a permit of Redisson's: a hash counts by
-- itself), text.
local function note_of(who)
  local note = redis.call('HGET', notes, who)
  if note then return string.match(note, '^(%d+) (%d+) (%d+) (.*)$') end
end

local function set_note(who, number, since, count, text)
  redis.call('HSET', notes, who, table.concat({number, since, count, text}, ' '))
end

-- A request that counts has a number (hexadecimal digits), and the note keeps the number of the
-- last one: so a request that is sent again, because its answer was lost, counts once.
local function is_counted(text, request)
  return string.match(text or '', '&op=(%x+)') == request
end

local function counted(text, request)
  return (string.gsub(text or '', '&op=%x+', '')) .. '&op=' .. request
end

-- The text without the note that the lock is kept after its release.
local function not_kept(text)
  return (string.gsub(text or '', '&kept=%d+', ''))
end

-- The text, changed to this TTL (ms), of a hold that goes on.
local function with_ttl(text, ttl)
  return 'ttl=' .. digits(ttl) .. '&' .. string.gsub(not_kept(text), '^ttl=%d+&?', '')
end

-- Notes that who has released the lock, which stays taken for ms yet (src/lock/holder.h).
local function note_kept(who, ms)
  local number, since, count, text = note_of(who)
  if not number then return end
  set_note(who, number, since, count, not_kept(text) .. '&kept=' .. digits(now_ms() + ms))
end
