"""The ``crema`` command."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import pathlib
import sys
from typing import Any

import click

from .. import __version__
from ..hook._printable import printable
from ._arguments import (
    PATH,
    RUN,
    json_option,
    note,
    one_run,
    run_path,
    say_json,
    several_runs,
    two_sides,
)
from ._errors import OutputError, plain_errors
from .hot_command import hot
from .scaling_command import scaling, what_if
from .top_command import top


class _Closed(io.RawIOBase):
    """Standard output that was closed before the program began."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        raise OutputError("standard output is closed")


class _Output(io.FileIO):
    """Standard output, whose errors are told from those of files."""

    def write(self, data: Any) -> int | None:
        try:
            return super().write(data)
        except OSError as error:
            raise OutputError(error.errno, error.strerror) from error


def _discard_output() -> None:
    """Let descriptor 1 be the device that takes everything."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


class _Commands(click.Group):
    """Reports what cannot be written to standard output in one line, the answer to ``--help`` as well."""

    def main(self, *args: Any, **options: Any) -> Any:
        if sys.stdout is None:
            sys.stdout = io.TextIOWrapper(_Closed(), write_through=True)
            _discard_output()  # a file that is opened must not take its place
        elif sys.stdout is sys.__stdout__:
            sys.stdout = io.TextIOWrapper(
                io.BufferedWriter(_Output(1, "wb", closefd=False)),
                encoding=sys.stdout.encoding,
                errors=sys.stdout.errors,
                line_buffering=sys.stdout.line_buffering,
                write_through=sys.stdout.write_through,
            )
        try:
            try:
                return super().main(*args, **options)
            finally:
                sys.stdout.flush()
        except OutputError as error:
            _discard_output()  # the rest is lost, and must not fail again at exit
            if error.errno != errno.EPIPE:  # else the reader has seen enough
                why = error.strerror or "it is closed"
                click.echo(f"crema: standard output cannot be written: {why}", err=True)
            sys.exit(1)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="crema")
def main() -> None:
    """Read, compare and watch runs; make the keys of a shared pipeline."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that is not UTF-8 lacks some signs
    if os.environ.get("COLUMNS") == "0":  # a terminal that does not know its width
        del os.environ["COLUMNS"]


@main.command(short_help="Print a run in six lines, or its tables.", epilog=RUN)
@one_run
@click.option("--all", "everything", is_flag=True, help="Print all tables.")
@json_option
@plain_errors
def show(file: pathlib.Path, everything: bool, as_json: bool) -> None:
    """Print a run file, sealed or live: verdict, headline, what holds the run back."""
    from rich.console import Console

    from . import brief
    from .reader import open as open_run
    from .report import print_report

    with open_run(file) as run:
        if as_json:
            say_json(brief.as_dict(run))
        elif everything or run.live:
            print_report(file)
        else:
            Console().print(brief.lines(run), soft_wrap=True)


@main.command(short_help="Write the page of a run, of two, or of a series.", epilog=RUN)
@several_runs
@click.option("-o", "--output", type=PATH, help="File for the page; default: next to the run file.")
@click.option("--figures", type=PATH, help="Also write each figure as SVG to this directory.")
@click.option("--scaling", is_flag=True, help="One page for runs on different numbers of threads.")
@json_option
@plain_errors
def report(
    files: tuple[pathlib.Path, ...],
    output: pathlib.Path | None,
    figures: pathlib.Path | None,
    scaling: bool,
    as_json: bool,
) -> None:
    """Write the report of a run, of two side by side, or of a series, as one HTML page that opens offline."""
    from . import _output
    from .html import write_comparison, write_report, write_scaling

    if output is not None:
        _output.file(output)
    if figures is not None and (scaling or len(files) > 1):
        raise click.UsageError("--figures is for the report of one run")
    if scaling:
        from .series import scaling as series_of

        page = write_scaling(series_of(files), output or files[0].with_name("scaling.html"))
    elif len(files) == 1:
        page = write_report(files[0], output, figures_to=figures)
    elif len(files) == 2:
        from .compare import compare

        page = output or files[1].with_name(f"{files[0].stem}-{files[1].stem}.html")
        write_comparison(compare(*files), page)
    else:
        raise click.UsageError("one run file, or two to compare; more: --scaling, or crema diff")
    if as_json:
        say_json({"page": str(page), "bytes": page.stat().st_size})
    else:
        click.echo(page)


