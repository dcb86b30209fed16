#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A ZooKeeper server on 127.0.0.1 that means no good. Prints its port when it is ready. It opens a
session for everybody, and answers each request as its argument says:

    null        with a list of nodes of which one has no name
    vast        with a list of 32 million nodes, of which none comes
    drip        a byte a second
    giant       with a packet of 2 GB, as fast as it can
    events      with events without an end
    pings       not at all, but goes on answering pings that nobody sent
    code        with an error that has no number of ZooKeeper's
"""
import socket
import struct
import sys
import threading
import time

PING, CHILDREN = 11, 12
STAT = bytes(68)


def packet(body):
    return struct.pack(">i", len(body)) + body


def header(xid, error=0):
    return struct.pack(">iqi", xid, 1, error)


def exactly(peer, count):
    data = b""
    while len(data) < count:
        more = peer.recv(count - len(data))
        if not more:
            raise ConnectionError
        data += more
    return data


def receive(peer):
    return exactly(peer, struct.unpack(">i", exactly(peer, 4))[0])


def flood(peer, data):
    """As fast as a gigabit network. The client library keeps what comes before dlock cuts it off."""
    while True:
        peer.sendall(data)
        time.sleep(len(data) / 125e6)


def answer(peer, how, xid, kind):
    if how == "drip":
        for byte in packet(header(xid) + bytes(100)):
            peer.sendall(bytes([byte]))
            time.sleep(1)
    elif how == "giant":
        peer.sendall(struct.pack(">i", 0x7FFFFFFF) + header(xid))
        flood(peer, bytes(1 << 20))
    elif how == "events":
        flood(peer, packet(header(-1) + struct.pack(">iii", 4, 3, 2) + b"/x") * 1000)
    elif how == "pings":
        flood(peer, packet(header(-2)) * 1000)
    elif how == "code":
        peer.sendall(packet(header(xid, 1)))
    elif kind == CHILDREN:
        count = {"null": 1, "vast": 0x2000000}[how]
        peer.sendall(packet(header(xid) + struct.pack(">ii", count, -1) + STAT))
    else:
        peer.sendall(packet(header(xid) + struct.pack(">i", 1) + b"/" + STAT))


def serve(peer, how):
    try:
        with peer:
            start = exactly(peer, 4)
            if start == b"srvr":
                peer.sendall(b"Zookeeper version: 3.9.0\nMode: standalone\n")
                return
            exactly(peer, struct.unpack(">i", start)[0])
            peer.sendall(packet(struct.pack(">iiqi", 0, 10000, 77, 16) + bytes(17)))
            while True:
                xid, kind = struct.unpack(">ii", receive(peer)[:8])
                if kind == PING:
                    peer.sendall(packet(header(xid)))
                else:
                    answer(peer, how, xid, kind)
    except OSError:
        pass


def main():
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        peer, _ = listener.accept()
        threading.Thread(target=serve, args=(peer, sys.argv[1]), daemon=True).start()


main()
