"""A process between agents and aggregator that reads what passes and lets some of it vanish, by its type.

Without keys, as everything on one machine may run: with CURVE nothing can stand there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import zmq

from crema.hook import _columns
from crema.hook._records import MESSAGES

DATA, HEARTBEAT = _columns.MESSAGES["DATA"], _columns.MESSAGES["HEARTBEAT"]
_BODIES = {DATA: MESSAGES["Data"], HEARTBEAT: MESSAGES["Heartbeat"]}
_HEADER_BYTES = 24


class Between:
    """A ROUTER towards the agents, and a DEALER towards the aggregator for each of them.

    `vanishes(kind, body)` decides on what agents send; `seen` notes every DATA and HEARTBEAT of theirs as
    (monotonic seconds, kind, body, whether it passed).
    """

    def __init__(self, aggregator: str):
        self.vanishes: Callable[[int, object], bool] = lambda kind, body: False
        self.seen: list[tuple[float, int, object, bool]] = []
        self._aggregator, self._over = aggregator, False
        self._context = zmq.Context()
        self._agents = self._context.socket(zmq.ROUTER)
        self._agents.linger = 0
        self.endpoint = f"tcp://127.0.0.1:{self._agents.bind_to_random_port('tcp://127.0.0.1')}"
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self):
        self._over = True
        self._thread.join()
        self._context.destroy(linger=0)

    def _run(self):
        poller, lines, names = zmq.Poller(), {}, {}
        poller.register(self._agents, zmq.POLLIN)
        while not self._over:
            for ready, _ in poller.poll(100):
                if ready is not self._agents:
                    self._agents.send_multipart([names[ready], ready.recv()])
                    continue
                name, message = ready.recv_multipart()
                if name not in lines:
                    line = self._context.socket(zmq.DEALER)
                    line.linger = 0
                    line.connect(self._aggregator)
                    poller.register(line, zmq.POLLIN)
                    lines[name], names[line] = line, name
                if self._passes(message):
                    lines[name].send(message)

    def _passes(self, message: bytes) -> bool:
        kind = message[5]
        if kind not in _BODIES:
            return True
        body = _BODIES[kind].FromString(message[_HEADER_BYTES:])
        passes = not self.vanishes(kind, body)
        self.seen.append((time.monotonic(), kind, body, passes))
        return passes
