"""``crema hot``."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import TYPE_CHECKING

import click

from ._arguments import RUN, json_option, one_run, say_json
from ._errors import plain_errors

if TYPE_CHECKING:
    from .code.looks import Looks


@click.command(short_help="Show the lines of your code that take longest.", epilog=RUN)
@one_run
@click.option(
    "-n",
    "--lines",
    "most",
    type=click.IntRange(0),
    default=20,
    show_default=True,
    help="Lines to print; 0: all.",
)
@click.option(
    "--state", multiple=True, help="Only seconds in this state, such as gil; can be repeated."
)
@click.option("--phase", multiple=True, help="Only opening, process or other.")
@click.option("--dataset", multiple=True, help="Only chunks of this dataset; can be repeated.")
@click.option("--worker", multiple=True, help="Only this worker; can be repeated.")
@click.option("--section", multiple=True, help="Only this section, innermost; can be repeated.")
@json_option
@plain_errors
def hot(
    file: pathlib.Path, most: int, as_json: bool, **wanted: tuple[str, ...]
) -> None:  # wanted: see Looks.select
    """Show where the seconds of a run went, line by line of your code: seconds, share, and what the thread did or waited for.

    Each second counts once, at the innermost line that is yours: neither Python's nor an installed package's. The hottest line is
    first; what is outside your code is in parentheses.
    """
    from .code.looks import Looks, NoLooksError
    from .reader import open as open_run

    with open_run(file) as run:
        try:
            looks = Looks(run if as_json else run.as_shown()).select(**wanted)
        except NoLooksError as error:
            raise click.ClickException(f"{file}: {error}") from error
        if as_json:
            say_json(as_dict(looks, wanted))
        else:
            _print(looks, most)


def as_dict(looks: Looks, wanted: dict[str, tuple[str, ...]]) -> dict:
    """All lines, for programs; their seconds add up to those of the whole."""
    return {
        "path": str(looks.run.path),
        "seconds": looks.seconds,
        "looks": looks.n,
        "only": {name: list(names) for name, names in wanted.items() if names},
        "lines": [dataclasses.asdict(line) for line in looks.lines()],
    }


def _print(looks: Looks, most: int) -> None:
    from rich.console import Console

    from .report import hot_lines

    console = Console()
    lines = looks.lines()
    shown = lines[: most or None]
    # In a pipe nothing is cut: another program has room.
    for text in hot_lines(shown, console.width if console.is_terminal else 0):
        console.print(text, soft_wrap=True)
    rest = lines[len(shown) :]
    more = f"; {len(rest)} more lines have {sum(line.seconds for line in rest):,.2f} s" if rest else ""  # fmt: skip
    console.print(
        f"{looks.seconds:,.2f} s of the tasks' threads, seen by {looks.n:,} looks{more}",
        soft_wrap=True,
        highlight=False,
    )
