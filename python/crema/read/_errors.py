"""Reports an unreadable run file as a line on standard error instead of a traceback; exit status 1."""

from __future__ import annotations

import functools
import math
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any

import click

from ..hook._printable import printable
from ..hook._programs import program

_LIBRARY = (
    "Unable to",
    "Can't",
    "Unspecified error",
    "Object visitation",
)  # HDF5, which names no file


_ENDLESS = "the HDF5 library"  # in a finding: it crashes on the file, or comes to no end
# Of files that a command reads: a second or two; checking takes as long as reading all of them.
CHECKED_BYTES = 32 << 20


class OutputError(OSError):
    """Standard output cannot be written."""


def plain_errors(command: Callable[..., int | None]) -> Callable[..., None]:
    """Wrap a command, which may return an exit status, so that errors a user can fix become a line."""

    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> None:
        from .fits import FitError
        from .replay import ReplayError

        known = (OSError, ValueError, KeyError, ImportError, RuntimeError, FitError, ReplayError)
        try:
            unsound = _unsound(_paths(options.values()), CHECKED_BYTES)
            for path, finding in unsound.items():
                if _ENDLESS in finding:  # nor would this process come to an end
                    raise click.ClickException(damaged(finding, [path]))
            status = command(*args, **options)
            for path, finding in unsound.items():
                _warn(path, finding)
            if status or unsound:
                sys.exit(status or 1)
        except click.ClickException as error:
            error.message = printable(error.message)
            raise
        except OutputError:
            raise
        except known as error:
            raise click.ClickException(line(error, _paths(options.values()))) from error
        except Exception as error:  # anything may come of a file that is not as it should be
            bad = _unsound(_paths(options.values()), math.inf)
            if not bad:
                raise
            raise click.ClickException(damaged(error, bad)) from error

    return run


def line(error: Exception, paths: Iterable[pathlib.Path]) -> str:
    """The error as a line that names its file."""
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    text = printable(" ".join(text.split())) or type(error).__name__
    paths = list(paths)
    if not text.startswith(_LIBRARY) or not paths:
        return text
    return damaged(text, paths)


def damaged(why: object, paths: Iterable[pathlib.Path]) -> str:
    """The line about files that are not as they should be."""
    return (
        f"{' or '.join(map(printable, paths))} is damaged: {printable(why)}; crema check says where"
    )


def _unsound(paths: Iterable[pathlib.Path], most_b: float) -> dict[pathlib.Path, str]:
    """Sealed files that `crema check` calls unsound, and its first finding on each; files of more than `most_b` bytes together are not checked."""
    sealed = [path for path in paths if not path.name.endswith(".live.h5")]
    try:
        if not sealed or sum(path.stat().st_size for path in sealed) > most_b:
            return {}
        command = [program("crema-sink"), "check", *sealed]
        output = os.fsdecode(subprocess.run(command, capture_output=True, check=False).stdout)
    except OSError:  # a file does not exist, or this system lacks the program
        return {}
    lines = output.splitlines()
    return {
        path: next(each for each in lines if each.startswith(f"{path}: ")).split(": ", 1)[1]
        for path in sealed
        if any(re.fullmatch(rf"{re.escape(str(path))}: \d+ findings?", each) for each in lines)
    }


def _warn(path: pathlib.Path, finding: str) -> None:
    why = f"{printable(path)} is damaged, or was changed after it was sealed ({printable(finding)})"
    click.echo(f"crema: do not trust this: {why}; crema check says where", err=True)


def _paths(values: Iterable[Any]) -> Iterable[pathlib.Path]:
    for value in values:
        if isinstance(value, pathlib.Path):
            if value.suffix == ".h5" and os.path.isfile(value):  # noqa: PTH113, never raises
                yield value
        elif isinstance(value, tuple):
            yield from _paths(value)
