#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A MySQL server on 127.0.0.1 that means no good. Prints its port when it is ready.

    hostile_mysql.py RECORD PLUGIN [switch|old]  asks for the password as PLUGIN does, in the greeting or by
                                        a switch, or as servers before 4.1 do, and appends what it
                                        gets to RECORD
    hostile_mysql.py RECORD ok HOW              lets everybody in, and answers each request as HOW says:
        drip        a byte a second
        giant       a packet of 4 GB
        results     results without an end
        columns     columns of one result without an end
        rows        rows of one result without an end
        empty       a result without rows, of as many columns as that of a request for the lock
"""
import os
import socket
import struct
import sys
import threading
import time

SALT = b"abcdefgh", b"ijklmnopqrst"


def packet(number, body):
    return struct.pack("<I", len(body))[:3] + bytes([number & 255]) + body


def greeting(plugin):
    flags = 0x81FFF7FF & ~0x0800 & ~0x0020  # neither TLS nor compression
    return packet(0, b"\x0a8.0.30\0" + struct.pack("<I", 1) + SALT[0] + b"\0"
                  + struct.pack("<H", flags & 0xFFFF) + b"\x21" + struct.pack("<H", 2)
                  + struct.pack("<H", flags >> 16) + b"\x15" + bytes(10) + SALT[1] + b"\0"
                  + plugin + b"\0")


def column(number):
    name = b"\x03def\0\0\0\x01c\0\x0c\x21\0\x40\0\0\0\xfd\0\0\0\0\0"
    return packet(number, name)


END = b"\xfe\0\0\x02\0"
OK = b"\0\0\0\x02\0\0\0"
MORE = b"\0\0\0\x0a\0\0\0"
HEADS = {
    "giant": b"",
    "results": b"",
    "columns": packet(1, b"\xfc\xff\xff"),
    "rows": packet(1, b"\x01") + column(2) + packet(3, END),
}


def block(how, first):
    """256 packets, after which their numbers are the same again."""
    if how == "giant":
        return b"\xff\xff\xff" + bytes([first]) + b"\x01" * 0xFFFFFF
    make = {"results": lambda n: packet(n, MORE), "columns": column,
            "rows": lambda n: packet(n, b"\xfd\xff\xff\0" + b"x" * 65535)}[how]
    return b"".join(make(first + n) for n in range(256))


def answer_empty(peer, record):
    while True:
        if b"SELECT" in receive(peer, record):
            peer.sendall(packet(1, b"\x0b") + b"".join(column(n) for n in range(2, 13))
                         + packet(13, END) + packet(14, END))
        else:
            peer.sendall(packet(1, OK))


def attack(peer, how):
    if how == "drip":
        for byte in packet(1, b"\0" * 60):
            peer.sendall(bytes([byte]))
            time.sleep(1)
        return
    peer.sendall(HEADS[how])
    data = block(how, {"columns": 2, "rows": 4}.get(how, 1))
    if how == "results":
        data *= 1000
    # As fast as a gigabit network. The client library keeps what comes before dlock cuts it off.
    while True:
        peer.sendall(data)
        time.sleep(len(data) / 125e6)


def receive(peer, record):
    data = peer.recv(65536)
    with open(record, "ab") as out:
        out.write(data)
    if not data:
        raise ConnectionError
    return data


def serve(peer, record, plugin, how):
    try:
        with peer:
            if plugin == "ok":
                peer.sendall(greeting(b"mysql_native_password"))
                receive(peer, record)
                peer.sendall(packet(2, OK))
                if how == "empty":
                    answer_empty(peer, record)
                receive(peer, record)
                attack(peer, how)
            name = plugin.encode()
            peer.sendall(greeting(b"mysql_native_password" if how else name))
            receive(peer, record)
            if how == "old":
                peer.sendall(packet(2, b"\xfe"))
            elif how:
                peer.sendall(packet(2, b"\xfe" + name + b"\0" + b"".join(SALT) + b"\0"))
            while True:
                receive(peer, record)
    except OSError:
        pass


def main():
    record, plugin = sys.argv[1], sys.argv[2]
    how = sys.argv[3] if len(sys.argv) > 3 else None
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        peer, _ = listener.accept()
        threading.Thread(target=serve, args=(peer, record, plugin, how), daemon=True).start()


main()
