"""``crema scaling`` and ``crema what-if``."""

from __future__ import annotations

import dataclasses
import pathlib

import click

from ._arguments import json_option, say_json, several_runs
from ._errors import plain_errors

_to = click.Path(dir_okay=False, path_type=pathlib.Path)


@click.command(short_help="Compare runs on different numbers of threads.")
@several_runs
@click.option("--csv", "csv_file", type=_to, help="Also write the table to FILE.")
@click.option(
    "--extra-p", type=_to, help="Write the seconds of the parts to FILE, in Extra-P's text format."
)
@click.option("--mixed", is_flag=True, help="Also accept runs of different input or chunk size.")
@json_option
@plain_errors
def scaling(
    files: tuple[pathlib.Path, ...],
    csv_file: pathlib.Path | None,
    extra_p: pathlib.Path | None,
    mixed: bool,
    as_json: bool,
) -> None:
    """Compare runs of one analysis on different numbers of threads, and fit laws to them.

    Strong series (the same work): efficiency is T_ref N_ref / (T N). Weak series (work in proportion to the threads): T_ref / T.
    T is the wall time, N the threads averaged over it, ref the runs with the fewest threads.
    """
    from rich.console import Console

    from . import _output, parts, scaling_report
    from . import series as series_

    for written in filter(None, (csv_file, extra_p)):
        _output.file(written)
    try:
        series = series_.scaling(files, mixed=mixed)
    except series_.MixedRunsError as error:
        raise click.ClickException(f"{error}; --mixed takes them all the same") from error
    if csv_file:
        with csv_file.open("w", encoding="utf-8", newline="") as file:
            scaling_report.write_csv(series, file)
    if extra_p:
        extra_p.write_text(parts.extrap(series.parts), encoding="utf-8")
    if as_json:
        say_json(scaling_report.as_json(series))
    else:
        Console().print(scaling_report.render(series))


@click.command("what-if", short_help="Predict a run with other threads or chunks.")
@several_runs
@click.option("--threads", type=click.IntRange(1), help="Number of threads.")
@click.option("--chunksize", type=click.IntRange(1), help="Events per chunk, approximately.")
@click.option(
    "--input-speed",
    type=float,
    default=1.0,
    show_default=True,
    help="How many times as fast the input is.",
)
@click.option("--no-tail", is_flag=True, help="Assume that the last chunks end at the same moment.")
@click.option(
    "--cores",
    type=click.FloatRange(0, min_open=True),
    help="Cores of all workers together, if the file does not have it.",
)
@json_option
@plain_errors
def what_if(
    files: tuple[pathlib.Path, ...],
    threads: int | None,
    chunksize: int | None,
    input_speed: float,
    no_tail: bool,
    cores: float | None,
    as_json: bool,
) -> None:
    """Predict how long a run would take with other threads, chunks or input, by replaying it.

    Of several runs the one with the most threads is replayed; the others show whether the source of the input has a limit.
    """
    from .replay import replay
    from .scaling_report import what_if_lines

    answer = replay(files).what_if(
        threads=threads,
        chunk_size=chunksize,
        input_speed=input_speed,
        tail=not no_tail,
        cores=cores,
    )
    if as_json:
        say_json(dataclasses.asdict(answer))
    else:
        click.echo("\n".join(what_if_lines(answer)))
