"""Reports an unreadable run file as a line on standard error instead of a traceback; exit status 1."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable, Iterable
from typing import Any

import click

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

    return run


def line(error: Exception, paths: Iterable[pathlib.Path]) -> str:
    """The error as a line that names its file."""
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    text = " ".join(text.split()) or type(error).__name__
    paths = list(paths)
    if not text.startswith(_LIBRARY) or not paths:
        return text
    return f"{' or '.join(map(str, paths))} is damaged: {text}; crema check says where"


def _paths(values: Iterable[Any]) -> Iterable[pathlib.Path]:
    for value in values:
        if isinstance(value, pathlib.Path):
            if value.suffix == ".h5" and value.is_file():
                yield value
        elif isinstance(value, tuple):
            yield from _paths(value)
