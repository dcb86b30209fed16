# SPDX-License-Identifier: MIT
"""What a Java program with Redisson does to a server, driven by lines: redisson_locks.py SOCKET [MS
[sharded]]

    take WHO KIND NAME WAIT [LEASE]	prints "WHO held", with the fence of a fenced lock, or "WHO busy"
    give WHO				prints "WHO free", or "WHO lost"
    add WHO KIND NAME TIMES FILE	adds to the number in FILE, under the lock each time

KIND is lock, fair, fenced, read, write or permit. WAIT is in ms. Without LEASE (ms) a hold is renewed
every third of MS, by default 30000, which is its lease. The steps are those that Redisson's scripts
take on the server. WHO is a thread of Java: a second take is a second acquisition of the same owner.
With sharded the messages are those that Redisson uses in a cluster of Redis 7 or newer.
"""
import os
import sys
import threading
import time
import uuid

import redis

from peer import add_one, say, serve

FAR = 922337203685477
SHARDED = sys.argv[3:] == ["sharded"]
TURN = 300000

LOCK = """
local exists, mine = redis.call('exists', KEYS[1]) == 1, redis.call('hexists', KEYS[1], ARGV[1]) == 1
if exists and not mine then return redis.call('pttl', KEYS[1]) end
local fence = KEYS[2] and redis.call('incr', KEYS[2])
redis.call('hincrby', KEYS[1], ARGV[1], 1)
redis.call('pexpire', KEYS[1], ARGV[2])
return fence and {fence} or false"""

UNLOCK = """
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return -1 end
if redis.call('hincrby', KEYS[1], ARGV[1], -1) > 0 then
  redis.call('pexpire', KEYS[1], ARGV[2])
  return 0
end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[2], '0')
return 1"""

RENEW = """
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end
return redis.call('pexpire', KEYS[1], ARGV[2])"""

# KEYS: lock, queue, timeouts. ARGV: owner, now, turn, lease.
STALE = """
local first = redis.call('lindex', KEYS[2], 0)
while first do
  local ends = redis.call('zscore', KEYS[3], first)
  if not ends or tonumber(ends) > tonumber(ARGV[2]) then break end
  redis.call('zrem', KEYS[3], first)
  redis.call('lpop', KEYS[2])
  first = redis.call('lindex', KEYS[2], 0)
end
"""

FAIR = STALE + """
if redis.call('exists', KEYS[1]) == 0 and (not first or first == ARGV[1]) then
  redis.call('lpop', KEYS[2])
  redis.call('zrem', KEYS[3], ARGV[1])
  for _, other in ipairs(redis.call('zrange', KEYS[3], 0, -1)) do
    redis.call('zincrby', KEYS[3], -tonumber(ARGV[3]), other)
  end
  redis.call('hset', KEYS[1], ARGV[1], 1)
  redis.call('pexpire', KEYS[1], ARGV[4])
  return false
end
if redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
  redis.call('hincrby', KEYS[1], ARGV[1], 1)
  redis.call('pexpire', KEYS[1], ARGV[4])
  return false
end
if redis.call('zscore', KEYS[3], ARGV[1]) then return math.max(0, redis.call('pttl', KEYS[1])) end
local last = redis.call('lindex', KEYS[2], -1)
local ends = last and redis.call('zscore', KEYS[3], last)
local left = ends and tonumber(ends) - tonumber(ARGV[2]) or redis.call('pttl', KEYS[1])
if redis.call('zadd', KEYS[3], left + tonumber(ARGV[3]) + tonumber(ARGV[2]), ARGV[1]) == 1 then
  redis.call('rpush', KEYS[2], ARGV[1])
end
return left"""

FAIR_FAILED = """
local behind = false
for _, other in ipairs(redis.call('lrange', KEYS[1], 0, -1)) do
  if behind then redis.call('zincrby', KEYS[2], -tonumber(ARGV[2]), other) end
  behind = behind or other == ARGV[1]
end
redis.call('zrem', KEYS[2], ARGV[1])
redis.call('lrem', KEYS[1], 0, ARGV[1])"""

FAIR_UNLOCK = STALE + """
if redis.call('exists', KEYS[1]) == 1 then
  if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return -1 end
  if redis.call('hincrby', KEYS[1], ARGV[1], -1) > 0 then
    redis.call('pexpire', KEYS[1], ARGV[4])
    return 0
  end
  redis.call('del', KEYS[1])
end
if first then redis.call('publish', KEYS[4] .. ':' .. first, '0') end
return 1"""

# KEYS: lock, prefix of the timeouts. ARGV: owner, lease.
READ = """
local mode = redis.call('hget', KEYS[1], 'mode')
if mode == 'write' and redis.call('hexists', KEYS[1], ARGV[1] .. ':write') == 0 then
  return redis.call('pttl', KEYS[1])
end
if not mode then redis.call('hset', KEYS[1], 'mode', 'read') end
local n = redis.call('hincrby', KEYS[1], ARGV[1], 1)
redis.call('set', KEYS[2] .. ':' .. ARGV[1] .. ':rwlock_timeout:' .. n, 1, 'px', ARGV[2])
redis.call('pexpire', KEYS[1], math.max(redis.call('pttl', KEYS[1]), tonumber(ARGV[2])))
return false"""

