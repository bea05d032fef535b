"""Whether the directories that a run needs are there, work and have room; whether keys are secret; which live files are abandoned."""

from __future__ import annotations

import os
import pathlib
import stat
import tempfile
import uuid
from collections.abc import Iterator

from ..hook._agent import agent_of, rights_of_agent
from ..hook._config import HookConfig, locks_files
from ..hook._recorder import spool_limit_b
from ..hook._spool import SEGMENT_BYTES
from ..read.reader import LIVE, silence
from ._finding import Finding, bytes_text, ok, problem, warning
from ._keys import KeysError, server_key

FILE_BYTES = 1 << 30  # of run files; below it a long run may not fit
_IN_MEMORY = ("tmpfs", "ramfs")
SECRET = ".key_secret"
_READS = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH: either reads another user's files
_SAMPLES = {"CAP_SYS_PTRACE": 1 << 19, "CAP_CHOWN": 1 << 0}


def spool_directory() -> pathlib.Path:
    """The operator's spool directory; where there is none, the directory in which those of the runs are made."""
    directory = HookConfig(uuid.uuid4().hex).spool_dir()  # of a run that has none yet
    return directory if os.environ.get("CREMA_SPOOL") else directory.parent


def room(output: pathlib.Path) -> Iterator[Finding]:
    """Whether what a run writes on this host has room: its spool, its journal, its file."""
    limit = spool_limit_b(os.environ.get("CREMA_SPOOL_LIMIT", ""))
    yield _room("spool", spool_directory(), limit, SEGMENT_BYTES)
    if not os.environ.get("CREMA_AGGREGATOR"):
        journals = pathlib.Path(tempfile.gettempdir())
        if _existing(journals) != _existing(spool_directory()):
            yield _room("journals", journals, FILE_BYTES, SEGMENT_BYTES)
        yield _room("run files", output, FILE_BYTES, SEGMENT_BYTES)


def _room(use: str, directory: pathlib.Path, enough_b: int, least_b: int) -> Finding:
    """Whether files can be made in a directory, and how much fits there."""
    place = _existing(directory)
    try:
        with tempfile.NamedTemporaryFile(prefix=".crema-", dir=place):
            pass
        found = os.statvfs(place)
    except OSError as error:
        remedy = "choose another directory, or let this user write there"
        return problem("room", f"{use}: no file can be made: {error.strerror}", directory, remedy)
    free_b = found.f_bavail * found.f_frsize
    what = f"{use}: {bytes_text(free_b)} free"
    if free_b < least_b:
        return problem("room", what, directory, f"free at least {bytes_text(least_b - free_b)}")
    if found.f_files and found.f_favail < 1024:
        what = f"{use}: {found.f_favail} more files fit"
        return warning("room", what, directory, "remove files there, or choose another disk")
    if free_b < enough_b:
        remedy = f"a run may need {bytes_text(enough_b)}: free some space, or choose another disk"
        return warning("room", what, directory, remedy)
    return ok("room", what, directory)


def _existing(directory: pathlib.Path) -> pathlib.Path:
    """The directory, or the nearest one above it that is there."""
    directory = directory.expanduser().absolute()
    return next((place for place in (directory, *directory.parents) if place.exists()), directory)


def spool() -> Iterator[Finding]:
    """Whether the spool directory that processes here write to works."""
    directory = spool_directory()
    operators = os.environ.get("CREMA_SPOOL", "")
    if operators and not directory.is_dir():
        remedy = f"start its agent, which makes it: crema-agent --spool {operators}"
        yield problem(
            "spool", "CREMA_SPOOL names a directory that does not exist", operators, remedy
        )
        return
    if operators and not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        mode = stat.S_IMODE(directory.stat().st_mode)
        what = (
            f"CREMA_SPOOL names a directory in which this user cannot record: its mode is {mode:o}"
        )
        yield problem("spool", what, operators, f"ask its operator for: chmod 1777 {operators}")
        return
    if operators and agent_of(directory) is None:
        remedy = f"start one, or unset CREMA_SPOOL: crema-agent --spool {operators}"
        yield problem(
            "spool", "CREMA_SPOOL names a directory that no agent serves", operators, remedy
        )
    if operators:
        yield from _rights(directory)
    place = _existing(directory)
    if not locks_files(str(place)):
        variable = "CREMA_SPOOL" if operators else "TMPDIR"
        remedy = f"set {variable} to a directory on a local disk"
        yield problem(
            "spool", "flock does not work, so spools in use cannot be distinguished", place, remedy
        )
        return
    preferred = tempfile.gettempdir()
    if not operators and not place.is_relative_to(preferred):
        remedy = "set TMPDIR to a directory on a local disk"
        yield warning("spool", f"flock does not work in {preferred}: spools go here", place, remedy)
    kind = _file_system(place)
    if kind in _IN_MEMORY:
        remedy = "give the workers a TMPDIR on a disk, if hosts may restart during a run"
        what = "spools are kept in memory: they count as memory in use and end with the host"
        yield warning("spool", what, place, remedy)
    else:
        yield ok("spool", "flock works" + (f", {kind}" if kind else ""), place)


