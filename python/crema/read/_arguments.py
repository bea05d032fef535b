"""What the commands have in common: the runs that they are about, and JSON."""

from __future__ import annotations

import functools
import json
import os
import pathlib
from typing import Any

import click

from ..hook._printable import printable
from ..hook._unix import local_path

PATH = click.Path(path_type=pathlib.Path)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def say_json(value: object, indent: int | None = 1) -> None:
    """Print a value as JSON; numbers that are not finite are null."""
    from .brief import finite

    click.echo(json.dumps(finite(value), indent=indent, ensure_ascii=False))


def note(text: str) -> None:
    """A line on standard error."""
    click.echo(f"crema: {printable(text)}", err=True)


def _is_directory(text: str) -> bool:
    return bool(text) and os.path.isdir(os.path.expanduser(text))  # noqa: PTH111, PTH112, never raises


def run_path(text: str | None, *, live: bool = False) -> pathlib.Path:
    """The file of the run that is meant: by path, label, last digits of its id, directory or nothing; the newest of several, and a line says so.

    Raises
    ------
    click.ClickException
        If there is none.
    """
    from ._named import named, newer, newest, newest_live

    try:
        if text is None or _is_directory(text):
            found = newest_live(text) if live else newest(text)
            if not live:
                note(f"{found} is the newest run there")
                for broken in newer(found):
                    note(f"{broken} is newer, and cannot be read: crema check {broken}")
            return found
        files = named(text, live=live)
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: an unknown home
        raise click.ClickException(printable(error)) from error
    if len(files) > 1:
        note(f"{len(files)} runs are meant by {text}: {files[0]} is the newest")
    return files[0]


def run_paths(texts: tuple[str, ...]) -> tuple[pathlib.Path, ...]:
    """The same of several; of none the newest run."""
    return tuple(map(run_path, texts or (None,)))


def sides(texts: tuple[str, ...]) -> tuple[pathlib.Path, ...]:
    """Two runs or more: of one and the newest, or of a directory or nothing the newest two, the earlier one first."""
    from ._named import newer, newest, newest_sealed

    try:
        if texts and not (len(texts) == 1 and _is_directory(texts[0])):
            files = tuple(map(run_path, texts))
            if len(files) == 1 and files[0].resolve() == newest().resolve():
                raise click.ClickException(printable(f"{files[0]} is the newest run: name two"))
            for text, file in zip(texts, files, strict=True):
                if files.count(file) > 1 and not local_path(text).exists():
                    raise click.ClickException(printable(f"{text} is twice {file}: name two runs"))
            return files if len(files) > 1 else (*files, run_path(None))
        found = newest_sealed(*(texts or (None,)), 2)
        if broken := newer(found[0]):
            raise click.ClickException(
                printable(
                    f"{broken[0]} is newer, and cannot be read: crema check {broken[0]}, or name two"
                )
            )
    except (OSError, ValueError, RuntimeError) as error:
        raise click.ClickException(printable(error)) from error
    if len(found) < 2:
        raise click.ClickException(printable(f"{found[0]} is the only run there: name two"))
    note(f"{found[1]} and then {found[0]} are the newest two runs there")
    return found[1], found[0]


def _argument(name: str, of: Any, **options: Any) -> Any:
    def chosen(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        return value if ctx.resilient_parsing else of(value)

    path = click.Path()  # of anything; shells offer files
    return click.argument(name, required=False, callback=chosen, type=path, **options)


one_run = _argument("file", run_path, metavar="[RUN]")
one_live_run = _argument("file", functools.partial(run_path, live=True), metavar="[RUN]")
several_runs = _argument("files", run_paths, nargs=-1, metavar="[RUN]...")
two_sides = _argument("files", sides, nargs=-1, metavar="[RUN]...")
RUN = "RUN is a path, a label, the last digits of an id, or a directory, of which the newest is taken; nothing: the newest here."
