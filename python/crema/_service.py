"""The pipeline that a run is recorded with: one that the collector starts, or one that an operator runs."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import uuid

from ._config import make_private_dir
from ._pipeline import PipelineError, Supervisor
from ._programs import program

CLIENT_KEYS = ("client.key", "client.key_secret", "server.key")  # what agents and collectors hold


class Service:
    """An aggregator, and what the collector runs beside the client for one run.

    Parameters
    ----------
    run_id : uuid.UUID
        The run; it is part of every path and so of every command line.

    Attributes
    ----------
    endpoint : str
        Of the aggregator.
    keys : pathlib.Path or None
        Key directory of a client; None where the connection is plain.
    key_texts : dict
        Texts of the key files, for agents on other hosts.
    owned : bool
        Whether aggregator and sink are this run's own.
    run_dir, spool : pathlib.Path
        Private directory of the run, there as soon as something is in it; the spool of an agent started here.
    """

    owned = False
    endpoint = ""
    keys: pathlib.Path | None = None

    def __init__(self, run_id: uuid.UUID) -> None:
        self.run_id = run_id
        private = pathlib.Path(tempfile.gettempdir(), f"crema-{os.getuid()}")
        self.run_dir = private / str(run_id)
        self.spool = self.run_dir / "spool"
        self.key_texts: dict[str, str] = {}
        self.supervisor = Supervisor(self.run_dir)

    def start_agent(self, sample_interval_s: float) -> None:
        """Serve a spool in the run directory, for executors that work on this machine."""
        self._make_run_dir()
        self.spool.mkdir(mode=0o700)
        keys = ["--keys", str(self.keys)] if self.keys is not None else []
        self.supervisor.start(
            "crema-agent",
            lambda _: [
                *("--spool", str(self.spool), "--aggregator", self.endpoint, *keys),
                *("--run", str(self.run_id), "--sample-interval", f"{sample_interval_s:g}s"),
            ],
            announces=False,
        )

    def trouble(self) -> str:
        """What no longer runs and was given up, in words; empty if all is well."""
        lost = self.supervisor.given_up()
        return "; ".join(f"{name} keeps dying:\n{self.supervisor.tail(name)}" for name in lost)

    def close(self, *, sealed: bool) -> str:
        """End the programs and remove the run directory.

        Parameters
        ----------
        sealed : bool
            Whether the run file is there: then the journal is no longer needed.

        Returns
        -------
        str
            Empty, or where what was not delivered still lies: then nothing is removed.
        """
        self.supervisor.close()
        left = self._undelivered(sealed)
        if left:
            return " and ".join(map(str, left))
        shutil.rmtree(self.run_dir, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.run_dir.parent.rmdir()  # unless another run or an agent's spool is in it
        return ""

    def _undelivered(self, sealed: bool) -> list[pathlib.Path]:
        return [self.spool] if any(self.spool.glob("sp-*")) else []

    def _make_run_dir(self) -> None:
        make_private_dir(self.run_dir.parent)
        self.run_dir.mkdir(mode=0o700, exist_ok=True)


class ConfiguredService(Service):
    """An aggregator that is there already: ``CREMA_AGGREGATOR`` and ``CREMA_KEYS`` name it.

    Parameters
    ----------
    run_id : uuid.UUID
        The run.
    endpoint : str
        Of the aggregator.
    keys : pathlib.Path or None
        Key directory of a client.

    Raises
    ------
    PipelineError
        If a key file is missing.
    """

    def __init__(self, run_id: uuid.UUID, endpoint: str, keys: pathlib.Path | None) -> None:
        super().__init__(run_id)
        self.endpoint = endpoint
        self.keys = keys
        self.key_texts = read_keys(keys)


class LocalService(Service):
    """Sink and aggregator beside the client, with keys of their own, for one run.

    Parameters
    ----------
    run_id : uuid.UUID
        The run.
    output : pathlib.Path
        Where the run file goes.
    host : str
        Address that the agents reach this machine by; loopback if all is on it.
    """

    owned = True

    def __init__(self, run_id: uuid.UUID, output: pathlib.Path, host: str) -> None:
        super().__init__(run_id)
        self.keys = self.run_dir / "keys"
        self.store = self.run_dir / "store"
        self._output = output
        self._host = host

    def start(self) -> None:
        """Make keys, start the sink, then the aggregator.

        Raises
        ------
        PipelineError
            With the end of what the program said.
        """
        self._make_run_dir()
        self._make_keys()
        self.store.mkdir(mode=0o700)
        options = ["--keys", str(self.keys)]
        sink = self.supervisor.start(
            "crema-sink",
            lambda ready: [
                *("--bind", ready.get("endpoint", "tcp://127.0.0.1:*")),
                *("--store", str(self.store), "--output", str(self._output)),
                *options,
            ],
        )
        aggregator = self.supervisor.start(
            "crema-aggregator",
            lambda ready: [
                *("--bind", ready.get("endpoint", f"tcp://{self._host}:*")),
                *("--sink", sink["endpoint"]),
                *options,
            ],
        )
        self.endpoint = aggregator["endpoint"]
        self.key_texts = read_keys(self.keys)

    def _undelivered(self, sealed: bool) -> list[pathlib.Path]:
        journal = not sealed and any(self.store.glob("*/*.journal"))
        return ([self.store] if journal else []) + super()._undelivered(sealed)

    def _make_keys(self) -> None:
        command = [program("crema-aggregator"), "--make-keys", str(self.keys)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise PipelineError(f"keys could not be made: {error}") from error
        if done.returncode != 0:
            raise PipelineError(f"keys could not be made: {done.stderr.strip()}")


def read_keys(directory: pathlib.Path | None) -> dict[str, str]:
    """Texts of the key files that an agent needs, by name; empty without keys."""
    if directory is None:
        return {}
    try:
        return {name: (directory / name).read_text() for name in CLIENT_KEYS}
    except OSError as error:
        raise PipelineError(f"{directory} is not a client's key directory: {error}") from error
