"""Programs of Debian's packages, unpacked without being installed, so that no service of theirs is started."""

from __future__ import annotations

import fcntl
import pathlib
import shutil
import subprocess

import pytest

import missing
from paths import ROOT


def program(name: str, *packages: str) -> pathlib.Path:
    """That program of this machine, else of the first of these packages that apt has; skips the test if it has none."""
    if found := shutil.which(name):
        return pathlib.Path(found)
    return unpacked(name, *packages)


def unpacked(name: str, *packages: str) -> pathlib.Path:
    """The same of a package, whatever this machine has."""
    for package in packages:
        cache = ROOT / ".cache" / package
        path = cache / "usr" / "bin" / name
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # other processes of pytest want it, too
            if not path.exists():
                command = ["apt-get", "download", "-q", package]
                try:
                    subprocess.run(command, cwd=cache, timeout=60, check=True)
                except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
                    continue
                archive = max(cache.glob("*.deb"), key=lambda path: path.stat().st_mtime)
                subprocess.run(["dpkg", "-x", archive, cache], check=True)
        if path.exists():
            return path
    pytest.skip(f"{missing.APT}: {' or '.join(packages)}")
