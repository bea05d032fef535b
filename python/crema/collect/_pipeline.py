"""Programs that the collector starts beside itself, and keeps running.

One thread starts every program and restarts those that died, on the same port. The kernel signals
the programs when that thread ends, so that a killed notebook leaves no process behind; what they
stored stays.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import os
import pathlib
import subprocess
import threading
import time
from collections.abc import Callable, Sequence

from ..hook._programs import environment, program
from ..hook._unix import is_readable, keep_usable

QUICK_DEATHS_MAX = 10  # in a row, each within QUICK_S of its start: then it is given up
QUICK_S = 2.0
TAIL_LINES = 12


class PipelineError(RuntimeError):
    """A program could not be started; the message contains the end of its output."""


@dataclasses.dataclass
class _Daemon:
    """One program: how to start it and how it is."""

    name: str
    command: Callable[[dict], list[str]]  # built from its last ready line, {} before the first
    log: pathlib.Path
    announces: bool  # prints a ready line
    ready: dict = dataclasses.field(default_factory=dict)
    process: subprocess.Popen | None = None
    started_at: float = 0.0
    quick_deaths: int = 0
    restarts: int = 0
    done: bool = False  # it ended by itself, as expected

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None


class Supervisor:
    """Starts programs, restarts those that die, and ends them.

    Parameters
    ----------
    log_dir : pathlib.Path
        Directory for each program's standard error, ``<name>.log``.
    """

    def __init__(self, log_dir: pathlib.Path) -> None:
        self._log_dir = log_dir
        self._daemons: dict[str, _Daemon] = {}
        self._requests: collections.deque = collections.deque()
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()

    def start(
        self,
        name: str,
        command: Callable[[dict], Sequence[str]],
        *,
        timeout_s: float = 20.0,
        announces: bool = True,
    ) -> dict:
        """Start a program and wait until it reports that it is ready.

        Parameters
        ----------
        name : str
            Of the program; one of each.
        command : callable
            Returns its arguments given its previous ready line, so that after a restart it binds to the same port.
        timeout_s : float
            How long it may take to become ready.
        announces : bool
            False for a program without a ready line.

        Returns
        -------
        dict
            Its ready line; empty without one.

        Raises
        ------
        PipelineError
            If it is missing, ends, or does not become ready.
        """
        daemon = _Daemon(
            name,
            lambda ready: [program(name), *command(ready)],
            self._log_dir / f"{name}.log",
            announces,
        )
        answer: collections.deque = collections.deque()
        answered = threading.Event()
        self._requests.append((daemon, timeout_s, answer, answered))
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="crema-supervisor", daemon=True)
            thread.start()  # raises where there may be no more
            self._thread = thread
        self._wake.set()
        answered.wait(timeout_s + 10)
        outcome = answer.popleft() if answer else PipelineError(f"{name}: no supervisor")
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    @property
    def restarts(self) -> dict[str, int]:
        """Number of restarts of each program."""
        return {d.name: d.restarts for d in self._daemons.values() if d.restarts}

    def given_up(self) -> list[str]:
        """Names of programs that died too often too quickly."""
        return [
            d.name
            for d in self._daemons.values()
            if not d.alive and not d.done and d.quick_deaths >= QUICK_DEATHS_MAX
        ]

    def alive(self, name: str) -> bool:
        """Whether a program is running."""
        daemon = self._daemons.get(name)
        return daemon is not None and daemon.alive

    def tail(self, name: str) -> str:
        """The end of what a program wrote to standard error."""
        try:
            lines = (self._log_dir / f"{name}.log").read_text(errors="replace").splitlines()
        except OSError:
            return ""
        return "\n".join(lines[-TAIL_LINES:])

    def wait(self, name: str, timeout_s: float) -> bool:
        """Wait for a program to end by itself; True if it did."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if not self.alive(name):
                return True
            time.sleep(0.05)
        return False

    def dismiss(self, name: str) -> None:
        """Allow this program to end: it will not be restarted."""
        if name in self._daemons:
            self._daemons[name].done = True

    def close(self, timeout_s: float = 10.0) -> None:
        """End every program: SIGTERM, last started first, then SIGKILL for the rest after `timeout_s`."""
        if os.getpid() != self._pid:
            return  # a forked child does not own the programs
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            # The programs end with the thread that started them, so it is asked to end them.
            self._thread.join(timeout_s + 5)
            self._thread = None

    # -------------------------------------------------------------- in the thread

    def _run(self) -> None:
        while not self._stopping:
            self._wake.clear()
            while self._requests:
                self._start(*self._requests.popleft())
            for daemon in self._daemons.values():
                self._look_after(daemon)
            self._wake.wait(0.1)
        for daemon in reversed(self._daemons.values()):
            _end(daemon, 10.0)

    def _start(self, daemon, timeout_s, answer, answered) -> None:
        try:
            self._spawn(daemon, timeout_s)
            self._daemons[daemon.name] = daemon
            answer.append(daemon.ready)
        except Exception as error:
            _end(daemon, 1.0)
            answer.append(error)
        finally:
            answered.set()

    def _look_after(self, daemon: _Daemon) -> None:
        if daemon.alive or daemon.done:
            return
        now = time.monotonic()
        quick = now - daemon.started_at < QUICK_S
        if daemon.quick_deaths >= QUICK_DEATHS_MAX:
            return
        if quick and now - daemon.started_at < min(0.1 * 2**daemon.quick_deaths, QUICK_S):
            return  # wait if it failed immediately
        daemon.quick_deaths = daemon.quick_deaths + 1 if quick else 0
        daemon.restarts += 1
        with contextlib.suppress(PipelineError, OSError):
            self._spawn(daemon, 10.0)

    def _spawn(self, daemon: _Daemon, timeout_s: float) -> None:
        try:
            command = [*daemon.command(daemon.ready), "--end-with", str(os.getpid())]
            with daemon.log.open("ab") as log:
                keep_usable(log.fileno())
                daemon.started_at = time.monotonic()
                daemon.process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE if daemon.announces else log,
                    stderr=log,
                    start_new_session=True,  # Ctrl-C is for the analysis
                    env=environment(),
                )
        except OSError as error:
            raise PipelineError(f"{daemon.name} could not be started: {error}") from error
        if daemon.announces:
            daemon.ready = self._read_ready(daemon, timeout_s)

    def _read_ready(self, daemon: _Daemon, timeout_s: float) -> dict:
        """The ready line; afterwards standard output is closed, since nothing else comes."""
        deadline = time.monotonic() + timeout_s
        with daemon.process.stdout as out:
            line = b""
            while not line.endswith(b"\n") and not self._stopping:
                left = deadline - time.monotonic()
                if left <= 0:
                    self._refuse(daemon, f"was not ready within {timeout_s:g} s")
                if is_readable(out.fileno(), min(left, 0.2)):
                    piece = os.read(out.fileno(), 4096)
                    if not piece:
                        code = daemon.process.wait()
                        self._refuse(daemon, f"ended with status {code} before it was ready")
                    line += piece
        try:
            ready = json.loads(line)
        except ValueError:
            ready = None
        if not isinstance(ready, dict) or ready.get("event") != "ready":
            self._refuse(daemon, f"printed {line[:200]!r} instead of its ready line")
        return ready

    def _refuse(self, daemon: _Daemon, what: str) -> None:
        tail = self.tail(daemon.name)
        said = f"; its log ends with:\n{tail}" if tail else ""
        raise PipelineError(f"{daemon.name} {what}{said}")


def _end(daemon: _Daemon, timeout_s: float) -> None:
    if daemon.process is None:
        return
    with contextlib.suppress(ProcessLookupError):
        daemon.process.terminate()
    try:
        daemon.process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        daemon.process.kill()
        daemon.process.wait()
