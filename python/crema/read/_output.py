"""Where something may be written: never over a run file, for a run is measured once."""

from __future__ import annotations

import gzip
import os
import pathlib
from collections.abc import Callable
from typing import IO

from ..hook._unix import local_path


def file(path: str | os.PathLike) -> pathlib.Path:
    """The path of a file to be written.

    Raises
    ------
    FileExistsError
        If a run file, or another HDF5 file, has that name.
    IsADirectoryError, FileNotFoundError
        If it is a directory, or its directory is not there.
    ValueError
        If it is ``-``.
    """
    import h5py

    if os.fspath(path) == "-":
        raise ValueError("standard output takes no page or table: give the name of a file")
    path = local_path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a directory: give the name of a file")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no directory {path.parent}")
    if path.is_file() and (path.suffix == ".h5" or h5py.is_hdf5(path)):
        raise FileExistsError(f"{path} is a run file: nothing is written over it")
    return path


def directory(path: str | os.PathLike) -> pathlib.Path:
    """The path of a directory to write into, made if it does not exist.

    Raises
    ------
    NotADirectoryError
        If it is a file.
    """
    path = local_path(path)
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"{path} is a file, not a directory")
    path.mkdir(parents=True, exist_ok=True)
    return path


def opened(path: str | os.PathLike) -> IO[str]:
    """A text file for writing that replaces no run file; compressed if its name ends with ``.gz``."""
    where = file(path)
    opener: Callable[..., IO[str]] = gzip.open if where.suffix == ".gz" else open  # type: ignore[assignment]
    return opener(where, "wt", encoding="utf-8")
