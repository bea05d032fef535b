"""Cleans up after a killed collector once its programs have ended: makes the run file from what arrived.

Run by the guard of `_service`, the only process left: ``python -m crema.collect._killed RUN_DIR
OUTPUT SPOOL``, with the directories of the run and of its workers' records as the collector had them.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator

from ..hook._agent import lock_is_held
from ..hook._programs import program
from ._service import LocalService, happens, remove_spool, signal_agent, workers_spool

PROGRAMS_END_S = 60.0  # longer than an agent delivers at its end
REBUILD_S = 600.0
SOCKETS_BYTES = 90  # of the directory of a socket, whose whole path has 107 at most


def main() -> None:
    """Make the run file and remove the run's private directory; what must stay is listed in ``<run_id>.left.txt``."""
    run_dir, output = map(pathlib.Path, sys.argv[1:3])
    run_id = uuid.UUID(run_dir.name)
    service = LocalService(run_id, output, run_dir=run_dir)
    spools, troubles = [service.spool], []
    if service.store.exists() and sys.argv[3]:
        # Workers are new processes, as this one is, and may have another directory for temporary files.
        spools += dict.fromkeys((pathlib.Path(sys.argv[3]), workers_spool(run_id)))
    for step in (
        lambda: _wait_for_programs(service, spools),
        lambda: _deliver(service, spools),
        lambda: _make_file(service),
    ):
        try:
            step()
        except Exception as error:
            troubles.append(f"{type(error).__name__}: {error}")
    left = [service.close(sealed=not troubles), *map(_clear, spools[1:])]
    if any(left) or troubles:
        _report(service, " and ".join(filter(None, left)), troubles)


def _wait_for_programs(service: LocalService, spools: list[pathlib.Path]) -> None:
    """Wait for the run's own programs; end the agents of workers, which no longer have anybody to deliver to."""
    deadline = time.monotonic() + PROGRAMS_END_S
    for spool in spools[1:]:
        if happens(lambda at=spool: not _is_written(at), deadline):
            signal_agent(spool, signal.SIGTERM, deadline)
    for lock in (service.store / "lock", *(spool / "agent.lock" for spool in spools)):
        if not happens(lambda at=lock: not lock_is_held(at), deadline):
            raise TimeoutError(f"a program still holds {lock}")


def _is_written(spool: pathlib.Path) -> bool:
    """Whether more streams of a spool are written than that of its agent."""
    writers = sum(lock_is_held(segment) for segment in spool.glob("sp-*"))
    return writers > lock_is_held(spool / "agent.lock")


def _clear(spool: pathlib.Path) -> str:
    """Remove a spool without records, of one with records the agent's keys; returns where records are left."""
    if lock_is_held(spool / "agent.lock"):
        return str(spool)
    if any(spool.glob("sp-*")):
        shutil.rmtree(spool / "keys", ignore_errors=True)
        return str(spool)
    remove_spool(spool)
    return ""


def _deliver(service: LocalService, spools: list[pathlib.Path]) -> None:
    """Deliver spools to the store, through sockets that only this user can reach."""
    held = [spool for spool in spools if any(spool.glob("sp-*"))]
    if service.store.exists() and held:
        with _for_sockets(service.run_dir) as directory:
            _deliver_through(directory, service, held)


@contextlib.contextmanager
def _for_sockets(run_dir: pathlib.Path) -> Iterator[pathlib.Path]:
    """A directory of this user only, whose path leaves room for the names of sockets."""
    if len(os.fsencode(run_dir)) <= SOCKETS_BYTES:
        yield run_dir
        return
    with tempfile.TemporaryDirectory(prefix="crema-", dir="/tmp") as directory:
        yield pathlib.Path(directory)


def _deliver_through(
    directory: pathlib.Path, service: LocalService, spools: list[pathlib.Path]
) -> None:
    programs, sink = service.supervisor, f"ipc://{directory}/sink"
    service.endpoint = f"ipc://{directory}/aggregator"
    stores = [
        "--store",
        str(service.store),
        "--output",
        str(service.run_dir),
        "--no-live",
        "--no-output-lock",
    ]
    try:
        programs.start("crema-sink", lambda _: ["--bind", sink, *stores])
        programs.start("crema-aggregator", lambda _: ["--bind", service.endpoint, "--sink", sink])
        for spool in spools:
            service.start_agent(3600.0, spool)
            deadline = time.monotonic() + PROGRAMS_END_S
            happens(lambda at=spool / "agent.lock": lock_is_held(at), deadline)
            programs.dismiss("crema-agent")
            signal_agent(spool, signal.SIGUSR1, deadline)  # deliver everything and exit
            programs.wait("crema-agent", PROGRAMS_END_S)
    finally:
        programs.close()


def _make_file(service: LocalService) -> None:
    if any(service.store.glob("*/*.journal")):
        _rebuild(service.store / str(service.run_id), service.output / f"{service.run_id}.h5")


def _rebuild(journal: pathlib.Path, file: pathlib.Path) -> None:
    """Make `file` from the journal, unless it exists and contains more."""
    if file.exists():
        trial = journal.parent / "trial.h5"
        _run_rebuild(journal, trial)
        held, found = _records(file), _records(trial)
        trial.unlink()
        if held >= found:
            return
    _run_rebuild(journal, file)
    with contextlib.suppress(OSError):
        file.with_suffix(".live.h5").unlink()


def _run_rebuild(journal: pathlib.Path, file: pathlib.Path) -> None:
    environment = {name: v for name, v in os.environ.items() if not name.startswith("CREMA_")}
    done = subprocess.run(
        [program("crema-sink"), "rebuild", str(journal), "--output", str(file), "--json"],
        capture_output=True,
        text=True,
        timeout=REBUILD_S,
        stdin=subprocess.DEVNULL,
        env=environment,
    )
    if done.returncode != 0:
        with contextlib.suppress(ValueError, KeyError):
            raise RuntimeError(json.loads(done.stdout)["error"])
        raise RuntimeError(done.stderr.strip() or f"crema-sink rebuild: status {done.returncode}")


def _records(file: pathlib.Path) -> int:
    """How many records of all streams a run file was made of; -1 if it cannot be read."""
    from ..read.reader import RunFile

    try:
        with RunFile(file) as run:
            return int(run["summary/completeness"]["received"].sum())
    except (OSError, ValueError, KeyError):
        return -1


def _report(service: LocalService, left: str, troubles: list[str]) -> None:
    where = left or str(service.run_dir)
    lines = ["The notebook of this run was killed. What it recorded is still in", where, *troubles]
    for directory in (service.output, service.run_dir):
        with contextlib.suppress(OSError):
            path = directory / f"{service.run_id}.left.txt"
            path.write_text("\n".join([*lines, ""]), encoding="utf-8")
            return


if __name__ == "__main__":
    main()
