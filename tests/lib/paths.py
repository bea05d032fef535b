"""Directories and programs; not in a conftest.py, of which a run of several folders of tests has more than one."""

import os
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("CREMA_BIN_DIR", ROOT / "build" / "dev" / "bin"))
SAMPLES = ROOT / ".cache" / "coffea-samples"
EXTRA = ROOT.parent / "shared" / "data"  # more real files, where a checkout has them


def program(name: str) -> str:
    """Path of a program of the build under test, which must be there."""
    path = BIN / name
    if not path.is_file():
        pytest.fail(f"{path} is not built: run ./dev build, or set CREMA_BIN_DIR")
    return str(path)
