"""Configuration that the collector sends to the hooks in workers and scheduler, inside the plugins."""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
import socket
import stat
import tempfile
import uuid
from collections.abc import Mapping
from typing import Any

from . import _process
from ._unix import fcntl, keep_usable, make_dir

# A home directory on a shared file system is one directory for many hosts, and for one host before
# and after a boot.
SPOOL_TEMPLATE = "{tmp}/crema-{uid}/run-{run_id}-{host}-{boot}"
ELSEWHERE = ("/tmp", "/var/tmp", "/dev/shm")  # used if files in ``{tmp}`` cannot be locked

_RUNS_KEPT = 64  # that a process may record at a time


@dataclasses.dataclass(frozen=True)
class HookConfig:
    """How a process records for a run.

    Parameters
    ----------
    run_id : str
        The run's UUID, in any form that `uuid.UUID` takes.
    aggregator : str
        ZeroMQ endpoint to which an agent started here delivers; empty: no agent is started.
    server_key : str
        The aggregator's public key, in Z85; empty: the connection is not encrypted. Each host's agent creates its own key pair, whose secret stays there.
    spool : str
        Template of the spool directory: ``{tmp}``, ``{uid}``, ``{run_id}``, ``{host}`` and ``{boot}`` are filled in where the
        process runs; ``{tmp}`` is its directory for temporary files, unless `flock` does not work there. ``CREMA_SPOOL`` in its environment takes precedence: then an operator's agent ships it, and none is started.
    sample_interval_s : float
        Interval between two samples of a worker.
    track_workers : bool
        Whether the workers' state is sampled; False still records chunks, activities, tasks and membership.
    start_agent : bool
        Whether the hook keeps an agent running on its host.
    agent_options : tuple of str
        More options for the agent's command line.
    processor_prefixes : tuple of str
        Prefixes of the tasks that work on chunks; empty: unknown.
    look_interval_s : float
        Interval between two looks at the threads that run tasks; 0: none.
    client : str
        Id of the Dask client that will end the run; empty: no client is watched.
    name_key : str
        Key, in hexadecimal digits, of the hashes for what is cut from names of files; processes of the run have it, its file does not.
        Empty: the run's id, as from a client of an earlier version.
    """

    run_id: str
    aggregator: str = ""
    server_key: str = ""
    spool: str = SPOOL_TEMPLATE
    sample_interval_s: float = 1.0
    track_workers: bool = True
    start_agent: bool = True
    agent_options: tuple[str, ...] = ()
    processor_prefixes: tuple[str, ...] = ()
    client: str = ""
    look_interval_s: float = 0.05
    name_key: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "run_id", uuid.UUID(self.run_id).hex)
        if not self.sample_interval_s > 0:
            raise ValueError(f"{self.sample_interval_s=}")
        if self.look_interval_s < 0:
            raise ValueError(f"{self.look_interval_s=}")

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> HookConfig:
        """Create it from what a client sent, which may have another version: unknown entries are ignored."""
        known = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in known})

    @property
    def run_bytes(self) -> bytes:
        """The run's identity on the wire: 16 bytes."""
        return bytes.fromhex(self.run_id)

    @property
    def name_bytes(self) -> bytes:
        """The key of names as bytes."""
        return bytes.fromhex(self.name_key) or self.run_bytes

    def spool_dir(self) -> pathlib.Path:
        """Spool directory of this process, which it keeps; it may not exist yet."""
        operators = os.environ.get("CREMA_SPOOL")
        return pathlib.Path(operators or _filled_in(self.spool, self.run_id))

    def serves(self) -> bool:
        """Whether this process should keep an agent running."""
        return self.start_agent and bool(self.aggregator) and not os.environ.get("CREMA_SPOOL")


@functools.lru_cache(_RUNS_KEPT)
def _filled_in(template: str, run_id: str) -> str:
    """Spool directory of a run, worked out once in a process: an analysis may change where its temporary files go."""
    return template.format(
        tmp=_temporary(tempfile.gettempdir()),
        uid=os.getuid(),
        run_id=run_id,
        host=socket.gethostname(),
        boot=_process.boot_id()[:8] or "0",
    )


@functools.cache
def _temporary(first: str) -> str:
    """The first directory in which file locks work: they show which processes serve and write a spool."""
    return next((base for base in dict.fromkeys((first, *ELSEWHERE)) if locks_files(base)), first)


def locks_files(directory: str) -> bool:
    """Whether `flock` works in a directory: on some shared file systems it fails, or excludes no other process."""
    try:
        with tempfile.NamedTemporaryFile(prefix=".crema-", dir=directory) as one:
            keep_usable(one.fileno())
            fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with open(one.name, "rb") as other:
                try:
                    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return True
    except OSError:
        pass
    return False


def make_private_dir(path: pathlib.Path) -> pathlib.Path:
    """Make a directory that only this user may write to, with its parents.

    Raises
    ------
    PermissionError
        If it exists and belongs to another user, or others may write to it.
    """
    info = make_dir(path, 0o700)
    if info.st_uid != os.getuid() or info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(f"{path} must belong to this user and be writable by no other")
    return path
