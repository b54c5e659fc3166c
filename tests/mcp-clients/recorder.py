#!/usr/bin/env python3
"""recorder.py FILE COMMAND...: runs a server and writes each line between it and its client to FILE, with `>` before what the
client sends and `<` before what the server sends."""

import os
import signal
import subprocess
import sys
import threading

place, command = sys.argv[1], sys.argv[2:]
server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
signal.signal(signal.SIGTERM, lambda *_: server.terminate())
with open(f"{place}.pid", "w", encoding="utf-8") as file:
    file.write(str(server.pid))
wire, lock = open(place, "ab"), threading.Lock()


def copy(mark, source, target):
    for line in iter(source.readline, b""):
        with lock:
            wire.write(mark + line)
            wire.flush()
        try:
            target.write(line)
            target.flush()
        except OSError:
            break
    try:
        target.close()
    except OSError:
        pass


threading.Thread(target=copy, args=(b"> ", sys.stdin.buffer, server.stdin), daemon=True).start()
copy(b"< ", server.stdout, sys.stdout.buffer)
os._exit(server.wait() & 0xFF)  # the other thread may still read
