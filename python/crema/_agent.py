"""Keeps an agent running beside the processes that record: one a spool directory, whoever starts it.

The agent holds the lock of its spool directory. Whoever finds that lock free starts one; if two do, one of them finds the lock
taken and leaves. It is detached, so that it outlives a worker that is killed.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import pathlib
import signal
import subprocess
import threading
import time

from ._config import HookConfig
from ._programs import program

logger = logging.getLogger("crema")

PROGRAM = "crema-agent"
_PATIENCE_S = 5.0  # for an agent that was started to take the lock
_PATIENCE_MAX_S = 60.0
_WATCH_S = 1.0


class AgentKeeper:
    """Starts an agent for a spool directory whenever none is there.

    Parameters
    ----------
    config : HookConfig
        The run.
    directory : pathlib.Path
        Spool directory.
    """

    def __init__(self, config: HookConfig, directory: pathlib.Path) -> None:
        self._config = config
        self._directory = directory
        self._starter: threading.Thread | None = None
        self._not_before = 0.0
        self._patience_s = _PATIENCE_S
        self._timer: asyncio.TimerHandle | None = None
        self.started = 0
        self.problem = ""

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Check now and every second, on `loop`, until `stop`."""
        self._timer = loop.call_later(_WATCH_S, self.watch, loop)
        try:
            self.check()
        except OSError as error:
            self._note(f"no word of {PROGRAM}: {error}")

    def stop(self) -> None:
        """Check no more; the agent goes on."""
        if self._timer is not None:
            self._timer.cancel()

    def check(self) -> None:
        """Start an agent if the spool has none. Returns at once: the start happens in a thread."""
        now = time.monotonic()
        if now < self._not_before or (self._starter is not None and self._starter.is_alive()):
            return
        if self.is_held():
            self._patience_s, self._not_before = _PATIENCE_S, 0.0
            return
        # An agent that cannot stay is not asked for again and again.
        self._not_before = now + self._patience_s
        self._patience_s = min(2 * self._patience_s, _PATIENCE_MAX_S)
        self._starter = threading.Thread(target=self._start, name="crema-agent-start", daemon=True)
        self._starter.start()

    def is_held(self) -> bool:
        """Whether an agent serves the spool now."""
        return lock_is_held(self._directory / "agent.lock")

    def _start(self) -> None:
        try:
            with open(self._directory / "starter.lock", "ab") as only_one:
                try:
                    fcntl.flock(only_one, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    self._not_before = time.monotonic() + 1.0  # another process here is at it
                    return
                self._start_alone()
        except Exception as error:
            self._note(f"{PROGRAM} could not be started: {error}")

    def _start_alone(self) -> None:
        if self.is_held():
            return
        command = [program(PROGRAM), "--spool", str(self._directory)]
        command += ["--aggregator", self._config.aggregator, "--run", self._config.run_id]
        if self._config.keys:
            command += ["--keys", str(write_keys(self._directory / "keys", self._config.keys))]
        command += [*self._config.agent_options, "--daemon"]
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.started += 1
        # Hold the starter's lock until the agent is there, so that a host full of workers starts one and not a hundred.
        deadline = time.monotonic() + _PATIENCE_S
        while not self.is_held():
            status = child.poll()
            if status not in (None, 0) or time.monotonic() > deadline:
                self._note(f"{PROGRAM} did not take up {self._directory} (exit status {status})")
                return
            time.sleep(0.05)
        self.problem = ""
        child.wait(_PATIENCE_S)  # the daemon goes on without it

    def _note(self, problem: str) -> None:
        if problem != self.problem:
            self.problem = problem
            logger.warning("crema: %s", problem)


def dismiss(config: HookConfig) -> None:
    """Have the agent that serves the run's spool on this host deliver what there is and leave, if crema started it."""
    directory = config.spool_dir()
    lock = directory / "agent.lock"
    if not config.serves() or not lock_is_held(lock):
        return
    try:
        (directory / "dismissed").touch(exist_ok=False)
    except FileExistsError:
        return  # another worker here did; asked twice, an agent leaves at once
    os.kill(int(lock.read_text()), signal.SIGTERM)


def lock_is_held(path: pathlib.Path) -> bool:
    """Whether some process holds the lock on a file."""
    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def write_keys(directory: pathlib.Path, keys: dict[str, str]) -> pathlib.Path:
    """Write the files of a key directory, readable by this user only; each appears whole."""
    directory.mkdir(mode=0o700, exist_ok=True)
    for name, content in keys.items():
        if pathlib.PurePath(name).name != name:
            raise ValueError(f"{name!r} is no file name")
        hidden = directory / f".{name}.{os.getpid()}"
        fd = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(content)
        hidden.rename(directory / name)
    return directory
