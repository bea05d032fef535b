"""Reports an unreadable run file as a line on standard error instead of a traceback; exit status 1."""

from __future__ import annotations

import functools
import pathlib
import subprocess
from collections.abc import Callable, Iterable
from typing import Any

import click

from ..hook._programs import program

_LIBRARY = (
    "Unable to",
    "Can't",
    "Unspecified error",
    "Object visitation",
)  # HDF5, which names no file


def plain_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Wrap a command so that errors a user can fix become a line."""

    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> None:
        from .fits import FitError
        from .replay import ReplayError

        known = (OSError, ValueError, KeyError, ImportError, RuntimeError, FitError, ReplayError)
        try:
            command(*args, **options)
        except click.ClickException:
            raise
        except known as error:
            raise click.ClickException(line(error, _paths(options.values()))) from error
        except Exception as error:  # anything may come of a file that is not as it should be
            unsound = [path for path in _paths(options.values()) if not _is_sound(path)]
            if not unsound:
                raise
            raise click.ClickException(damaged(error, unsound)) from error

    return run


def line(error: Exception, paths: Iterable[pathlib.Path]) -> str:
    """The error as a line that names its file."""
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    text = " ".join(text.split()) or type(error).__name__
    paths = list(paths)
    if not text.startswith(_LIBRARY) or not paths:
        return text
    return damaged(text, paths)


def damaged(why: object, paths: Iterable[pathlib.Path]) -> str:
    """The line about files that are not as they should be."""
    return f"{' or '.join(map(str, paths))} is damaged: {why}; crema check says where"


def _is_sound(path: pathlib.Path) -> bool:
    """Whether `crema check` finds nothing; True of a live file, which it does not read."""
    try:
        command = [program("crema-sink"), "check", path]
        return (
            path.name.endswith(".live.h5")
            or not subprocess.run(command, capture_output=True, check=False).returncode
        )
    except OSError:
        return True


def _paths(values: Iterable[Any]) -> Iterable[pathlib.Path]:
    for value in values:
        if isinstance(value, pathlib.Path):
            if value.suffix == ".h5" and value.is_file():
                yield value
        elif isinstance(value, tuple):
            yield from _paths(value)
