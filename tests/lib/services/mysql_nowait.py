#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A proxy before a MariaDB server on 127.0.0.1. In replies it replaces the error of NOWAIT by the one
that Oracle's MySQL sends since 8.0.1. Prints its port when it is ready.

    mysql_nowait.py PORT    1205 becomes 3572
"""
import socket
import struct
import sys
import threading


def error(code):
    return b"\xff" + struct.pack("<H", code) + b"#HY000"


def pump(source, target, is_reply):
    try:
        while data := source.recv(65536):
            target.sendall(data.replace(error(1205), error(3572)) if is_reply else data)
    except OSError:
        pass
    for side in source, target:
        try:
            side.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def main():
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        client, _ = listener.accept()
        server = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
        threading.Thread(target=pump, args=(client, server, False), daemon=True).start()
        threading.Thread(target=pump, args=(server, client, True), daemon=True).start()


main()
