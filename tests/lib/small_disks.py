"""File systems that are as small as a test wants them."""

from __future__ import annotations

import contextlib
import pathlib
import subprocess
from collections.abc import Iterator

import pytest

import missing


@contextlib.contextmanager
def disk(path: pathlib.Path, options: str) -> Iterator[pathlib.Path]:
    """A file system of its own in the memory, mounted at `path` in this block; `options` are those of tmpfs."""
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", path]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip(missing.MOUNTS)
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)
