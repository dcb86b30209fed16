-- ARGV: channel, token, keep (ms, 0: free it now), how ('1': however often it was acquired, '0':
-- one acquisition, '2': one, but not the last), request (see is_counted). Leaves the line, too.
-- Returns 1 when it was held, 3 when another has it now, 2 when it still is (counted), 4 when
-- only the last acquisition is there, which stays, 0 when it was not held.
local keep = tonumber(ARGV[3])
look()
if not holds(token) then
  leave(token)
  hand_over()
  return 0
end
local number, since, count, text = note_of(token)
if not number then
  if ARGV[4] == '2' then return 4 end
  -- Handed to us, and neither taken nor settled: our place is still noted.
  if keep > 0 then settle(token) else leave(token) end
elseif ARGV[4] ~= '1' then
  if is_counted(text, ARGV[5]) then return 2 end
  if tonumber(count) > 1 then
    set_note(token, number, since, digits(tonumber(count) - 1), counted(text, ARGV[5]))
    return 2
  end
  if ARGV[4] == '2' then return 4 end
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
  -- hand_over() removes the key, or gives it to another.
  owner = false
end
return hand_over() and 3 or 1
