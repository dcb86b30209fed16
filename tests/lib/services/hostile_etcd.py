#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A server of etcd's JSON gateway on 127.0.0.1 that means no good. Prints its port when it is ready.
Answers each request as its argument says:

    drip        a byte a second
    body        with a body without an end
    header      with a header without an end
    trailer     with a trailer without an end
    chunk       with a chunk of 2^60 bytes
    deep        with an array in an array in an array ...
    types       with values of other types than they should have
    numbers     with the largest numbers that there are
    orders      with an error that has orders for a terminal
    queue       with a million keys
"""
import json
import socket
import sys
import threading
import time

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
MOST = "9223372036854775807"
TYPES = {"header": [1, {}], "ID": {}, "TTL": [], "result": 7, "responses": {"response_range": 1},
         "kvs": "kvs", "succeeded": "perhaps"}


def reply(body, status=b"HTTP/1.1 200 OK\r\n"):
    data = json.dumps(body).encode()
    return status + b"Content-Length: %d\r\n\r\n%s" % (len(data), data)


def numbers(path):
    header = {"revision": MOST, "raft_term": MOST, "member_id": MOST}
    entry = {"key": "L2Zm", "value": "ZGxvY2s6OTk5OTk5OTk5OTkgOTIyMzM3MjAzNjg1NDc3NTgwNyBhPWI=",
             "create_revision": MOST, "mod_revision": MOST, "lease": MOST, "version": MOST}
    answer = {"response_range": {"header": header, "kvs": [entry] * 3, "count": MOST}}
    return {"header": header, "ID": MOST, "TTL": MOST, "result": {"header": header, "TTL": MOST},
            "succeeded": True, "responses": [answer], "kvs": [entry] * 3, "count": MOST}


def flood(peer, data):
    while True:
        peer.sendall(data)


def answer(peer, how, path):
    if how == "drip":
        for byte in HEAD + b"Content-Length: 5000\r\n\r\n" + b" " * 5000:
            peer.sendall(bytes([byte]))
            time.sleep(1)
    elif how == "body":
        peer.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        flood(peer, b"10000\r\n" + b" " * 0x10000 + b"\r\n")
    elif how == "header":
        peer.sendall(HEAD)
        flood(peer, b"X-More: " + b"m" * 1000 + b"\r\n")
    elif how == "trailer":
        peer.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n")
        flood(peer, b"X-More: " + b"m" * 1000 + b"\r\n")
    elif how == "chunk":
        peer.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n1000000000000000\r\n")
        flood(peer, b" " * 0x10000)
    elif how == "deep":
        peer.sendall(HEAD + b"Content-Length: 1000000\r\n\r\n" + b"[" * 1000000)
    elif how == "types":
        peer.sendall(reply(TYPES))
    elif how == "numbers":
        peer.sendall(reply(numbers(path)))
    elif how == "orders":
        peer.sendall(reply({"code": 3, "message": "\x1b[2J\x1b]0;\x07\x9b31m\r\n\u009b"},
                           b"HTTP/1.1 400 Bad Request\r\n"))
    elif how == "queue":
        entry = {"key": "L2Zm", "value": "", "create_revision": "1", "lease": "1"}
        data = json.dumps({"kvs": [entry] * 1000000}).encode()
        peer.sendall(HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(data), data))


def serve(peer, how):
    data = b""
    try:
        while True:
            while b"\r\n\r\n" not in data:
                more = peer.recv(65536)
                if not more:
                    return
                data += more
            head, data = data.split(b"\r\n\r\n", 1)
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            while len(data) < length:
                data += peer.recv(65536)
            data = data[length:]
            answer(peer, how, head.split()[1].decode())
    except (ConnectionError, OSError):
        pass


listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0], sys.argv[1]), daemon=True).start()
