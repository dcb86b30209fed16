-- ARGV: channel, token, ttl (ms), fence, since, text: those of the nodes that have the lock.
-- Sets the lock again on a node that has lost it. Where somebody else has it, nothing changes.
look()
if owner then return 0 end
raise(ARGV[4], 0)
redis.call('DEL', holders)
set_note(token, ARGV[4], ARGV[5], ARGV[6])
put(token, 'x', tonumber(ARGV[3]))
return 1
