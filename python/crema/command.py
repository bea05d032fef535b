"""The ``crema`` command."""

from __future__ import annotations

import os
import pathlib

import click

from . import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="crema")
def main() -> None:
    """Look at run files; make keys for a pipeline that is shared."""


@main.command()
@click.argument("file", type=click.Path(path_type=pathlib.Path))
def show(file: pathlib.Path) -> None:
    """Print verdict and tables of a run file, sealed or live."""
    from .reader import RunFileError
    from .report import print_report

    try:
        print_report(file)
    except (OSError, RunFileError) as error:
        raise click.ClickException(str(error)) from error


@main.command()
@click.argument("files", nargs=-1, required=True, type=click.Path())
def check(files: tuple[str, ...]) -> None:
    """Verify run files: contract, counts, checksum. Exit status 0 if all are sound."""
    _become("crema-sink", "check", *map(os.path.abspath, files))


@main.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=pathlib.Path))
@click.option(
    "--csv",
    "csv_file",
    type=click.Path(dir_okay=False, path_type=pathlib.Path),
    help="Write the table there too.",
)
@click.option("--mixed", is_flag=True, help="Take runs of different input or chunk size as well.")
def scaling(files: tuple[pathlib.Path, ...], csv_file: pathlib.Path | None, mixed: bool) -> None:
    """Compare runs of the same work on different numbers of threads.

    Efficiency is T_ref N_ref / (T N): T the wall time, N the threads averaged over it, ref the run with the fewest threads.
    """
    from rich.console import Console

    from . import scaling as series
    from .reader import RunFileError

    try:
        points = series.scaling(files, mixed=mixed)
        if csv_file:
            with csv_file.open("w", encoding="utf-8", newline="") as file:
                series.write_csv(points, file)
    except series.MixedRunsError as error:
        raise click.ClickException(f"{error}; --mixed takes them all the same") from error
    except (OSError, RunFileError) as error:
        raise click.ClickException(str(error)) from error
    except KeyError as error:
        raise click.ClickException(f"{error.args[0]}; wait until its run has ended") from error
    Console().print(series.render(points))


@main.command()
@click.argument("directory", type=click.Path())
def keys(directory: str) -> None:
    """Make a key directory for the programs of one pipeline."""
    _become("crema-aggregator", "--make-keys", directory)


def _become(name: str, *arguments: str) -> None:
    """Let one of the programs take this process's place."""
    from ._programs import program

    try:
        path = program(name)
    except FileNotFoundError as error:
        raise click.ClickException(str(error)) from error
    os.execv(path, [path, *arguments])
