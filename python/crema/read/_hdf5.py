"""Opening run files with HDF5, also live ones and where the file system refuses locks."""

from __future__ import annotations

import errno
import pathlib
import time
from typing import Any

import h5py

LIVE = ".live.h5"
_MAKING_S = 1.0  # a live file is not one of HDF5 before a sink has written its first bytes


class RunFileError(ValueError):
    """The file is not one that crema wrote, or not one that this version can read."""


def open_h5(path: pathlib.Path) -> h5py.File:
    """Open a run file for reading; a live one that is just being made is waited for.

    Raises
    ------
    OSError, RunFileError
        If it cannot be read, or is not an HDF5 file.
    """
    live = path.name.endswith(LIVE)
    until = time.monotonic() + (_MAKING_S if live else 0)
    while True:
        try:
            return _try_h5(path, live=live)
        except RunFileError:
            if time.monotonic() >= until:
                raise
            time.sleep(0.05)  # a sink may be making it


def _try_h5(path: pathlib.Path, *, live: bool) -> h5py.File:
    with path.open("rb") as f:  # says plainly what the system has against it
        f.read(1)
    if not h5py.is_hdf5(path):
        raise RunFileError(f"{path} is not an HDF5 file")
    how: dict[str, Any] = {"libver": "latest", "swmr": True} if live else {}
    try:
        return h5py.File(path, "r", **how)
    except OSError as error:
        if not _is_about_locks(error):
            raise RunFileError(f"{path} cannot be read: {error}") from error
    try:
        return h5py.File(path, "r", locking=False, **how)
    except OSError as error:
        raise RunFileError(f"{path} cannot be read: {error}") from error


def _is_about_locks(error: OSError) -> bool:
    """The file system refuses locks, or did when this process opened the file before."""
    no_locks = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
    return error.errno in no_locks or "file locking flag" in str(error)
