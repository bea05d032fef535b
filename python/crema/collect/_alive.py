"""A client's sign of life, without which the aggregator ends its run after a while; and the admission of the agents' keys."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from . import _client

ALIVE_S = 60.0  # between two signs; an aggregator waits for an hour by default
_ANSWER_S = 0.2
_AGAIN_S = 0.5  # after a message without an answer
KEYS_MAX = 1 << 14  # as many as an aggregator admits per client


class SignOfLife:
    """Repeats RUN_OPEN at intervals, in its own thread, and requests the admission of agents.

    A restarted aggregator learns of the run and of all its agents' keys as soon as it is connected.

    Parameters
    ----------
    link : AggregatorClient
        The connection, which nobody else uses until `stop`.
    run_open : dict
        Fields of the message, as they were when the run was opened.
    say : callable or None
        Prints a line for the user about what blocks the pipeline, each once.
    """

    def __init__(
        self,
        link: _client.AggregatorClient,
        run_open: dict[str, Any],
        say: Callable[[str], None] | None = None,
    ) -> None:
        self._link = link
        self._run_open = run_open
        self._run_id = run_open["run_id"]
        self._say = say
        self._said = ""
        self._over = False
        self._keys: dict[bytes, None] = {}
        self._sent = 0  # number sent over the current connection
        self._sent_over = link.connections
        self._opened = True  # as far as known, at the current aggregator
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._lock = threading.Lock()  # of what wakes it
        self._thread = threading.Thread(target=self._repeat, name="crema-alive", daemon=True)
        try:
            self._thread.start()
        except BaseException:
            self._close()
            raise

    def admit(self, key: bytes) -> None:
        """Request that agents with this public key are admitted to the run; from any thread, returns at once."""
        if len(key) == 32 and key not in self._keys and len(self._keys) < KEYS_MAX:
            self._keys[key] = None
            self._wake()

    def bring(self) -> None:
        """Send the keys that were not sent over this connection, to an aggregator that knows the run."""
        if self._sent_over != self._link.connections:
            self._sent, self._sent_over = 0, self._link.connections
        for key in list(self._keys)[self._sent :]:
            if not self._link.send(_client.RUN_QUERY, run_id=self._run_id, agent_key=key):
                return
            self._sent += 1

    def _repeat(self) -> None:
        due = time.monotonic() + ALIVE_S
        while not self._over:
            waits = self._sent < len(self._keys) or not self._opened
            left = max(due - time.monotonic(), 0.0)
            if self._link.wait(self._wake_read, min(left, _AGAIN_S) if waits else left):
                self._opened = False  # it may have restarted
            self._drain()
            if self._over:
                return
            if time.monotonic() >= due:
                due = time.monotonic() + ALIVE_S
                self._opened = False
            if not self._opened:
                self._open()
            if self._opened:
                self.bring()

    def _open(self) -> None:
        self._link.forget_answers()
        if self._link.send(_client.RUN_OPEN, **self._run_open):
            for state in self._link.states(self._run_id, _ANSWER_S):
                self._report(state.trouble)
                self._opened = state.phase != _client.UNKNOWN and not state.refusal
                break

    def _report(self, trouble: str) -> None:
        if trouble and trouble != self._said and self._say:
            self._say(f"crema: {trouble}")
        self._said = trouble or self._said

    def _wake(self) -> None:
        with self._lock, contextlib.suppress(BlockingIOError):  # then it is awake
            if self._wake_write >= 0:
                os.write(self._wake_write, b"!")

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self._wake_read, 4096):
                pass

    def stop(self) -> None:
        """Stop, and leave the connection to another; may be called again. Keys are still taken for `bring`."""
        self._over = True
        self._wake()
        self._thread.join()
        self._close()

    def _close(self) -> None:
        with self._lock:
            for fd in {self._wake_read, self._wake_write} - {-1}:
                os.close(fd)
            self._wake_read = self._wake_write = -1
