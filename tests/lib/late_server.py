"""A server that takes its time."""

from __future__ import annotations

import contextlib
import subprocess
import sys

from children import Child


@contextlib.contextmanager
def answers_after(seconds: float, host: str):
    """Address of a server in a process of its own, which answers each byte after so many seconds."""
    code = (
        "import socket, threading, time\n"
        "def serve(peer):\n"
        "    while peer.recv(1):\n"
        f"        time.sleep({seconds}); peer.sendall(b'x')\n"
        f"s = socket.create_server(('{host}', 0)); print(s.getsockname()[1], flush=True)\n"
        "while True: threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()\n"
    )
    server = Child([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    yield host, int(server.stdout.readline())
    server.end()
