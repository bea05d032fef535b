"""Whether this installation is complete: the three programs, their versions, and the versions of crema's dependencies."""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import re
import subprocess
from collections.abc import Iterator

from .. import __version__
from ..hook._programs import program
from ._finding import Finding, ok, problem, warning

PROGRAMS = ("crema-agent", "crema-aggregator", "crema-sink")
ANSWER_S = 20.0
UNKNOWN_VERSION = "0+unknown"  # of a source tree that was never installed

# The oldest and the newest version of each that the tests run with.
TESTED = {
    "dask": ("2025.3.0", "2026.8.0"),
    "distributed": ("2025.3.0", "2026.8.0"),
    "coffea": ("2025.12.0", "2026.9.0"),
    "h5py": ("3.10.0", "3.16.0"),
    "protobuf": ("4.22.0", "7.36.2"),
}


def programs() -> Iterator[Finding]:
    """A finding for each of the three programs, as the collector and the workers find them."""
    said: dict[str, str] = {}
    for name in PROGRAMS:
        try:
            path = program(name)
        except FileNotFoundError as error:
            yield problem("program", f"{name} is missing", name, str(error))
            continue
        try:
            version = _version_of(path)
        except (OSError, subprocess.SubprocessError) as error:
            remedy = "reinstall coffea-crema for this machine's processor and C library"
            yield problem("program", f"{name} does not run: {_reason(error)}", path, remedy)
            continue
        said[name] = version
        expected = __version__ if __version__ != UNKNOWN_VERSION else next(iter(said.values()))
        if version == expected:
            yield ok("program", f"{name} {version}", path)
        else:
            whose = "the package" if __version__ != UNKNOWN_VERSION else next(iter(said))
            what = f"{name} has version {version}, {whose} {expected}"
            yield problem("program", what, path, f"reinstall coffea-crema {expected}")


def _version_of(path: str) -> str:
    """Version that a program reports, without options from this environment."""
    environment = {name: v for name, v in os.environ.items() if not name.startswith("CREMA_")}
    done = subprocess.run(
        [path, "--version"],
        capture_output=True,
        text=True,
        timeout=ANSWER_S,
        stdin=subprocess.DEVNULL,
        env=environment,
        check=True,
    )
    return done.stdout.strip().removeprefix(pathlib.Path(path).name).strip()


def _reason(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        return " ".join(error.stderr.split()) or f"exit status {error.returncode}"
    return str(error)


def packages() -> Iterator[Finding]:
    """A finding for each package whose versions matter."""
    for name, (oldest, newest) in TESTED.items():
        tested = f"tested with {oldest} to {newest}"
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            remedy = f"an analysis here needs it: pip install '{name}>={oldest}'"
            yield warning("package", f"{name} is not installed", name, remedy)
            continue
        if _numbers(version) < _numbers(oldest):
            remedy = f"pip install '{name}>={oldest}'"
            yield problem("package", f"{name} {version} is too old, {tested}", name, remedy)
        elif _numbers(version) > _numbers(newest):
            remedy = f"if a run's columns are missing (note columns_unavailable), install {newest}"
            yield warning(
                "package", f"{name} {version} is newer than what crema was {tested}", name, remedy
            )
        else:
            yield ok("package", f"{name} {version}, {tested}")


def _numbers(version: str) -> tuple[int, ...]:
    """The release, for comparisons: 2026.8.0 of 2026.8.0rc1+local too."""
    release = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, release[0].split("."))) if release else ()
