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


class ConfiguredService:
    """An aggregator that is there already: ``CREMA_AGGREGATOR`` and ``CREMA_KEYS`` name it.

    Parameters
    ----------
    endpoint : str
        Of the aggregator.
    keys : pathlib.Path or None
        Key directory of a client.

    Raises
    ------
    PipelineError
        If a key file is missing.
    """

    owned = False

    def __init__(self, endpoint: str, keys: pathlib.Path | None) -> None:
        self.endpoint = endpoint
        self.keys = keys
        self.key_texts = read_keys(keys)

    def trouble(self) -> str:
        """Empty: an operator looks after these programs."""
        return ""

    def close(self) -> str:
        """Nothing of it is ours to end."""
        return ""


class LocalService:
    """Sink and aggregator beside the client, with keys of their own, for one run.

    Parameters
    ----------
    run_id : uuid.UUID
        The run; it is part of every path and so of every command line.
    output : pathlib.Path
        Where the run file goes.
    host : str
        Address that the agents reach this machine by; loopback if all is on it.
    """

    owned = True

    def __init__(self, run_id: uuid.UUID, output: pathlib.Path, host: str) -> None:
        private = make_private_dir(pathlib.Path(tempfile.gettempdir(), f"crema-{os.getuid()}"))
        self.run_dir = private / str(run_id)
        self.run_dir.mkdir(mode=0o700)
        self.keys = self.run_dir / "keys"
        self.store = self.run_dir / "store"
        self.spool = self.run_dir / "spool"
        self.endpoint = ""
        self.key_texts: dict[str, str] = {}
        self.supervisor = Supervisor(self.run_dir)
        self._run_id = run_id
        self._output = output
        self._host = host

    def start(self) -> None:
        """Make keys, start the sink, then the aggregator.

        Raises
        ------
        PipelineError
            With the end of what the program said.
        """
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

    def start_agent(self, sample_interval_s: float) -> None:
        """Serve a spool in the run directory, for executors that work on this machine."""
        self.spool.mkdir(mode=0o700)
        self.supervisor.start(
            "crema-agent",
            lambda _: [
                *("--spool", str(self.spool), "--aggregator", self.endpoint),
                *("--keys", str(self.keys), "--run", str(self._run_id)),
                *("--sample-interval", f"{sample_interval_s:g}s"),
            ],
            announces=False,
        )

    def trouble(self) -> str:
        """What no longer runs and was given up, in words; empty if all is well."""
        lost = self.supervisor.given_up()
        return "; ".join(f"{name} keeps dying:\n{self.supervisor.tail(name)}" for name in lost)

    def close(self) -> str:
        """End the programs and remove the run directory.

        Returns
        -------
        str
            Empty, or where what was not delivered still lies: then nothing is removed.
        """
        self.supervisor.close()
        left = [self.store] if any(self.store.glob("*/*.journal")) else []
        left += [self.spool] if any(self.spool.glob("sp-*")) else []
        if left:
            return " and ".join(map(str, left))
        shutil.rmtree(self.run_dir, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.run_dir.parent.rmdir()  # unless another run or an agent's spool is in it
        return ""

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