READ_UNLOCK = """
local mode = redis.call('hget', KEYS[1], 'mode')
if not mode then
  redis.call('publish', KEYS[3], '0')
  return -1
end
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return -1 end
local count = redis.call('hincrby', KEYS[1], ARGV[1], -1)
if count == 0 then redis.call('hdel', KEYS[1], ARGV[1]) end
redis.call('del', KEYS[2] .. ':' .. ARGV[1] .. ':rwlock_timeout:' .. (count + 1))
if redis.call('hlen', KEYS[1]) > 1 then
  local most = -3
  for _, who in ipairs(redis.call('hkeys', KEYS[1])) do
    for n = tonumber(redis.call('hget', KEYS[1], who)) or 0, 1, -1 do
      local key = KEYS[2] .. ':' .. who .. ':rwlock_timeout:' .. n
      most = math.max(most, redis.call('pttl', key))
    end
  end
  if most > 0 then
    redis.call('pexpire', KEYS[1], most)
    return 0
  end
  if mode == 'write' then return 0 end
end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[3], '0')
return 1"""

READ_RENEW = """
local count = redis.call('hget', KEYS[1], ARGV[1])
if not count then return 0 end
for n = tonumber(count), 1, -1 do
  redis.call('pexpire', KEYS[2] .. ':' .. ARGV[1] .. ':rwlock_timeout:' .. n, ARGV[2])
end
return redis.call('pexpire', KEYS[1], ARGV[2])"""

WRITE = """
local mode, field = redis.call('hget', KEYS[1], 'mode'), ARGV[1] .. ':write'
if not mode then
  redis.call('hset', KEYS[1], 'mode', 'write', field, 1)
  redis.call('pexpire', KEYS[1], ARGV[2])
  return false
end
if mode == 'write' and redis.call('hexists', KEYS[1], field) == 1 then
  redis.call('hincrby', KEYS[1], field, 1)
  redis.call('pexpire', KEYS[1], redis.call('pttl', KEYS[1]) + tonumber(ARGV[2]))
  return false
end
return redis.call('pttl', KEYS[1])"""

WRITE_UNLOCK = """
local mode, field = redis.call('hget', KEYS[1], 'mode'), ARGV[1] .. ':write'
if not mode then redis.call('publish', KEYS[3], '1') end
if mode ~= 'write' or redis.call('hexists', KEYS[1], field) == 0 then return -1 end
if redis.call('hincrby', KEYS[1], field, -1) > 0 then
  redis.call('pexpire', KEYS[1], ARGV[2])
  return 0
end
redis.call('hdel', KEYS[1], field)
if redis.call('hlen', KEYS[1]) == 1 then
  redis.call('del', KEYS[1])
  redis.call('publish', KEYS[3], '1')
else
  redis.call('hset', KEYS[1], 'mode', 'read')
end
return 1"""

# KEYS: semaphore, permits, channel. ARGV: id, end, now, far.
PERMIT = """
local over = redis.call('zrangebyscore', KEYS[2], 0, ARGV[3], 'limit', 0, 1)
if #over > 0 then
  redis.call('zrem', KEYS[2], unpack(over))
  redis.call('publish', KEYS[3], redis.call('incrby', KEYS[1], #over))
end
local value = redis.call('get', KEYS[1])
if value and tonumber(value) >= 1 then
  redis.call('decrby', KEYS[1], 1)
  redis.call('zadd', KEYS[2], ARGV[2], ARGV[1])
  return false
end
local next = redis.call('zrange', KEYS[2], 0, 0, 'withscores')
if next[1] and next[2] ~= ARGV[4] then return tonumber(next[2]) - tonumber(ARGV[3]) end
return 3600000"""

PERMIT_RELEASE = """
local ends = redis.call('zscore', KEYS[2], ARGV[1])
if redis.call('zrem', KEYS[2], ARGV[1]) ~= 1 then return -1 end
redis.call('publish', KEYS[3], redis.call('incrby', KEYS[1], 1))
if tonumber(ends) <= tonumber(ARGV[3]) then return -1 end
return 1"""


def now_ms():
    return int(time.time() * 1000)


