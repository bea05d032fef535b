"""Undelivered records in the spool directories of this host: of which run they are, and which agent would deliver them."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import re
import socket
import tempfile
import time
import uuid
from collections.abc import Iterator

from ..hook._agent import PROGRAM, agent_of, lock_is_held
from ..hook._config import ELSEWHERE
from ..hook._spool import stream_info
from ._finding import Finding, bytes_text, ok, problem, warning
from ._host_agent import agents_here, option

STALLED_S = 60.0  # an agent normally delivers within seconds
_SEGMENT = re.compile(r"sp-([0-9a-f]{32})-([0-9a-f]{16})")
_OF_HOST = re.compile(r"run-[0-9a-f]{32}-(.+)-[0-9a-f]{1,8}")


@dataclasses.dataclass
class Held:
    """The records of one run in a spool directory."""

    size_b: int = 0
    streams: set[str] = dataclasses.field(default_factory=set)
    written: bool = False  # one of its writers is alive
    left_s: float = 0.0  # time of the last write by a writer that has ended, since 1970


def undelivered() -> Iterator[Finding]:
    """A finding for each spool directory of this host and each run with records in it."""
    held_any = False
    for directory in spools():
        try:
            found = held(directory)
        except OSError as error:
            remedy = "run this as its owner, or as root"
            yield warning("undelivered", f"cannot be read: {error.strerror}", directory, remedy)
            continue
        for run, of_run in found.items():
            held_any = True
            yield _finding(directory, run, of_run)
    if not held_any:
        yield ok("undelivered", "the spools of this host are empty")


def spools() -> list[pathlib.Path]:
    """Spool directories of this host: the operator's, those that crema makes, those that agents here serve."""
    found: dict[pathlib.Path, None] = {}
    whose = "[0-9]*" if os.getuid() == 0 else str(os.getuid())
    for base in dict.fromkeys((tempfile.gettempdir(), *ELSEWHERE)):
        for private in sorted(pathlib.Path(base).glob(f"crema-{whose}")):
            with contextlib.suppress(FileNotFoundError):  # a run ended meanwhile
                for pattern in ("spool", "run-*", "*/spool"):
                    found |= dict.fromkeys(filter(_is_of_this_host, sorted(private.glob(pattern))))
    if operators := os.environ.get("CREMA_SPOOL"):
        found[pathlib.Path(operators)] = None
    found |= dict.fromkeys(directory for _, directory in agents_here())
    once: dict[tuple[int, int], pathlib.Path] = {}
    for path in found:
        with contextlib.suppress(OSError):  # removed, or never created
            info = path.stat()
            once.setdefault((info.st_dev, info.st_ino), path)
    return [path for path in once.values() if path.is_dir()]


def _is_of_this_host(path: pathlib.Path) -> bool:
    """Whether a spool belongs to this host. Directories for temporary files may be shared by hosts; the names of spools then contain those of the hosts."""
    host = _OF_HOST.fullmatch(path.name)
    return host is None or host[1] == socket.gethostname()


def held(directory: pathlib.Path) -> dict[str, Held]:
    """The content of a spool directory by run; the key is empty if a run's id cannot be read.

    Raises
    ------
    OSError
        If the directory cannot be listed.
    """
    runs: dict[str, str] = {}
    found: dict[str, Held] = {}
    with os.scandir(directory) as entries:
        names = sorted(entry.name for entry in entries if _SEGMENT.fullmatch(entry.name))
    for name in names:  # a stream's first segment comes first
        stream, path = name[3:35], directory / name
        try:
            info, writes = path.stat(), lock_is_held(path)
        except FileNotFoundError:
            continue  # delivered meanwhile
        except PermissionError:
            info, writes = path.stat(), False
        if stream not in runs:
            first = stream_info(path)
            if first is None and not path.exists():
                continue
            runs[stream] = (
                str(uuid.UUID(bytes=first.run_id)) if first and len(first.run_id) == 16 else ""
            )
        of_run = found.setdefault(runs[stream], Held())
        of_run.size_b += info.st_size
        of_run.streams.add(stream)
        if writes:
            of_run.written = True
        else:
            of_run.left_s = max(of_run.left_s, info.st_mtime)
    return found


def _finding(directory: pathlib.Path, run: str, of_run: Held) -> Finding:
    count = len(of_run.streams)
    what = f"{bytes_text(of_run.size_b)} of {f'run {run}' if run else 'an unknown run'}"
    what += f" in {count} stream{'s' * (count != 1)}"
    agent = agent_of(directory)
    if agent is None:
        what += ", no agent" + (", still being written" if of_run.written else "")
        options = f"--spool {directory} --aggregator ENDPOINT --keys DIR"
        remedy = f"start one, with the aggregator that serves the run: {PROGRAM} {options}"
        return problem("undelivered", what, directory, remedy)
    pid, command = agent
    endpoint = option(command, "--aggregator") or "the aggregator of its environment"
    what += f", agent {pid or 'of another container or user'} delivers to {endpoint}"
    waits_s = time.time() - of_run.left_s if of_run.left_s else 0.0
    if waits_s > STALLED_S and not of_run.written:
        what += f", nothing was delivered for {waits_s / 60:,.0f} minutes"
        log = directory / "agent.log"
        says = f"{log} says" if log.exists() else "its log says"
        remedy = (
            f"{says} what it waits for; check that the aggregator is reachable and admits its key"
        )
        return warning("undelivered", what, directory, remedy)
    return ok("undelivered", what, directory)
