"""TCP ports for programs that are started again where they were."""

from __future__ import annotations

import collections
import socket

_held: collections.deque[socket.socket] = collections.deque(maxlen=200)


def free_port() -> int:
    """A port of loopback on which a program may listen.

    A socket stays bound to it, so that the kernel gives it to nobody who asks for any port, and no other test finds it free. A program
    that sets SO_REUSEADDR, as all servers here do, can bind it beside a socket that sets it and does not listen.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    if len(_held) == _held.maxlen:
        _held.popleft().close()
    _held.append(held)
    return held.getsockname()[1]
