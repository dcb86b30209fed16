# SPDX-License-Identifier: MIT
"""What Node programs with redlock 5 or redis-semaphore do to one server, or to five, driven by lines:
node_locks.py SOCKET...

    take WHO KIND NAME TTL WAIT		prints "WHO held", or "WHO busy"
    give WHO				prints "WHO free", or "WHO lost"
    add WHO KIND NAME TTL TIMES FILE	adds to the number in FILE, under the lock each time

KIND is redlock or semaphore; the latter is redis-semaphore's Mutex, and with several servers its
RedlockMutex. TTL and WAIT are in ms. A hold is extended as the libraries do that by themselves. The
scripts have the effect of theirs; node_locks.js, which takes the same lines, runs the libraries.
"""
import os
import random
import sys
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import redis

from peer import add_one, say, serve

EXISTS_SET = """
if redis.call('exists', KEYS[1]) == 1 then return 0 end
redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1"""

SET_IF_EQUAL = """
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1"""

EXPIRE_IF_EQUAL = """
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('pexpire', KEYS[1], ARGV[2])
return 1"""

DEL_IF_EQUAL = """
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('del', KEYS[1])"""


class Lock:
    """One lock for one owner; a subclass says what a library does."""

    def __init__(self, servers, name, ttl):
        self.servers, self.name, self.ttl = servers, name, ttl
        self.quorum = len(servers) // 2 + 1
        self.pool = ThreadPoolExecutor(len(servers))
        self.stop = None

    def everywhere(self, ask):
        """Asks all servers at once: for each whether it said yes; one that fails says no."""
        def one(server):
            try:
                return ask(server) in (1, True)
            except redis.RedisError:
                return False
        return list(self.pool.map(one, self.servers))

    def script(self, text, *args):
        return self.everywhere(lambda server: server.eval(text, 1, self.key, *args))

    def set_nx(self, server):
        return server.set(self.key, self.value, px=self.ttl, nx=True)

    def take(self, wait):
        ends = time.monotonic() + wait / 1000
        while not self.attempt():
            if time.monotonic() >= ends:
                return "busy"
            time.sleep(self.pause())
        self.stop = threading.Event()
        threading.Thread(target=self.keep, args=(self.stop,), daemon=True).start()
        return "held"

    def keep(self, stop):
        while not stop.wait(self.extend_after / 1000):
            if not self.extend():
                return

    def give(self):
        self.stop.set()
        return "free" if sum(self.script(DEL_IF_EQUAL, self.value)) >= self.quorum else "lost"


class Redlock(Lock):
    """redlock 5: names as they are, 32 hexadecimal digits; its using() extends 500 ms before the end"""

    def __init__(self, servers, name, ttl):
        super().__init__(servers, name, ttl)
        self.key = name
        self.extend_after = max(ttl - round(ttl * 0.01) - 2 - 500, 1)

    def attempt(self):
        self.value = os.urandom(16).hex()
        return sum(self.script(EXISTS_SET, self.value, self.ttl)) >= self.quorum or self.undo()

    def undo(self):
        self.script(DEL_IF_EQUAL, self.value)
        return False

    def pause(self):
        return (200 + random.uniform(-100, 100)) / 1000

    def extend(self):
        return sum(self.script(SET_IF_EQUAL, self.value, self.ttl)) >= self.quorum


class Mutex(Lock):
    """redis-semaphore: "mutex:" before the name, a UUID; extends after 0.8 of the time"""

    def __init__(self, servers, name, ttl):
        super().__init__(servers, name, ttl)
        self.key = "mutex:" + name
        self.value = str(uuid.uuid4())
        self.extend_after = round(ttl * 0.8)

    def attempt(self):
        if sum(self.everywhere(self.set_nx)) >= self.quorum:
            return True
        if len(self.servers) > 1:
            self.script(DEL_IF_EQUAL, self.value)
        return False

    def pause(self):
        return 0.01

    def extend(self):
        extended = self.script(EXPIRE_IF_EQUAL, self.value, self.ttl)
        if sum(extended) < self.quorum:
            if len(self.servers) > 1:
                self.script(DEL_IF_EQUAL, self.value)
            return False
        for server, done in zip(self.servers, extended):
            if not done:
                try:
                    self.set_nx(server)
                except redis.RedisError:
                    pass
        return True


KINDS = {"redlock": Redlock, "semaphore": Mutex}


def obey(servers, holds, words):
    who = words[1]
    if words[0] == "take":
        holds[who] = KINDS[words[2]](servers, words[3], int(words[4]))
        say(who + " " + holds[who].take(int(words[5])))
    elif words[0] == "give":
        say(who + " " + holds[who].give())
    elif words[0] == "add":
        for _ in range(int(words[5])):
            lock = KINDS[words[2]](servers, words[3], int(words[4]))
            if lock.take(60000) != "held":
                return
            add_one(words[6])
            lock.give()
        say(who + " done")


def main():
    servers = [redis.Redis(unix_socket_path=path) for path in sys.argv[1:]]
    holds = {}
    serve(lambda words: obey(servers, holds, words))


main()
