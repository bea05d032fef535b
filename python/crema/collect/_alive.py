"""A client's sign of life, without which the aggregator ends its run after a while; and the admission of the agents' keys."""

from __future__ import annotations

import contextlib
import os
import pathlib
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
    """Repeats RUN_OPEN at intervals, on its own connection and in its own thread, and requests the admission of agents.

    A restarted aggregator learns of the run and of all its agents' keys as soon as it is connected.

    Parameters
    ----------
    endpoint : str
        Of the aggregator.
    keys : pathlib.Path or None
        Key directory of the client.
    run_open : dict
        Fields of the message, as they were when the run was opened.
    say : callable or None
        Prints a line for the user about what blocks the pipeline, each once.
    """

    def __init__(
        self,
        endpoint: str,
        keys: pathlib.Path | None,
        run_open: dict[str, Any],
        say: Callable[[str], None] | None = None,
    ) -> None:
        self._run_open = run_open
        self._run_id = run_open["run_id"]
        self._say = say
        self._said = ""
        self._over = False
        self._ends = False  # RUN_END is being sent
        self._keys: dict[bytes, None] = {}  # to be admitted, in the order in which they came
        self._sent = 0  # number sent over the current connection
        self._opened = True  # as far as known, at the current aggregator
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._lock = threading.Lock()  # of what wakes it
        self._link = _client.AggregatorClient(endpoint, keys)
        self._thread = threading.Thread(target=self._repeat, name="crema-alive", daemon=True)
        try:
            self._thread.start()
        except BaseException:
            self._close()  # a context with an open socket would never end where it is collected
            raise

    def admit(self, key: bytes) -> None:
        """Request that agents with this public key are admitted to the run; from any thread, returns at once."""
        if len(key) == 32 and key not in self._keys and len(self._keys) < KEYS_MAX:
            self._keys[key] = None
            self._wake()

    def run_ends(self) -> None:
        """Send no more RUN_OPEN: RUN_END is sent elsewhere."""
        self._ends = True

    def _repeat(self) -> None:
        due = time.monotonic() + ALIVE_S
        while not self._over:
            waits = self._sent < len(self._keys) or not self._opened
            left = max(due - time.monotonic(), 0.0)
            if self._link.wait(self._wake_read, min(left, _AGAIN_S) if waits else left):
                self._opened, self._sent = False, 0  # it may have restarted
            self._drain()
            if self._over:
                return
            if time.monotonic() >= due:
                due = time.monotonic() + ALIVE_S
                self._opened = False
            if not self._opened:
                self._open()
            if self._opened:
                self._bring()

    def _open(self) -> None:
        kind = _client.RUN_QUERY if self._ends else _client.RUN_OPEN
        fields = {"run_id": self._run_id} if self._ends else self._run_open
        if self._link.send(kind, **fields):
            for state in self._link.states(self._run_id, _ANSWER_S):
                self._report(state.trouble)
                self._opened = state.phase != _client.UNKNOWN and not state.refusal
                break  # only read, so that answers do not pile up

    def _bring(self) -> None:
        for key in list(self._keys)[self._sent :]:
            if not self._link.send(_client.RUN_QUERY, run_id=self._run_id, agent_key=key):
                return
            self._sent += 1
            for _ in self._link.states(self._run_id, 0.01):
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
        """Stop; may be called again."""
        self._over = True
        self._wake()
        self._thread.join()
        self._close()

    def _close(self) -> None:
        with self._lock:
            for fd in {self._wake_read, self._wake_write} - {-1}:
                os.close(fd)
            self._wake_read = self._wake_write = -1
        self._link.close()
