-- ARGV: channel, owner, kind, keep (ms for which the lock stays taken; 0: none). Releases the hold,
-- or gives up the place in line. Returns 1 when the lock was held until now, 0 when the owner held
-- nothing.
local keep = tonumber(ARGV[4])

-- Ends a read lock. The lock stays for as long as the longest of the others.
local function end_read()
  redis.call('DEL', read_key(owner, 1))
  redis.call('HDEL', lock, owner)
  local left = all_left()
  if left > 0 then
    redis.call('PEXPIRE', lock, digits(left))
  else
    redis.call('DEL', lock)
    forget_holders()
    wake()
  end
end

sweep()
local mode = held()
if not mode then
  leave()
  redis.call('HDEL', notes, owner)
  -- The lease of a read lock may have ended before that of others.
  if kind == 'readwrite' and has == 'hash' and redis.call('HDEL', lock, owner) == 1 then
    if all_left() < 0 then
      redis.call('DEL', lock)
      wake()
    end
  elseif kind == 'fair' and has == 'none' then
    wake()
  end
  return 0
end
local _, since, text = note_of(owner)
keep = kept_for(keep, since, text)
if keep > 0 then
  extend(mode, keep)
  note_kept(owner, keep)
  if kind ~= 'semaphore' then wake(true) end
  return 1
end
redis.call('HDEL', notes, owner)
if kind == 'semaphore' then
  redis.call('ZREM', timeouts, permit(owner))
  redis.call('INCR', lock)
  wake()
elseif mode == 's' then
  end_read()
elseif kind == 'readwrite' then
  redis.call('DEL', lock)
  wake(true)
else
  redis.call('DEL', lock)
  wake()
end
return 1
