#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A PostgreSQL server on 127.0.0.1 that means no good. Prints its port when it is ready.

    hostile_postgres.py RECORD clear    asks for the password in clear text, and appends what it gets to RECORD
    hostile_postgres.py RECORD HOW      lets everybody in, and answers each request as HOW says:
        drip        a byte a second
        notices     notices without an end
        errors      errors without an end
        results     results without an end
        columns     columns of one row description without an end
        rows        rows of one result without an end
        empty       no rows
        nonsense    a row with text in each column
"""
import socket
import struct
import sys
import threading
import time


def message(kind, body=b""):
    return kind + struct.pack(">I", len(body) + 4) + body


def row(count, value):
    return message(b"D", struct.pack(">H", count) + (struct.pack(">I", len(value)) + value) * count)


def describe(count):
    return message(b"T", struct.pack(">H", count)
                   + (b"c\0" + struct.pack(">IHIhih", 0, 0, 25, -1, -1, 0)) * count)


READY = message(b"Z", b"I")
NOTICE = b"SWARNING\0C01000\0M" + b"x" * 4000 + b"\0\0"
ENDLESS = {
    "notices": (b"", message(b"N", NOTICE) * 64),
    "errors": (b"", message(b"E", b"SERROR\0C40001\0M" + b"x" * 4000 + b"\0\0") * 64),
    "results": (b"", (describe(1) + row(1, b"x") + message(b"C", b"SELECT 1\0")) * 1000),
    "rows": (describe(1), row(1, b"x" * 60000) * 16),
    "columns": (b"T" + struct.pack(">I", 0x3FFFFFFF) + struct.pack(">H", 65535),
                (b"c\0" + struct.pack(">IHIhih", 0, 0, 25, -1, -1, 0)) * 1000),
}


def answer(peer, how):
    if how == "drip":
        for byte in describe(1) * 10:
            time.sleep(1)
            peer.sendall(bytes([byte]))
    elif how == "empty":
        peer.sendall(describe(11) + message(b"C", b"SELECT 0\0") + READY)
    elif how == "nonsense":
        peer.sendall(describe(11) + row(11, b"-x\xff%00") + message(b"C", b"SELECT 1\0") + READY)
    else:
        head, block = ENDLESS[how]
        peer.sendall(head)
        # As fast as a gigabit network. libpq reads for as long as there is something.
        while True:
            peer.sendall(block)
            time.sleep(len(block) / 125e6)


def serve(peer, record, how):
    try:
        length = struct.unpack(">I", peer.recv(4))[0]
        peer.recv(length)
        if how == "clear":
            peer.sendall(message(b"R", struct.pack(">I", 3)))
            with open(record, "ab") as out:
                out.write(peer.recv(1000))
            return
        peer.sendall(message(b"R", struct.pack(">I", 0)) + message(b"K", struct.pack(">II", 42, 42)) + READY)
        while peer.recv(100000):
            answer(peer, how)
    except OSError:
        pass
    finally:
        peer.close()


def main():
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        peer = listener.accept()[0]
        threading.Thread(target=serve, args=(peer, *sys.argv[1:3]), daemon=True).start()


main()
