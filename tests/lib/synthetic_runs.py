"""Run files of synthetic journals: the same rows each time, without a cluster."""

from __future__ import annotations

import pathlib
import subprocess

from paths import program


def make_run(directory: pathlib.Path, kind: str, count: int = 200) -> pathlib.Path:
    """The run file of a synthetic journal."""
    journal, file = directory / f"{kind}-journal", directory / f"{kind}.h5"
    subprocess.run([program("make_journal_main"), kind, journal, str(count)], check=True)
    subprocess.run(
        [program("crema-sink"), "rebuild", journal, "--output", file], check=True, timeout=60
    )
    return file
