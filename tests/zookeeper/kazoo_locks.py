# SPDX-License-Identifier: MIT
"""kazoo's locks, driven by lines as CuratorLocks.java is: kazoo_locks.py HOST:PORT,...

KIND is lock, read or write. All of them know the names of other clients' nodes. With curator-lock
the lock's own nodes have a name that Curator knows, too.
"""
import sys

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout
from kazoo.recipe.lock import Lock

from peer import add_one, say, serve

WRITERS = ["-__WRIT__"]
ALL = ["-lock-", "-__READ__"] + WRITERS


class CuratorLock(Lock):
    _NODE_NAME = "-lock-"


def make(client, kind, path, who):
    if kind == "curator-lock":
        return CuratorLock(client, path, who, extra_lock_patterns=["-lock-"])
    if kind == "read":
        return client.ReadLock(path, who, extra_lock_patterns=WRITERS)
    make_lock = client.WriteLock if kind == "write" else client.Lock
    return make_lock(path, who, extra_lock_patterns=ALL)


def obey(client, locks, words):
    who = words[1]
    if words[0] == "take":
        locks[who] = make(client, words[2], words[3], who)
        try:
            held = locks[who].acquire(timeout=int(words[4]) / 1000)
        except LockTimeout:
            held = False
        say(who + (" held" if held else " busy"))
    elif words[0] == "give":
        locks[who].release()
        say(who + " free")
    elif words[0] == "add":
        for _ in range(int(words[4])):
            with make(client, words[2], words[3], who):
                add_one(words[5])
        say(who + " done")


def main():
    client = KazooClient(hosts=sys.argv[1], timeout=10)
    client.start(timeout=30)
    locks = {}
    serve(lambda words: obey(client, locks, words))
    client.stop()


main()
