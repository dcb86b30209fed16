-- The keys and the first arguments of all scripts; backend.c describes the keys. A mode is 'x'
-- (exclusive: the lock is a string, the token), 's' (shared) or a number of slots. In these two
-- modes the lock is a sorted set: token -> end of its lease in ms by this server's clock.
local lock, holders, queue, waiters = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local channel, token = ARGV[1], ARGV[2]