@main.command(
    short_help="Show what changed between two runs, and why.", epilog=RUN.partition(";")[0]
)
@two_sides
@click.option(
    "--repeat",
    "repeats",
    multiple=True,
    callback=lambda ctx, param, texts: tuple(map(run_path, texts)),
    metavar="RUN",
    help="Another run like the first one; can be repeated.",
)
@click.option(
    "--fail-if",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help="Exit status 3 if it holds: a metric of summary/workflow, < or >, and a signed percentage, such as 'wall_time>+10%'; "
    "2 if that is not known; can be repeated.",
)
@click.option("--markdown", is_flag=True, help="Print Markdown, as for a pull request.")
@json_option
@plain_errors
def diff(
    files: tuple[pathlib.Path, ...],
    repeats: tuple[pathlib.Path, ...],
    conditions: tuple[str, ...],
    markdown: bool,
    as_json: bool,
) -> int:
    """Show whether a run became slower than an earlier one, why as far as the files show it, and what else changed.

    Of one RUN, the newest run is compared with it; without any, or with a directory, the newest two. Several runs after the first one are
    repeats of the later side: crema diff A1 --repeat A2 B1 B2 takes the noise between runs into account.
    """
    from rich.console import Console

    from .compare import Condition, compare
    from .report import difference, difference_as_markdown

    try:
        wanted = [Condition(text) for text in conditions]
    except ValueError as error:
        raise click.UsageError(printable(error)) from error
    if as_json and markdown:
        raise click.UsageError("--json and --markdown: give one of them")
    found = compare([files[0], *repeats], files[1:])
    if as_json:
        changes = [{**vars(c), "difference_s": c.difference_s} for c in found.changes]
        words = {"sentence": found.sentence(), "about_causes": found.about_causes()}
        say_json({**vars(found), "metrics": found.metrics, "changes": changes, **words})
    elif markdown:
        click.echo(difference_as_markdown(found))
    else:
        Console().print(difference(found))
    answers = [condition.holds(found) for condition in wanted]
    for condition, holds in zip(wanted, answers, strict=True):
        if holds is None:
            note(
                f"{condition.text}: not known, since not every run has a value of {condition.metric}"
            )
        else:
            percent = found.change_percent(condition.metric)
            note(
                f"{condition.text}: {'holds' if holds else 'does not hold'}, it is {percent:+.1f} %"
            )
    return 3 if any(answers) else 2 * (None in answers)


@main.command(short_help="List the run files of a directory.")
@click.argument("directory", required=False, type=PATH)
@json_option
@plain_errors
def runs(directory: pathlib.Path | None, as_json: bool) -> None:
    """List the run files of a directory: CREMA_RUNS, or this one, if none is given.

    Exit status 1 if a file was left out because it cannot be read.
    """
    import warnings

    from rich.console import Console

    from .report import run_list
    from .runs import runs as runs_of

    with warnings.catch_warnings(record=True) as left_out:
        warnings.simplefilter("always")
        frame = runs_of(directory)
    for warning in left_out:
        note(str(warning.message))
    if as_json:
        say_json(frame.reset_index().to_dict("records"))
    else:
        console = Console()
        if frame.empty:
            note(f"there is no run file in {frame.attrs['directory']}")
        console.print(run_list(frame, console.width), soft_wrap=True)
    if left_out:
        sys.exit(1)


_STACKS = {"speedscope": ".speedscope.json", "collapsed": ".folded"}  # ending of a file's name


