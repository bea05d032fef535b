"""What the machine takes for a commit: a program that only writes a record into one small file and syncs it.

    python tests/bench/floor.py ENDPOINT FILE

As such a program it answers a question at once, and a record when it is durable, in one loop: what remains of a sink if it does nothing else.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import time

import zmq
from chain import free_port

RECORD = bytes(160)  # as large as a small run's record in its journal
QUESTION = b"?"


def serve(endpoint: str, path: str) -> None:
    socket = zmq.Context.instance().socket(zmq.ROUTER)
    socket.bind(endpoint)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    while True:
        peer, message = socket.recv_multipart()
        if message != QUESTION:
            os.write(fd, message)
            os.fdatasync(fd)
        socket.send_multipart([peer, message])


class Floor:
    """That program, and a file that is synced without any."""

    def __init__(self, directory: pathlib.Path):
        endpoint = f"tcp://127.0.0.1:{free_port()}"
        words = [sys.executable, __file__, endpoint, str(directory / "floor-messages")]
        self.process = subprocess.Popen(words)
        self.fd = os.open(directory / "floor-sync", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.socket = zmq.Context.instance().socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.connect(endpoint)
        self.messages_s()  # it has started

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.socket.close()
        os.close(self.fd)

    def sync_s(self) -> float:
        """write and fdatasync alone."""
        began = time.monotonic()
        os.write(self.fd, RECORD)
        os.fdatasync(self.fd)
        return time.monotonic() - began

    def messages_s(self) -> float:
        """The same, behind a question and a request, each with its answer."""
        began = time.monotonic()
        for message in (QUESTION, RECORD):
            self.socket.send(message)
            self.socket.recv()
        return time.monotonic() - began


if __name__ == "__main__":
    serve(*sys.argv[1:])
