-- The lock, in each dialect. A release frees the lock and calls the first waiter, which takes it
-- like any client. No newcomer of dlock passes the queue. A waiter that was called and has not
-- tried within LATE is passed by the next one, which is called for that time. A waiter without a
-- listener on its channel is dead.

-- ---- records: of a holder 'FENCE SINCE TEXT', of a waiter 'QUEUED_AT MODE TEXT'

-- Fence, since when (us) and text of a holder; nil: another program's.
local function holder(who)
  return string.match(redis.call('HGET', holders, field_of(who)) or '', '^(%d+) (%d+) (.*)$')
end

local function set_holder(number, since, text)
  redis.call('HSET', holders, token, table.concat({number, since, text}, ' '))
end

local function waiter(who)
  return string.match(redis.call('HGET', waiters, who) or '', '^(%d+) (%w+) (.*)$')
end

local function leave(who)
  dequeue(who)
  redis.call('HDEL', waiters, who)
end

-- The mode in which the token holds the lock, and what is left of its lease (ms); nil: it does not.
local function own_mode()
  for _, hold in ipairs(all_holds()) do
    if field_of(hold[1]) == token then return hold[2], hold[3] end
  end
end

local function ms_since(us) return us and math.floor((now_us - us) / 1000) or -1 end

-- The hold whose lease ends first.
local function first_hold()
  local first
  for _, hold in ipairs(all_holds()) do
    if not first or hold[3] >= 0 and (first[3] < 0 or hold[3] < first[3]) then first = hold end
  end
  return first
end

-- The waiter that was called and has not tried since, and when it was called (ms).
local function called()
  return string.match(redis.call('HGET', waiters, 'called') or '', '^(%S+) (%d+)$')
end

-- Was this waiter called LATE ago or earlier, and could it still take the lock?
local function late(who)
  local first, since = called()
  if first ~= who or math.abs(now - since) < LATE then return false end
  local _, wanted = waiter(who)
  return room(wanted or 'x')
end

-- The first waiter. Removes dead and late ones; a living one is back with its next try.
local function head()
  local who = at(0)
  while who and who ~= token and (late(who) or not listens(who)) do
    leave(who)
    who = at(0)
  end
  return who
end

-- Calls the first waiter if there is room for it, and the second one to watch it. Its time counts
-- from the first call. changed: they must check the lock in any case.
local function call(changed)
  local first = head()
  if not first then
    if kind == 'none' then redis.call('DEL', waiters) end
    return
  end
  local _, wanted = waiter(first)
  local fits = room(wanted or 'x')
  if not fits then
    redis.call('HDEL', waiters, 'called')
  elseif called() ~= first and wanted then
    redis.call('HSET', waiters, 'called', first .. ' ' .. digits(now))
  end
  if not fits and not changed then return end
  publish(channel .. first, '0')
  local second = at(1)
  if second and waiter(second) then publish(channel .. second, fits and LATE + 5 or '0') end
end

-- ---- the requests

local function take(mine, wanted, ms, text, least)
  local number, since = holder(token)
  if not mine or not number then
    number, since = next_fence(least), digits(now_us)
    if wanted == 'x' or kind == 'none' then redis.call('DEL', holders) end
  elseif tonumber(least) > tonumber(number) then
    raise_fence(least)
    number = least
  end
  set_holder(number, since, text .. mute())
  if called() == token then redis.call('HDEL', waiters, 'called') end
  leave(token)
  -- The lock is taken last, so that a missing permission shows before anything is taken.
  put(wanted, ms, mine)
  if wanted ~= 'x' then call() end
  return {1, number}
end

local function acquire(ms, wanted, text, queued_at, least, enqueues)
  local came, mine, in_order = tonumber(queued_at), own_mode(), least == '0'
  -- A waiter may try when the memory is full.
  if redis.call('HGET', waiters, token) then keep_fence() end
  if other_slots(wanted) then return {2, other_slots(wanted)} end
  local first, ahead = head(), -1
  local takes = mine or room(wanted) and (not in_order or not first or first == token)
  -- Later than all that came before, even when this server's clock was set back.
  if came == 0 and enqueues == '1' then came = math.max(last_place() + 1, now_us) end
  if takes then return take(mine, mine or wanted, ms, text, least) end
  if enqueues == '1' then
    ahead = enqueue(digits(came))
    redis.call('HSET', waiters, token, table.concat({digits(came), wanted, text}, ' '))
    redis.call('PEXPIRE', waiters, QUEUE)
  end
  if in_order and first then call() end
  local hold = first_hold() or {'', 'x', -1}
  local _, since, its_text = holder(hold[1])
  -- The release of such a holder wakes nobody.
  local foreign = kind ~= 'none' and (not since or string.find(its_text, '&mute=1$'))
  return {0, hold[3], ahead, digits(came), foreign and 1 or 0, redis.sha1hex(hold[1]),
          ms_since(since), tonumber(string.match(its_text or '', '^ttl=(%d+)') or '0')}
end

local function renew(ms, text)
  local mine, left = own_mode()
  if not mine then return {#all_holds() == 0 and 0 or 2} end
  if what == 'renew' and refuses(mine, ms) then return {3} end
  keep_fence()
  local number, since, stored = holder(token)
  if text == '' then
    text = stored or ''
  elseif number then
    set_holder(number, since, text .. mute())
  end
  put(mine, ms, mine)
  if left > tonumber(ms) then
    announce(true, mine)
    call(true)
  end
  return {1, number or '0', text}
end

local function release(keep, text, silent, least)
  local mine, first = own_mode(), at(0)
  if least ~= '0' then raise_fence(least) end
  if mine and keep ~= '0' then
    renew(keep, text)
    return {1}
  end
  keep_fence()
  if mine then drop({token, mine, 0, 1}) end
  if silent == '0' then
    if mine then announce(false, mine) else leave(token) end
    -- Another program wakes nobody when it releases the lock, so the new first waiter must check.
    call(first == token)
  end
  if mine then finish() end
  return {mine and 1 or 0}
end

local function show_row(who, wanted, since, text)
  return {who == '' and '' or redis.sha1hex(who), field_of(who) == token and 1 or 0, wanted or 'x',
          ms_since(since), text or describe(who)}
end

local function show()
  local holds, waits = {}, {}
  for _, hold in ipairs(all_holds()) do
    local number, since, text = holder(hold[1])
    local row = show_row(hold[1], hold[2], since, text)
    table.insert(row, number or '0')
    table.insert(row, hold[3])
    table.insert(holds, row)
  end
  for _, who in ipairs(all_waiters()) do
    local came, wanted, text = waiter(who)
    if (came or describe(who) ~= '') and listens(who) then
      table.insert(waits, show_row(who, wanted, came, text))
    end
  end
  return {redis.call('GET', fence) or '0', holds, waits}
end

local function break_hold(id)
  for _, hold in ipairs(all_holds()) do
    if hold[1] == '' then return {kind} end
    if redis.sha1hex(hold[1]) == id then
      drop(hold)
      announce(false, hold[2])
      call(true)
      finish()
      return {1}
    end
  end
  return {0}
end

local requests = {acquire = acquire, renew = renew, release = release, show = show,
                  ['break'] = break_hold}
return requests[what](unpack(ARGV, 6))