@main.command(short_help="Write tables as CSV or Parquet, a trace, or stacks.", epilog=RUN)
@one_run
@click.option(
    "--to",
    "kind",
    type=click.Choice(["csv", "parquet", "trace", "speedscope", "collapsed"]),
    default="csv",
    show_default=True,
)
@click.option("-o", "--output", type=PATH, help="Directory of the tables; file of anything else.")
@click.option("--table", "names", multiple=True, help="Only this table; can be repeated.")
@json_option
@plain_errors
def export(
    file: pathlib.Path,
    kind: str,
    output: pathlib.Path | None,
    names: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write tables as CSV or Parquet, the task stream as a trace for Perfetto (https://ui.perfetto.dev) and Chrome, or stacks with their seconds for https://www.speedscope.app or, collapsed, for flamegraph.pl."""
    from . import export as formats
    from .code import stack_formats, trace_chunks
    from .code.looks import NoLooksError
    from .reader import open as open_run

    if names and kind not in ("csv", "parquet"):
        raise click.UsageError("--table is for csv and parquet")
    with open_run(file) as run:
        if not run.keys():
            raise click.ClickException(f"{file} has no tables: crema check says what it lacks")
        if kind == "trace":
            output = output or file.with_suffix(".trace.json.gz")
            formats.trace(run, output)
            for name, n in trace_chunks.left_out(run).items():
                note(f"{n:,} {name} are left out: the slowest ones are there")
            written = [output]
        elif kind in _STACKS:
            output = output or file.with_suffix(_STACKS[kind])
            try:
                getattr(stack_formats, kind)(run, output)
            except NoLooksError as error:
                raise click.ClickException(f"{file}: {error}") from error
            written = [output]
        else:
            written = formats.tables(run, output or file.with_suffix(""), kind=kind, names=names)
    if as_json:
        say_json([str(path) for path in written])
    else:
        click.echo("\n".join(map(str, written)))


@main.command(epilog=RUN)
@several_runs
@json_option
@plain_errors
def check(files: tuple[pathlib.Path, ...], as_json: bool) -> None:
    """Verify run files: contract, rows, counts, checksums. Exit status 0 if all are sound."""
    paths = list(map(os.path.abspath, files))
    if not as_json:
        _become("crema-sink", "check", *paths)
    import subprocess

    sink, found = _program("crema-sink"), []
    for path in paths:
        ran = subprocess.run([sink, "check", path], capture_output=True, check=False)
        said = os.fsdecode(ran.stdout + ran.stderr).strip()
        found.append({"file": path, "sound": ran.returncode == 0, "said": said})
    say_json(found)
    sys.exit(0 if all(f["sound"] for f in found) else 1)


@main.command(short_help="Check this host, and find what runs left behind.")
@click.argument("output", required=False, type=PATH)
@click.option("--scheduler", metavar="ADDRESS", help="Also check the workers of this scheduler.")
@click.option(
    "--keys", "keys_", multiple=True, type=PATH, help="Key directory to check; can be repeated."
)
@json_option
@plain_errors
def doctor(
    output: pathlib.Path | None,
    scheduler: str | None,
    keys_: tuple[pathlib.Path, ...],
    as_json: bool,
) -> None:
    """Is everything here that a run needs, and what have earlier runs left behind? Nothing is changed.

    OUTPUT is the directory of the run files: CREMA_RUNS, or this one, if none is given. Exit status 1 if something is a problem.
    """
    from rich.console import Console

    from .. import doctor as look

    findings = look(scheduler, output=output, keys=keys_)
    if as_json:
        say_json([vars(finding) for finding in findings])
    else:
        for finding in findings:
            Console().print(finding, soft_wrap=True)
    if findings.problems:
        sys.exit(1)


@main.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def demo(arguments: tuple[str, ...]) -> None:
    """Measure a small real analysis here; --help has its options."""
    from ..demo import main as run_demo

    sys.exit(run_demo(list(arguments)))


main.add_command(hot)
main.add_command(scaling)
main.add_command(what_if)
main.add_command(top)


class _KeysGroup(click.Group):
    """``crema keys DIR`` is short for ``crema keys make DIR``."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple:
        if args and args[0] not in self.commands:
            args = ["make", *args]
        return super().resolve_command(ctx, args)


@main.group(cls=_KeysGroup)
def keys() -> None:
    """Make the keys of a pipeline, add a user's, revoke one.

    `crema keys DIR` makes one directory per role: the servers', the aggregator's, the agents', a client's, a monitor's.
    """


def _warn_of_old_variable(ctx: click.Context, param: click.Parameter, value: str) -> str:
    source = ctx.get_parameter_source(str(param.name))
    if source is click.core.ParameterSource.ENVIRONMENT and value == os.environ.get("CREMA_KEYS"):
        click.echo("crema: CREMA_KEYS is for clients; use CREMA_AGGREGATOR_KEYS", err=True)
    return value


_directory = click.argument(
    "directory",
    type=click.Path(),
    envvar=["CREMA_AGGREGATOR_KEYS", "CREMA_KEYS"],
    callback=_warn_of_old_variable,
    default="keys",
    metavar="[DIR]",
)
_role = click.option(
    "--role",
    type=click.Choice(["client", "agent", "aggregator", "monitor"]),
    default="client",
    show_default=True,
)


@keys.command("make", short_help="Make one key directory per role.")
@click.argument("directory", type=click.Path())
def make_keys(directory: str) -> None:
    """Make one key directory per role below DIR."""
    _become("crema-aggregator", "--make-keys", directory)


@keys.command("add", short_help="Make a key for a user or an agent; admit it.")
@click.argument("name")
@_directory
@_role
@click.option(
    "--uid",
    type=click.IntRange(0, 2**32 - 2),
    help="Bind a client's key to this user: an operator's agents bring to its runs only what that user's files hold.",
)
def add_key(name: str, directory: str, role: str, uid: int | None) -> None:
    """Make a key for NAME, to be handed over, in DIR/ROLE-NAME; admit it.

    DIR has the keys of the servers: CREMA_AGGREGATOR_KEYS, or keys, if none is given.
    """
    bound = [] if uid is None else ["--key-uid", str(uid)]
    _become("crema-aggregator", "--add-key", name, "--keys", directory, "--key-role", role, *bound)


@keys.command("revoke", short_help="Stop admitting a key.")
@click.argument("name")
@_directory
@_role
def revoke_key(name: str, directory: str, role: str) -> None:
    """Stop admitting the key of NAME: running servers end its connections and its open runs within 2 s.

    DIR has the keys of the servers: CREMA_AGGREGATOR_KEYS, or keys, if none is given.
    """
    _become("crema-aggregator", "--revoke-key", name, "--keys", directory, "--key-role", role)


def _become(name: str, *arguments: str) -> None:
    """Let one of the programs take this process's place."""
    path = _program(name)
    os.execv(path, [path, *arguments])


def _program(name: str) -> str:
    from ..hook._programs import program

    try:
        return program(name)
    except FileNotFoundError as error:
        raise click.ClickException(str(error)) from error
