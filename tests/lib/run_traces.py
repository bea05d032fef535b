"""What a run has on this host while its block is open, and must not leave: a directory, and programs that name it."""

from __future__ import annotations

import os
import pathlib
import tempfile


def run_dir(mc) -> pathlib.Path:
    return pathlib.Path(tempfile.gettempdir(), f"crema-{os.getuid()}", mc.run_id)


def running(marker: str) -> list[str]:
    """Command lines that hold `marker`, dashes aside."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if marker.replace("-", "") in line.replace("-", ""):
            found.append(line)
    return found


def assert_nothing_left(mc) -> None:
    assert not running(mc.run_id)
    assert not run_dir(mc).exists()
