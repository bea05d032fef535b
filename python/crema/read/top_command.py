"""``crema top``."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import time

import click

from ._arguments import one_live_run, say_json
from ._errors import plain_errors

_START_S = 10.0  # to wait for a file that is being written again
_SEALED_S = 2.0  # to wait for the sealed file once the live one is gone


@click.command(short_help="Watch a run while it is in progress.")
@one_live_run
@click.option(
    "--events",
    type=click.IntRange(1),
    help="Events of the whole input, to estimate the time that is left.",
)
@click.option("--once", is_flag=True, help="Print once and exit.")
@click.option("--json", "json_", is_flag=True, help="Print a line of JSON each second.")
@plain_errors
def top(file: pathlib.Path, events: int | None, once: bool, json_: bool) -> None:
    """Watch a run while it is in progress: events per second, busy threads, where the time goes, gaps.

    RUN is a live file (RUN.live.h5), the label or the last digits of the id of its run, or a directory, of which the newest is taken;
    CREMA_RUNS or the working directory if not given. It ends with the run, or with Ctrl-C; the run does not notice. In a pipe or a file, it is printed again
    whenever there is something new.
    """
    from .live import Watch
    from .reader import LIVE
    from .reader import open as open_run

    if not file.name.endswith(LIVE):  # a live file may not be readable yet
        with open_run(file) as run:
            if not run.live:
                raise click.ClickException(f"{file} is of a run that is over: crema show {file}")
    with contextlib.suppress(KeyboardInterrupt):
        _follow(Watch(file, events), once, json_)


def _follow(watch, once: bool, json_: bool) -> None:
    from rich.console import Console
    from rich.live import Live

    from .live import render

    console = Console()
    look = _first(watch)
    if json_ or once:
        while look is not None:
            _print(look, console, json_)
            if once:
                return
            look = _next(watch)
        _print_last(watch, console, json_)
    elif not console.is_terminal:  # where rich's Live shows nothing before its end
        shown = None
        while look is not None:
            if watch.n_rows != shown:
                console.print(render(look))
            shown = watch.n_rows
            look = _next(watch)
        _print_last(watch, console, json_)
    else:
        with Live(render(look), console=console, auto_refresh=False) as screen:
            while (look := _next(watch)) is not None:
                screen.update(render(look), refresh=True)
            if (look := _last(watch)) is not None:
                screen.update(render(look), refresh=True)
    sealed = watch.path.with_name(watch.path.name.replace(".live.h5", ".h5"))
    click.echo(f"the run is over: crema show {sealed}" if sealed.exists() else "the run is over")


def _print(look, console, json_: bool) -> None:
    from .live import render

    if json_:
        say_json(dataclasses.asdict(look), indent=None)
    else:
        console.print(render(look))


def _last(watch):
    """The run as its sealed file has it, which takes a moment to be there; None if none appears."""
    deadline = time.monotonic() + _SEALED_S
    while (look := watch.last()) is None and time.monotonic() < deadline:
        time.sleep(0.2)
    return look


def _print_last(watch, console, json_: bool) -> None:
    if (look := _last(watch)) is not None:
        _print(look, console, json_)


def _first(watch):
    deadline = time.monotonic() + _START_S
    while True:
        try:
            return watch.look()
        except FileNotFoundError:
            raise
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _next(watch):
    """The run a second later; None when it is over."""
    while True:
        time.sleep(1)
        try:
            return watch.look()
        except FileNotFoundError:
            return None
        except OSError:
            continue  # being written again
