"""Keeps one agent per spool directory running beside the processes that record.

The agent holds the lock of its spool directory. A process that finds the lock free starts an agent;
if two do, one of the agents finds the lock taken and exits. The agent is detached, so that it
outlives a worker that is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import pathlib
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import IO, Any

from ._config import HookConfig
from ._programs import environment, program
from ._unix import fcntl, is_readable, keep_usable, make_dir, open_file

logger = logging.getLogger("crema")

PROGRAM = "crema-agent"
KEY_ACTION = "crema-agent-key"  # of the event that carries an agent's public key
_PATIENCE_S = 5.0  # how long a started agent may take to get the lock
_PATIENCE_MAX_S = 60.0
_WATCH_S = 1.0
_CLOCK_S = 2.0  # how far the clock may have been set since
_STARTER = (
    "starter.lock"  # of the process that starts the agent; holds the public key that was announced
)
_LOOKS = 3  # at an agent whose key no process has announced, before this one announces it


class AgentKeeper:
    """Starts an agent for a spool directory whenever none is there.

    Parameters
    ----------
    config : HookConfig
        The run.
    directory : pathlib.Path
        Spool directory.
    announce : callable, optional
        Receives the public key of the directory's agent, in Z85, on the loop of `watch`, if no other process of the host announces it.
    """

    def __init__(
        self,
        config: HookConfig,
        directory: pathlib.Path,
        announce: Callable[[str], None] | None = None,
    ) -> None:
        self._config = config
        self._directory = directory
        self._announce = announce
        self._announced = ""  # the key that was, by this process or another one of the host
        self._noted = False  # and the others of the host know
        self._looks = 0  # at an agent whose key may not have been announced
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starter: threading.Thread | None = None
        self._not_before = 0.0
        self._patience_s = _PATIENCE_S
        self._timer: asyncio.TimerHandle | None = None
        self._ending = False
        self._over = False
        self.started = 0
        self.problem = ""

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Check now and then every second, on `loop`, until `stop`."""
        self._loop = loop
        self._timer = loop.call_later(_WATCH_S, self.watch, loop)
        try:
            self.check()
        except OSError as error:
            self._note(f"no sign of {PROGRAM}: {error}")

    def writers_end(self) -> None:
        """From now on start an agent only for undelivered records."""
        self._ending = True

    def stop(self, *, over: bool = False) -> None:
        """Stop checking. The agent keeps running, unless the run is over: one that is just starting would wait for it in vain."""
        if self._timer is not None:
            self._timer.cancel()
        if over:
            self._over = True
            self._dismiss_own()

    def _dismiss_own(self) -> None:
        if self.started:
            _dismiss_agent_of(self._directory)

    def check(self) -> None:
        """Start an agent if the spool has none. Returns at once: the start happens in a thread."""
        if self._announced and not self._noted:  # at an earlier look, so it has left this process
            self._note_announced()
        now = time.monotonic()
        if now < self._not_before or (self._starter is not None and self._starter.is_alive()):
            return
        if self.is_held():
            self._patience_s, self._not_before = _PATIENCE_S, 0.0
            if self._config.server_key and not self._announced:
                self._see_announced()
            return
        if self._ending and not any(self._directory.glob("sp-*")):
            return
        # Do not start an agent again and again if it cannot stay.
        self._not_before = now + self._patience_s
        self._patience_s = min(2 * self._patience_s, _PATIENCE_MAX_S)
        self._starter = threading.Thread(target=self._start, name="crema-agent-start", daemon=True)
        self._starter.start()

    def is_held(self) -> bool:
        """Whether an agent is serving the spool."""
        return lock_is_held(self._directory / "agent.lock")

    def _start(self) -> None:
        try:
            with open(self._directory / _STARTER, "ab") as only_one:
                keep_usable(only_one.fileno())
                try:
                    fcntl.flock(only_one, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    self._not_before = time.monotonic() + 1.0  # another process starts one
                    return
                self._start_alone()
        except Exception as error:
            self._note(f"{PROGRAM} could not be started: {error}")

    def _start_alone(self) -> None:
        """Start one; returns when it serves the spool, so that the lock of its starter shows that one is starting."""
        if self._over or self.is_held():
            return
        command = [program(PROGRAM), "--spool", str(self._directory)]
        command += ["--aggregator", self._config.aggregator, "--run", self._config.run_id]
        if self._config.server_key:
            command += ["--server-key", self._config.server_key, "--print-key"]
        else:
            command.append("--insecure")  # the collector checked that it is local, or intended
        child = subprocess.Popen(
            [*command, *self._config.agent_options, "--daemon"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env=environment(),
        )
        self.started += 1
        with child.stdout, child.stderr:
            key = _first_line(child.stdout) if self._config.server_key else ""
            if self._loop is not None:
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    self._loop.call_soon_threadsafe(self._announce_key, key)
            status = None
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = child.wait(_PATIENCE_S)  # the daemon continues without it
            if status != 0 or not self.is_held():
                why = child.stderr.read().decode(errors="replace").strip() if status else ""
                self._note(
                    why or f"{PROGRAM} did not serve {self._directory} (exit status {status})"
                )
                return
        self.problem = ""
        if self._over:
            self._dismiss_own()

    def _see_announced(self) -> None:
        """Leave it to the process that has started the agent to announce its key, unless that one may have died before."""
        key = public_key(self._directory)
        with contextlib.suppress(OSError):  # then others announce it too
            if (self._directory / _STARTER).read_text() == key:
                self._announced, self._noted = key, True
        self._looks += 1
        if self._looks > _LOOKS:
            self._announce_key(key)

    def _note_announced(self) -> None:
        self._noted = True
        with contextlib.suppress(OSError), open(self._directory / _STARTER, "r+") as note:
            note.write(self._announced)

    def _announce_key(self, key: str) -> None:
        if key and key != self._announced and self._announce is not None:
            self._announced, self._noted = key, False
            self._announce(key)

    def _note(self, problem: str) -> None:
        if problem != self.problem:
            self.problem = problem
            logger.warning("crema: %s", problem)


def _first_line(pipe: IO[bytes]) -> str:
    """What a program writes first; empty if that takes too long, or if it ends without."""
    if not is_readable(pipe.fileno(), _PATIENCE_S):
        return ""
    return os.read(pipe.fileno(), 1024).decode(errors="replace").strip()


def dismiss(config: HookConfig) -> None:
    """Ask the agent that serves the run's spool on this host, if crema started it, to deliver everything and exit."""
    if config.serves():
        _dismiss_agent_of(config.spool_dir())


def _dismiss_agent_of(directory: pathlib.Path) -> None:
    lock = directory / "agent.lock"
    if lock_is_held(lock):
        signal_holder(lock, signal.SIGUSR1)  # otherwise it exits by itself when it is idle


def signal_holder(lock: pathlib.Path, number: int) -> bool:
    """Signal the process whose id is in a lock file; False if it is not certain to be the holder.

    The number may by now belong to another process, or to another container. So the process must
    belong to this user, must have started before the number was written, and must serve this
    directory.
    """
    try:
        pid, written_s = int(lock.read_text()), lock.stat().st_mtime
        with _held(pid) as process:
            if not _is_agent_of(pid, lock.parent, written_s):
                return False
            if process is None:
                os.kill(pid, number)
            else:
                signal.pidfd_send_signal(process, number)
    except (OSError, ValueError, IndexError):
        return False
    return True


@contextlib.contextmanager
def _held(pid: int) -> Iterator[int | None]:
    """Descriptor that refers to this process and not to a later one with its number; None before Linux 5.3."""
    process = None
    try:
        process = os.pidfd_open(pid)
    except AttributeError:
        pass  # a Python that was built for earlier ones, as conda's are
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
    try:
        yield process
    finally:
        if process is not None:
            os.close(process)


def _is_agent_of(pid: int, directory: pathlib.Path, written_s: float) -> bool:
    words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    serves = words[words.index(b"--spool") + 1]
    owner = pathlib.Path(f"/proc/{pid}").stat().st_uid
    ticks = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    began_s = (
        time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")
    )
    return (
        owner == os.getuid()
        and pathlib.Path(os.fsdecode(serves)).samefile(directory)
        and began_s <= written_s + _CLOCK_S
    )


def agent_of(directory: pathlib.Path) -> tuple[int, list[str]] | None:
    """Process id and command line of the agent that serves a spool directory, None if there is none.

    The number is 0 and the command line empty if the process cannot be identified, such as one of another container or user.
    """
    lock = directory / "agent.lock"
    try:
        if not lock_is_held(lock):
            return None
    except PermissionError:  # started by an operator: only its owner may open it
        return None if _lock_holder(lock) is None else (0, [])
    try:
        pid = int(lock.read_text())
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except (OSError, ValueError):
        return 0, []
    command = words.rstrip("\0").split("\0")
    return (pid, command) if pathlib.Path(command[0]).name == PROGRAM else (0, [])


def key_topic(run_id: str) -> str:
    """Topic of the Dask events that carry the public keys of a run's agents."""
    return f"crema-keys-{run_id}"


def key_event(key: str) -> dict[str, Any]:
    """Message of an event with a public key."""
    return {"action": KEY_ACTION, "key": key}


def public_key(directory: pathlib.Path) -> str:
    """Public key of the agent that serves a spool directory, in Z85; empty if it does not have its own."""
    try:
        text = (directory / "keys" / "agent.key").read_text()
    except OSError:
        return ""
    found = re.search(r'public-key = "(\S{40})"', text)
    return found[1] if found else ""


def lock_is_held(path: pathlib.Path) -> bool:
    """Whether any process holds the lock on a file."""
    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _lock_holder(path: pathlib.Path) -> int | None:
    """Process that holds the lock on a file, from the kernel's list of locks; 0 if it is one of another container, None if nobody does."""
    try:
        inode = path.stat().st_ino
        locks = pathlib.Path("/proc/locks").read_text().splitlines()
    except OSError:
        return None
    # "1: FLOCK  ADVISORY  WRITE 4711 08:01:1234 0 EOF"
    for fields in map(str.split, locks):
        if fields[-3].endswith(f":{inode}"):
            return max(int(fields[-4]), 0)
    return None


def rights_of_agent(directory: pathlib.Path) -> tuple[int, int] | None:
    """User id and effective capabilities of the agent that serves a spool directory; None where they cannot be seen."""
    pid = _lock_holder(directory / "agent.lock")
    try:
        status = pathlib.Path(f"/proc/{pid or 'none'}/status").read_text()
    except OSError:
        return None
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return int(fields["Uid"].split()[1]), int(fields["CapEff"], 16)


def write_keys(directory: pathlib.Path, keys: dict[str, str]) -> pathlib.Path:
    """Write the files of a key directory, readable by this user only; each appears whole."""
    make_dir(directory, 0o700)
    for name, content in keys.items():
        if pathlib.PurePath(name).name != name:
            raise ValueError(f"{name!r} is not a file name")
        hidden = directory / f".{name}.{os.getpid()}"
        fd = open_file(hidden, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(content)
        hidden.rename(directory / name)
    return directory
