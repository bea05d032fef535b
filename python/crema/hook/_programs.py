"""Locations of the three programs and of the generated files of this installation."""

from __future__ import annotations

import os
import pathlib
import re
import sys

import crema

_OF_KEYS = re.compile("CREMA_(.*_)?KEYS?")


def data_file(name: str) -> pathlib.Path:
    """A file that the build put into the package, such as ``crema.desc``.

    Raises
    ------
    FileNotFoundError
        If no directory of the package contains it: the package was found but not installed.
    """
    for directory in crema.__path__:  # two directories when the installation is editable
        path = pathlib.Path(directory, name)
        if path.is_file():
            return path
    msg = (
        f"crema's {name} was not found in {list(crema.__path__)}: recording needs Linux. "
        "The wheels for x86_64 and aarch64 have it; for another processor `pip install .` in a clone builds it"
    )
    raise FileNotFoundError(msg)


def program(name: str) -> str:
    """Path of ``crema-agent``, ``crema-aggregator`` or ``crema-sink``.

    The program in the package comes first, since its version matches; then ``PATH``, for a source
    tree that was built but not installed.

    Raises
    ------
    FileNotFoundError
        If it is not found.
    """
    try:
        return str(data_file(f"bin/{name}"))
    except FileNotFoundError:
        for directory in os.get_exec_path():
            path = pathlib.Path(directory, name)
            if _is_binary(path):
                return str(path)
        raise


def environment() -> dict[str, str]:
    """Variables for a program of a run: those of this process without ``CREMA_*KEY`` and ``CREMA_*KEYS``, which are of another pipeline or role. It has its own, and would refuse two."""
    return {name: v for name, v in os.environ.items() if not _OF_KEYS.fullmatch(name)}


def _is_binary(path: pathlib.Path) -> bool:
    """Whether it is the program, not one of the scripts that call the functions below, which would find themselves."""
    try:
        with path.open("rb") as f:
            return f.read(4) == b"\x7fELF"
    except OSError:
        return False


def _exec(name: str) -> None:
    path = program(name)
    os.execv(path, [path, *sys.argv[1:]])


def agent() -> None:
    """Run ``crema-agent`` in place of this process."""
    _exec("crema-agent")


def aggregator() -> None:
    """Run ``crema-aggregator`` in place of this process."""
    _exec("crema-aggregator")


def sink() -> None:
    """Run ``crema-sink`` in place of this process."""
    _exec("crema-sink")