def _rights(directory: pathlib.Path) -> Iterator[Finding]:
    """Whether the agent of an operator's spool can read and sample what this user's processes do."""
    user, capabilities = rights_of_agent(directory) or (os.geteuid(), 0)
    if user == os.geteuid():
        return
    if not capabilities & _READS:
        what = f"its agent, of uid {user}, cannot read the records of this user"
        yield problem("spool", what, directory, "ask its operator to run it as root")
    elif missing := [name for name, bit in _SAMPLES.items() if not capabilities & bit]:
        what = f"its agent does not sample the processes of this user: it lacks {' and '.join(missing)}"
        remedy = "ask its operator to grant it; what the processes record is delivered"
        yield warning("spool", what, directory, remedy)


def _file_system(place: pathlib.Path) -> str:
    """Type of the file system that a directory is on; empty if that is not known."""
    device = place.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        lines = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return ""
    for fields in map(str.split, lines):
        if fields[2] == number:
            return fields[fields.index("-") + 1]
    return ""


def keys(directory: pathlib.Path) -> Iterator[Finding]:
    """Whether the secrets in a key directory, and in its roles' directories, are their owner's alone.

    `directory` is what ``CREMA_KEYS`` or ``--keys`` name.
    """
    if not directory.is_dir():
        remedy = f"make keys (crema keys {directory}) or ask the pipeline's operator for yours"
        yield problem("keys", "this key directory does not exist", directory, remedy)
        return
    if not os.access(directory, os.R_OK | os.X_OK):
        remedy = "use a copy that belongs to you, or run this as its owner"
        yield problem("keys", "this user cannot read it", directory, remedy)
        return
    holders = [d for d in (directory, *sorted(directory.iterdir())) if _holds_secret(d)]
    if not holders:
        remedy = f"name another one, or make keys: crema keys {directory}"
        yield problem("keys", "no secret key can be found", directory, remedy)
        return
    for holder in holders:
        yield from _privacy(holder)
    try:
        server_key(directory)
    except KeysError as error:
        if str(directory) == os.environ.get("CREMA_KEYS"):  # else another role's are fine too
            remedy = "set CREMA_KEYS to a copy of keys/client"
            yield problem(
                "keys", f"CREMA_KEYS cannot be used by a client: {error}", directory, remedy
            )


def _holds_secret(directory: pathlib.Path) -> bool:
    try:
        return directory.is_dir() and any(directory.glob(f"*{SECRET}"))
    except OSError:
        return False


def _privacy(holder: pathlib.Path) -> Iterator[Finding]:
    """The rules by which the programs refuse a secret, and whose it is."""
    sound = True
    for path in (holder, *sorted(holder.glob(f"*{SECRET}"))):
        info = path.stat()
        mode, right = stat.S_IMODE(info.st_mode), "0700" if path is holder else "0600"
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            sound = False
            what = f"mode {mode:04o}: open to others, and refused by the programs"
            what += " (the secret may be known: make new keys)" if mode & 0o044 else ""
            yield problem("keys", what, path, f"chmod {right} {path}")
        if info.st_uid != os.getuid() and os.getuid() != 0:
            sound = False
            remedy = "use a copy that belongs to you, or run this as its owner"
            yield problem("keys", f"belongs to uid {info.st_uid}, not to you", path, remedy)
        elif os.getuid() == 0 and info.st_uid != holder.stat().st_uid:
            sound = False
            remedy = f"chown {holder.stat().st_uid} {path}"
            yield warning("keys", f"belongs to uid {info.st_uid}, its directory not", path, remedy)
    if sound:
        names = ", ".join(p.name.removesuffix(SECRET) for p in sorted(holder.glob(f"*{SECRET}")))
        yield ok("keys", f"{names}: private", holder)


def run_files(directory: pathlib.Path) -> Iterator[Finding]:
    """Live files of a directory, and whether a sink still writes them."""
    if not directory.is_dir():
        remedy = "give the directory of the run files, or create it"
        yield warning("run file", "this directory does not exist", directory, remedy)
        return
    abandoned = 0
    for path in sorted(directory.glob(f"*{LIVE}")):
        try:
            silent = silence(path)
        except FileNotFoundError:
            continue  # sealed meanwhile
        if not silent:
            yield ok("run file", "a sink writes it: the run is in progress", path)
            continue
        abandoned += 1
        sealed = path.with_name(path.name.removesuffix(LIVE) + ".h5")
        if sealed.exists():
            what = f"no sink writes it any more; its run is in {sealed.name}"
            yield warning("run file", what, path, f"remove it: rm {path}")
        else:
            what, _, remedy = silent.partition("; ")
            yield warning("run file", what, path, remedy)
    for path in sorted(directory.glob("*.left.txt")):
        abandoned += 1
        what = "records of a run whose notebook was killed were left behind"
        yield warning("run file", what, path, f"the file gives the place: cat {path}")
    if not abandoned:
        yield ok("run file", "none is abandoned", directory)
