"""What the collector tells the hooks in workers and scheduler; travels inside the plugins."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import socket
import stat
import tempfile
import uuid
from collections.abc import Mapping

SPOOL_TEMPLATE = "{tmp}/crema-{uid}/run-{run_id}"


@dataclasses.dataclass(frozen=True)
class HookConfig:
    """How a process records for a run.

    Parameters
    ----------
    run_id : str
        The run's UUID, in any form that `uuid.UUID` takes.
    aggregator : str
        ZeroMQ endpoint that an agent started here ships to; empty: no agent is started.
    keys : mapping of str to str, optional
        Files of the agent's key directory, name to content.
    spool : str
        Template of the spool directory: ``{tmp}``, ``{uid}``, ``{run_id}`` and ``{host}`` are filled in where the process
        runs. ``CREMA_SPOOL`` in its environment takes precedence: then an operator's agent ships it, and none is started.
    sample_interval_s : float
        Between two samples of a worker.
    track_workers : bool
        Whether the workers' state is sampled; False leaves chunks, activities, tasks and who was there.
    start_agent : bool
        Whether the hook keeps an agent running on its host.
    agent_options : tuple of str
        More options for the agent's command line.
    client : str
        Id of the Dask client that will end the run; empty: there is none, or nobody is to watch it.
    """

    run_id: str
    aggregator: str = ""
    keys: Mapping[str, str] | None = None
    spool: str = SPOOL_TEMPLATE
    sample_interval_s: float = 1.0
    track_workers: bool = True
    start_agent: bool = True
    agent_options: tuple[str, ...] = ()
    client: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "run_id", uuid.UUID(self.run_id).hex)
        if not self.sample_interval_s > 0:
            raise ValueError(f"{self.sample_interval_s=}")

    @property
    def run_bytes(self) -> bytes:
        """The run's identity as it travels: 16 bytes."""
        return bytes.fromhex(self.run_id)

    def spool_dir(self) -> pathlib.Path:
        """Spool directory of this process, not yet made."""
        operators = os.environ.get("CREMA_SPOOL")
        if operators:
            return pathlib.Path(operators)
        return pathlib.Path(
            self.spool.format(
                tmp=tempfile.gettempdir(),
                uid=os.getuid(),
                run_id=self.run_id,
                host=socket.gethostname(),
            )
        )

    def serves(self) -> bool:
        """Whether this process is to keep an agent running."""
        return self.start_agent and bool(self.aggregator) and not os.environ.get("CREMA_SPOOL")


def make_private_dir(path: pathlib.Path) -> pathlib.Path:
    """Make a directory that only this user may write to, with its parents.

    Raises
    ------
    PermissionError
        If it is there and belongs to somebody else, or others may write to it.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    info = path.stat()
    if info.st_uid != os.getuid() or info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(f"{path} is not this user's alone")
    return path
