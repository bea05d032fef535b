"""Which run is meant: the file that a path, a label, the last digits of an id, or a directory stands for."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re

import h5py

from ..hook._unix import local_path
from ._files import newest_first
from .reader import LIVE, silence
from .reader import open as open_run

_DIGITS = re.compile(r"[0-9a-f]{4,32}")  # fewer would mean one run in a few


def directory_of_runs(directory: str | os.PathLike | None = None) -> pathlib.Path:
    """Where run files are looked for: by default ``CREMA_RUNS`` of the environment, or the working directory.

    Raises
    ------
    FileNotFoundError, NotADirectoryError
        If the directory does not exist.
    """
    where = local_path(directory or os.environ.get("CREMA_RUNS") or ".").expanduser().absolute()
    if where.is_file():
        raise NotADirectoryError(f"{where} is a file, not a directory: crema show {where}")
    if not where.is_dir():
        raise FileNotFoundError(f"there is no directory {where}")
    return where


def newest(directory: str | os.PathLike | None = None) -> pathlib.Path:
    """Path of the run file that was sealed last.

    Parameters
    ----------
    directory : path, optional
        Directory of the run files; by default ``CREMA_RUNS`` of the environment, or the working directory.

    Returns
    -------
    pathlib.Path
        For `crema.open`.

    Raises
    ------
    FileNotFoundError
        If there is none; the message says what to do.
    """
    return newest_sealed(directory, 1)[0]


def newest_sealed(directory: str | os.PathLike | None, n: int) -> list[pathlib.Path]:
    """The run files that were sealed last, newest first: as many as `n`, or as there are; errors as of `newest`."""
    where = directory_of_runs(directory)
    found: list[pathlib.Path] = []
    for path in newest_first(where.glob("*.h5")):
        if len(found) < n and not path.name.endswith(LIVE) and _label_and_id(path):
            found.append(path)
    if found:
        return found
    going_on = sorted(path.name for path in newest_first(where.glob("*" + LIVE)))
    if going_on:
        silent = silence(where / going_on[-1])
        raise FileNotFoundError(
            f"there is no sealed run file in {where} yet: {going_on[-1]} "
            + (silent if silent else "is of a run in progress")
        )
    raise FileNotFoundError(
        f"there is no run file in {where}: measure an analysis first (crema demo --output DIR), "
        "or say where the files are, as an argument or in CREMA_RUNS"
    )


def newer(path: pathlib.Path) -> list[pathlib.Path]:
    """HDF5 files beside the newest run file that are newer and cannot be opened, so that nothing tells whether they are of runs."""
    files = [each for each in newest_first(path.parent.glob("*.h5")) if not each.name.endswith(LIVE)]  # fmt: skip
    return list(filter(_is_damaged, files[: files.index(path)])) if path in files else []


def _is_damaged(path: pathlib.Path) -> bool:
    try:
        with path.open("rb") as file:
            if file.read(8) != b"\x89HDF\r\n\x1a\n":
                return False
        h5py.File(path).close()
    except OSError:
        return True
    return False


def newest_live(directory: str | os.PathLike | None = None) -> pathlib.Path:
    """The live file written last in a directory, by default ``CREMA_RUNS`` or the working directory.

    Raises
    ------
    FileNotFoundError
        If there is none.
    """
    where = directory_of_runs(directory)
    files = newest_first(where.glob("*" + LIVE))
    if not files:
        raise FileNotFoundError(
            f"no run is in progress in {where}: there is no *{LIVE} file; say where it is, as an argument or in CREMA_RUNS"
        )
    return files[0]


def named(text: str | os.PathLike, *, live: bool = False) -> list[pathlib.Path]:
    """Files that a text may mean, newest first: the file of that path, otherwise the runs that have this label, otherwise those whose id ends so.

    Looked for in ``CREMA_RUNS`` or the working directory; with ``DIR/`` before it in that directory. Sealed files come before live ones, or after them if `live`.

    Raises
    ------
    FileNotFoundError
        If there is none.
    """
    path = local_path(text).expanduser()
    if not os.fspath(text):
        raise FileNotFoundError("the name of the run is empty")
    try:
        path.lstat()
        return [path]
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError:  # who opens it gets the reason
        return [path]
    places = [(directory_of_runs(), os.fspath(text))]
    if len(path.parts) > 1 and path.parent.is_dir():
        places.append((path.parent, path.name))
    for where, wanted in places if path.suffix != ".h5" else ():
        files = newest_first(where.glob("*.h5"))
        files.sort(key=lambda each: each.name.endswith(LIVE) != live)
        known = {each: names for each in files if (names := _label_and_id(each))}
        digits = wanted.replace("-", "").lower()
        found = [each for each, (label, _) in known.items() if label == wanted]
        if not found and _DIGITS.fullmatch(digits):
            found = [each for each, (_, run_id) in known.items() if run_id.endswith(digits)]
        if found:
            return found
    more = "" if path.suffix == ".h5" else (
        f", and no run in {places[-1][0]} has this label or an id that ends so: crema runs {places[-1][0]} lists them"
    )  # fmt: skip
    raise FileNotFoundError(f"there is no file {path}{more}")


def _label_and_id(path: pathlib.Path) -> tuple[str, str] | None:
    """Of a run file, sealed or live; None of any other."""
    with contextlib.suppress(OSError, ValueError, RuntimeError), open_run(path) as run:
        label = run.attributes.get("run_label")
        return (label if isinstance(label, str) else ""), run.run_id.replace("-", "").lower()
    return None