class Hold:
    """One lock for one owner."""

    def __init__(self, server, kind, name, owner, watchdog):
        braced = name if "{" in name else "{" + name + "}"
        self.server, self.kind, self.name, self.owner = server, kind, name, owner
        self.watchdog, self.lease, self.braced = watchdog, None, braced
        self.count, self.stop = 0, None
        self.permits = []
        self.queue = "redisson_lock_queue:" + braced
        self.timeouts = "redisson_lock_timeout:" + braced
        self.channel = "redisson_lock__channel:" + braced
        if kind in ("read", "write"):
            self.channel = "redisson_rwlock:" + braced
        elif kind == "permit":
            self.channel = "redisson_sc:" + braced

    def call(self, script, keys, *args):
        if SHARDED:
            script = script.replace("'publish'", "'spublish'")
        return self.server.eval(script, len(keys), *keys, *args)

    def attempt(self):
        """None when it holds, else for how long (ms) to sleep at most."""
        lease = self.lease or self.watchdog
        if self.kind == "fair":
            return self.call(FAIR, [self.name, self.queue, self.timeouts], self.owner, now_ms(),
                             TURN, lease)
        if self.kind == "read":
            return self.call(READ, [self.name, self.braced], self.owner, lease)
        if self.kind == "write":
            return self.call(WRITE, [self.name], self.owner, lease)
        if self.kind == "permit":
            permit = os.urandom(16)
            ends = now_ms() + self.lease if self.lease else FAR
            left = self.call(PERMIT, [self.name, self.braced + ":timeout", self.channel], permit,
                             ends, now_ms(), FAR)
            if left is None:
                self.permits.append(permit)
            return left
        keys = [self.name]
        if self.kind == "fenced":
            keys.append("redisson_lock_token:" + self.braced)
        left = self.call(LOCK, keys, self.owner, lease)
        if isinstance(left, list):
            self.fence = left[0]
            return None
        return left

    def wait(self, wait_ms):
        ends = now_ms() + wait_ms
        left = self.attempt()
        if left is None:
            return True
        if wait_ms == 0:
            return self.failed()
        messages = self.server.pubsub()
        channel = self.channel + (":" + self.owner if self.kind == "fair" else "")
        if SHARDED:
            messages.execute_command("SSUBSCRIBE", channel)
            messages.subscribed_event.set()
        else:
            messages.subscribe(channel)
        while messages.get_message(timeout=0.01):
            pass
        try:
            left = self.attempt()
            while left is not None:
                if now_ms() >= ends:
                    return self.failed()
                # as a Java thread: until a message, and otherwise no sooner than left
                until = min(now_ms() + max(left, 0), ends)
                while now_ms() < until:
                    if messages.get_message(timeout=max(0, until - now_ms()) / 1000):
                        break
                left = self.attempt()
            return True
        finally:
            messages.close()

    def failed(self):
        if self.kind == "fair":
            self.call(FAIR_FAILED, [self.queue, self.timeouts], self.owner, TURN)
        return False

    def take(self, wait_ms, lease):
        self.lease, self.fence = lease, None
        if not self.wait(wait_ms):
            return "busy"
        self.count += 1
        if not lease and self.kind != "permit" and not self.stop:
            self.stop = threading.Event()
            threading.Thread(target=self.watch, args=(self.stop,), daemon=True).start()
        return "held %d" % self.fence if self.fence else "held"

    def watch(self, stop):
        while not stop.wait(self.watchdog / 3000):
            if self.kind == "read":
                alive = self.call(READ_RENEW, [self.name, self.braced], self.owner, self.watchdog)
            else:
                field = self.owner + (":write" if self.kind == "write" else "")
                alive = self.call(RENEW, [self.name], field, self.watchdog)
            if not alive:
                return

    def give(self):
        lease = self.lease or self.watchdog
        self.count -= 1
        if self.stop and not self.count:
            self.stop.set()
            self.stop = None
        if self.kind == "fair":
            done = self.call(FAIR_UNLOCK, [self.name, self.queue, self.timeouts, self.channel],
                             self.owner, now_ms(), TURN, lease)
        elif self.kind == "read":
            done = self.call(READ_UNLOCK, [self.name, self.braced, self.channel], self.owner, lease)
        elif self.kind == "write":
            done = self.call(WRITE_UNLOCK, [self.name, self.braced, self.channel], self.owner, lease)
        elif self.kind == "permit":
            done = self.call(PERMIT_RELEASE, [self.name, self.braced + ":timeout", self.channel],
                             self.permits.pop(), 0, now_ms())
        else:
            done = self.call(UNLOCK, [self.name, self.channel], self.owner, lease)
        return "lost" if done == -1 else "free"


def obey(make, holds, words):
    who = words[1]
    if words[0] == "take":
        hold = holds.get(who) or make(words[2], words[3], who)
        holds[who] = hold
        lease = int(words[5]) if len(words) > 5 else None
        say(who + " " + hold.take(int(words[4]), lease))
    elif words[0] == "give":
        say(who + " " + holds[who].give())
    elif words[0] == "add":
        hold = make(words[2], words[3], who)
        for _ in range(int(words[4])):
            hold.take(60000, None)
            add_one(words[5])
            hold.give()
        say(who + " done")


def main():
    server = redis.Redis(unix_socket_path=sys.argv[1])
    watchdog = int(sys.argv[2]) if len(sys.argv) > 2 else 30000
    program = str(uuid.uuid4())

    def make(kind, name, who):
        thread = 1 + sum(who.encode())
        return Hold(server, kind, name, "%s:%d" % (program, thread), watchdog)

    holds = {}
    serve(lambda words: obey(make, holds, words))


main()
