-- ARGV: channel, owner, kind, keep (ms for which the lock stays taken; 0: none), how ('1': all
-- acquisitions, '0': one, '2': one, but not the last one), request (see is_counted). Releases the
-- hold, or gives up the place in line. Returns 1 when the lock was held until now, 2 when
-- acquisitions are left, 4 when only the last one is left, which stays, 0 when the owner held
-- nothing.
local keep, how = tonumber(ARGV[4]), ARGV[5]

-- Ends a read lock. The lock stays for as long as the longest of the others.
local function end_read(count)
  for n = 1, count do redis.call('DEL', read_key(owner, n)) end
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
local mode, count = held()
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
local number, since, noted, text = note_of(owner)
if how ~= '1' then
  if is_counted(text, ARGV[6]) then return 2 end
  if count > 1 then
    count_by(mode, count, -1)
    if number then
      noted = digits(math.max(1, tonumber(noted) - 1))
      set_note(owner, number, since, noted, counted(text, ARGV[6]))
    end
    return 2
  end
  if how == '2' then return 4 end
end
keep = kept_for(keep, since, text)
if keep > 0 then
  extend(mode, count, keep)
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
  end_read(count)
elseif kind == 'readwrite' then
  redis.call('DEL', lock)
  wake(true)
else
  redis.call('DEL', lock)
  wake()
end
return 1
