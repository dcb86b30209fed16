-- ARGV: channel, token, keep (ms, 0: free it now), all ('1': however often it was
-- acquired). Leaves the line, too.
-- Returns 1 when it was held, 2 when it still is (counted), 0 when it was not.
local keep = tonumber(ARGV[3])
look()
if not holds(token) then
  leave(token)
  hand_over()
  return 0
end
local number, since, count, text = note_of(token)
if not number then
  -- Handed to us, and not confirmed: our place is still noted.
  leave(token)
elseif tonumber(count) > 1 and ARGV[4] ~= '1' then
  set_note(token, number, since, digits(tonumber(count) - 1), text)
  return 2
end
-- The least time to hold it, when the holder wanted one.
local min = text and string.match(text, '&min=(%d+)')
if min then keep = math.max(keep, math.floor(tonumber(since) / 1000) + tonumber(min) - now_ms()) end
if keep > 0 then
  put(token, set and redis.call('HGET', holders, 'mode') or 'x', keep)
  return 1
end
if set then
  redis.call('ZREM', lock, token)
  redis.call('HDEL', holders, token)
  look()
else
  redis.call('DEL', lock)
  owner = false
end
hand_over()
return 1
