"""Programs of Debian's packages, unpacked without being installed, so that no service of theirs is started."""

from __future__ import annotations

import pathlib
import shutil
import subprocess

import pytest

import missing
from paths import ROOT


def program(name: str, package: str) -> pathlib.Path:
    """That program of this machine, else of the package; the test is skipped if apt does not have it."""
    if found := shutil.which(name):
        return pathlib.Path(found)
    cache = ROOT / ".cache" / package
    path = cache / "usr" / "bin" / name
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        if subprocess.run(["apt-get", "download", "-q", package], cwd=cache).returncode:
            pytest.skip(f"{missing.APT}: {package}")
        (archive,) = cache.glob("*.deb")
        subprocess.run(["dpkg", "-x", archive, cache], check=True)
    return path
