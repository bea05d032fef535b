"""The pipeline that records a run: started by the collector, or operated by somebody else."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
import weakref
from collections.abc import Callable

from ..hook._agent import lock_is_held, signal_holder
from ..hook._config import HookConfig, make_private_dir
from ..hook._unix import in_each_child, local_path, make_dir
from ._keys import (
    KeysError,
    client_directory,
    make_for_agent,
    make_for_run,
    may_go_in_the_clear,
    server_key,
)
from ._pipeline import PipelineError, Supervisor
from ._reach import HERE, Plan, of_this_host

_AGENT_ENDS_S = 2.0

# Ends when its standard input is closed: without a word on it the collector was killed, and this
# process must clean up.
_GUARD = """
{ printf crema-guard >/proc/self/comm; } 2>/dev/null
read -r word
rm -rf "$1/keys" "$1/agent-keys"
case "$word" in
remove) rm -rf "$1"; rmdir "${1%/*}" ;;
keep) ;;
*) rmdir "$1" 2>/dev/null || exec "$2" -m crema.collect._killed "$1" "$3" "$4" ;;
esac
"""

_guards: weakref.WeakSet[subprocess.Popen] = weakref.WeakSet()  # of this process


def _after_fork_in_child() -> None:
    """A child may outlive this process: the guard must not wait for it."""
    for guard in list(_guards):
        with contextlib.suppress(OSError):
            guard.stdin.close()


in_each_child(_after_fork_in_child)


class Service:
    """An aggregator, and what the collector runs beside the client for one run.

    Parameters
    ----------
    run_id : uuid.UUID
        The run; it is part of every path and so of every command line.
    run_dir : pathlib.Path, optional
        Its private directory, where that is known: where temporary files go may have changed since it was made.

    Attributes
    ----------
    endpoint : str
        Of the aggregator.
    endpoints : str
        Endpoints that agents on other hosts try, separated by commas.
    keys : pathlib.Path or None
        Key directory of the client; None if the connection is not encrypted.
    server_key : str
        The aggregator's public key, in Z85; empty if the connection is not encrypted.
    agent_key : bytes
        Public key of the agent started on this machine, if it needs one. Agents of workers create their own.
    owned : bool
        Whether aggregator and sink were started for this run.
    run_dir, spool : pathlib.Path
        Private directory of the run, created when needed; the spool of an agent started here.
    output : pathlib.Path
        Directory of the run file, if it is made here.
    """

    owned = False
    endpoint = endpoints = server_key = ""
    keys: pathlib.Path | None = None

    def __init__(self, run_id: uuid.UUID, run_dir: pathlib.Path | None = None) -> None:
        self.run_id = run_id
        private = pathlib.Path(tempfile.gettempdir(), f"crema-{os.getuid()}")
        self.run_dir = run_dir or private / str(run_id)
        self.output = self.run_dir
        self.spool = self.run_dir / "spool"
        self.agent_key = b""
        self._guard: subprocess.Popen | None = None
        self.supervisor = Supervisor(self.run_dir)

    def start_agent(self, sample_interval_s: float, spool: pathlib.Path | None = None) -> None:
        """Serve a spool, by default one in the run directory, for executors on this machine."""
        spool = spool or self.spool
        self._make_run_dir()
        make_dir(spool, 0o700)
        if not self.agent_key:
            self.make_agent_keys()
        keys = ["--keys", str(self.run_dir / "agent-keys" / "keys")] if self.agent_key else []
        self.supervisor.start(
            "crema-agent",
            lambda _: [
                *("--spool", str(spool), "--aggregator", self.endpoint, *keys),
                *("--run", str(self.run_id), "--sample-interval", f"{sample_interval_s:g}s"),
            ],
            announces=False,
        )

    def make_agent_keys(self) -> None:
        """Make a key pair for the agent of this machine, if it needs one.

        Raises
        ------
        PipelineError
            If its program cannot.
        """
        if self.server_key:
            self._make_run_dir()
            try:
                self.agent_key = make_for_agent(self.run_dir / "agent-keys", self.server_key)
            except KeysError as error:
                raise PipelineError(str(error)) from error

    def trouble(self) -> str:
        """Description of programs that were given up; empty if there are none."""
        lost = self.supervisor.given_up()
        return "; ".join(f"{name} keeps dying:\n{self.supervisor.tail(name)}" for name in lost)

    def silence(self) -> str:
        """What it may mean that no aggregator answers; empty if nothing is known."""
        return ""

    def remedy(self) -> str:
        """How to make the run file from what was delivered, as the end of a sentence; empty if that is not possible here."""
        return ""

    def close(self, *, sealed: bool, began: bool = True) -> str:
        """End the programs and remove the run directory.

        Parameters
        ----------
        sealed : bool
            Whether the run file exists: then the journal is no longer needed.
        began : bool
            False if the block never began: then there is nothing to keep.

        Returns
        -------
        str
            Empty, or the location of undelivered records: then only the keys are removed.
        """
        try:
            self.supervisor.close()
            left = self._undelivered(sealed) if began else []
            if not began and (spool := workers_spool(self.run_id)) is not None:
                deadline = time.monotonic() + _AGENT_ENDS_S
                signal_agent(spool, signal.SIGKILL, deadline)
                # Until its end it would make the spool again.
                happens(lambda: not lock_is_held(spool / "agent.lock"), deadline)
                remove_spool(spool)
            self._end_guard(b"keep\n" if left else b"remove\n")
        except BaseException:  # Ctrl-C
            self._leave_to_guard()
            raise
        if left:
            return " and ".join(map(str, left))
        shutil.rmtree(self.run_dir, ignore_errors=True)  # if the guard was killed
        return ""

    def hand_over(self) -> None:
        """End the programs; what has arrived becomes a run file in a process of its own, as if this one had been killed."""
        try:
            self.supervisor.close()
        finally:
            self._leave_to_guard()

    def _leave_to_guard(self) -> None:
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.stdin.close()
            with contextlib.suppress(RuntimeError):  # no more threads: it is waited for at exit
                threading.Thread(target=guard.wait, name="crema-guard", daemon=True).start()

    def _undelivered(self, sealed: bool) -> list[pathlib.Path]:
        return [self.spool] if any(self.spool.glob("sp-*")) else []

    def _take_keys(self, directory: pathlib.Path) -> None:
        """Use the client's pair in `directory`."""
        try:
            self.server_key = server_key(directory)
        except KeysError as error:
            raise PipelineError(str(error)) from error
        self.keys = client_directory(directory)

    def _make_run_dir(self) -> None:
        make_private_dir(self.run_dir)
        make_private_dir(self.run_dir.parent)  # checked last: what is not empty stays
        if self._guard is None:
            # Another process may work out other directories, as when this one has changed TMPDIR.
            spool = workers_spool(self.run_id) or ""
            arguments = [self.run_dir.absolute(), sys.executable, self.output.absolute(), spool]
            self._guard = subprocess.Popen(
                ["/bin/sh", "-c", _GUARD, "crema-guard", *map(str, arguments)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env=_with_the_packages_of_this_process(),
            )
            _guards.add(self._guard)

    def _end_guard(self, word: bytes) -> None:
        """Let it remove the keys, or everything: Ctrl-C does not reach it."""
        if self._guard is not None:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                self._guard.communicate(word, 5)
            self._guard = None


def workers_spool(run_id: uuid.UUID) -> pathlib.Path | None:
    """Spool directory of the run's workers on this host; None if it is an operator's, of all runs."""
    return None if os.environ.get("CREMA_SPOOL") else HookConfig(run_id.hex).spool_dir()


def signal_agent(spool: pathlib.Path, number: int, deadline: float) -> None:
    """Signal the agent that holds a spool, if there is one; just after taking the lock it has not written its process id yet."""
    lock = spool / "agent.lock"
    happens(lambda: signal_holder(lock, number) or not lock_is_held(lock), deadline)


def happens(event: Callable[[], bool], deadline: float) -> bool:
    """Wait until the event happens; False if it has not by `deadline`, a time of ``time.monotonic()``."""
    while not event():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def remove_spool(spool: pathlib.Path) -> None:
    """Remove a spool directory with everything in it, and the one that holds those of all runs if no other is there."""
    shutil.rmtree(spool, ignore_errors=True)
    with contextlib.suppress(OSError):
        spool.parent.rmdir()


def _with_the_packages_of_this_process() -> dict[str, str]:
    """Variables for a Python that finds the packages that this one has found, wherever they are, and none in its working directory."""
    found = [str(local_path(f).absolute()) for f in sys.path if f and not isinstance(f, bytes)]
    return os.environ | {"PYTHONPATH": os.pathsep.join(found), "PYTHONSAFEPATH": "1"}


class ConfiguredService(Service):
    """An existing aggregator, named by ``CREMA_AGGREGATOR`` and ``CREMA_KEYS``.

    Parameters
    ----------
    run_id : uuid.UUID
        The run.
    endpoint : str
        Of the aggregator.
    keys : str
        Key directory of a client; empty: none.

    Raises
    ------
    PipelineError
        If a key file is missing.
    """

    def __init__(self, run_id: uuid.UUID, endpoint: str, keys: str) -> None:
        super().__init__(run_id)
        self.endpoint = self.endpoints = endpoint
        if keys:
            self._take_keys(pathlib.Path(keys))
        elif not may_go_in_the_clear(endpoint):
            raise PipelineError(
                f"{endpoint} is on another host, where everything would go in the clear:"
                " set CREMA_KEYS, or CREMA_INSECURE=1 if that is intended"
            )

    def silence(self) -> str:
        """An aggregator does not speak with a key that it does not admit."""
        return (
            "it is not there, or it does not admit the key of CREMA_KEYS (was it revoked?)"
            if self.server_key
            else ""
        )


class LocalService(Service):
    """Sink and aggregator beside the client with their own keys, for one run.

    Parameters
    ----------
    run_id : uuid.UUID
        The run.
    output : pathlib.Path
        Directory of the run file.
    plan : Plan
        Where the aggregator listens, and by which addresses agents try to reach it.
    run_dir : pathlib.Path, optional
        As for `Service`.
    """

    owned = True

    def __init__(
        self,
        run_id: uuid.UUID,
        output: pathlib.Path,
        plan: Plan = HERE,
        run_dir: pathlib.Path | None = None,
    ) -> None:
        super().__init__(run_id, run_dir)
        self.output = output
        self.store = self.run_dir / "store"
        self._plan = plan

    def start(self) -> None:
        """Make keys, start the sink, then the aggregator.

        Raises
        ------
        PipelineError
            With the end of the program's output.
        OSError
            If none of the permitted ports is free.
        """
        bind = self._plan.bind()
        keys = self.run_dir / "keys"
        self._make_directories(keys)
        self._take_keys(keys)
        options = ["--keys", str(keys)]
        sink = self.supervisor.start(
            "crema-sink",
            lambda ready: [
                *("--bind", ready.get("endpoint", "tcp://127.0.0.1:*")),
                *("--store", str(self.store), "--output", str(self.output)),
                "--no-output-lock",  # this store is made for the run, and is never copied
                *options,
            ],
        )
        aggregator = self.supervisor.start(
            "crema-aggregator",
            lambda ready: [
                *("--bind", ready.get("endpoint", bind)),
                *("--sink", sink["endpoint"]),
                *options,
            ],
        )
        self.endpoint = of_this_host(aggregator["endpoint"])
        self.endpoints = self._plan.endpoints(aggregator["endpoint"])

    def _make_directories(self, keys: pathlib.Path) -> None:
        try:
            self._make_run_dir()
            make_for_run(keys)
            make_dir(self.store, 0o700)
        except KeysError as error:
            raise PipelineError(f"{error}; set TMPDIR to a directory with room") from error
        except OSError as error:
            if error.filename or error.errno is None:  # the latter: a program is missing
                raise
            if error.errno == errno.EAGAIN:
                raise PipelineError(
                    f"no more processes can be started: {error.strerror}"
                ) from error
            why = f"{self.run_dir} cannot be filled: {error.strerror}"
            raise PipelineError(f"{why}; set TMPDIR to a directory with room") from error

    def remedy(self) -> str:
        file = self.output / f"{self.run_id}.h5"
        command = f"crema-sink rebuild {self.store / str(self.run_id)} --output {file}"
        return f"; when that is mended, the run file can be made: {command}"

    def _undelivered(self, sealed: bool) -> list[pathlib.Path]:
        journal = not sealed and any(self.store.glob("*/*.journal"))
        return ([self.store] if journal else []) + super()._undelivered(sealed)
