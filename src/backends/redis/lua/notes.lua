-- What the scripts of all dialects need that find a lock in use: times, and what is in notes.

local function now_us()
  return tonumber(now())
end

local function now_ms()
  return math.floor(now_us() / 1000)
end

-- How long ago (ms) that time (us) was; -1 where there is none.
local function ms_since(us)
  return us and math.floor((now_us() - tonumber(us)) / 1000) or -1
end

-- A holder's note, as set_note() has written it: fence, since, text.
local function note_of(who)
  local note = redis.call('HGET', notes, who)
  if note then return string.match(note, '^(%d+) (%d+) (.*)$') end
end

-- The text without the note that the lock is kept after its release.
local function not_kept(text)
  return (string.gsub(text or '', '&kept=%d+', ''))
end

-- The text, changed to this TTL (ms), of a hold that goes on.
local function with_ttl(text, ttl)
  return 'ttl=' .. digits(ttl) .. '&' .. string.gsub(not_kept(text), '^ttl=%d+&?', '')
end

-- For how long (ms) a hold with this text stays taken after its release: for keep, or for what is
-- left of its minimum hold, if it has one and that is longer.
local function kept_for(keep, since, text)
  local min = string.match(text or '', '&min=(%d+)')
  if not min then return keep end
  return math.max(keep, math.floor(tonumber(since) / 1000) + tonumber(min) - now_ms())
end

-- Notes that who has released the lock, which stays taken for ms yet (src/lock/holder.h).
local function note_kept(who, ms)
  local number, since, text = note_of(who)
  if not number then return end
  set_note(who, number, since, not_kept(text) .. '&kept=' .. digits(now_ms() + ms))
end
