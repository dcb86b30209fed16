# SPDX-License-Identifier: MIT
"""What the programs here share that are driven by lines: each line is obeyed in a thread of its own."""
import sys
import threading
import time


def say(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def add_one(path):
    """Adds 1 to the number in a file, so slowly that two who do it at once are noticed."""
    with open(path) as file:
        number = int(file.read())
    time.sleep(0.001)
    with open(path, "w") as file:
        file.write("%d\n" % (number + 1))


def serve(obey):
    say("ready")
    for line in sys.stdin:
        threading.Thread(target=obey, args=(line.split(),), daemon=True).start()
