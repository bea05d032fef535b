"""``crema demo``, or ``python -m crema.demo``: a small real analysis, measured; the quickest way to see what crema does."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import sys
import time
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distributed import Client

    from .collect.collector import MetricsCollector

EVENTS = 500_000  # half a minute on two cores
PATIENCE_S = 60  # for a cluster that is just starting


def main(arguments: list[str] | None = None) -> int:
    """Run the demonstration.

    Parameters
    ----------
    arguments : list of str, optional
        Command line, without the program's name; `sys.argv` if not given.

    Returns
    -------
    int
        Exit status: 0 if the verdict is COMPLETE, 1 if not, 2 if it could not start.
    """
    options = _parse(arguments)
    say = Console(stderr=True).print
    fileset = _inputs(options, say)
    try:
        return _run(options, fileset, say)
    except KeyboardInterrupt:
        return 130


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="crema demo",
        description="Run a dijet analysis with coffea on a LocalCluster, or on an existing cluster, and measure it.",
    )
    add = parser.add_argument
    add("--input", nargs="+", metavar="FILE", help="NanoAOD files to use instead of generated ones")
    add("--treename", default="Events", help="tree in these files (%(default)s)")
    add(
        "--output",
        default=".",
        type=pathlib.Path,
        metavar="DIR",
        help="directory of the run file (the working directory)",
    )
    add(
        "--scheduler",
        metavar="ADDRESS",
        help="scheduler of an existing cluster (default: start a LocalCluster)",
    )
    add(
        "--workers",
        default=2,
        type=int,
        help="processes to start, with one thread each; of an existing cluster, how many to wait for (%(default)s)",
    )
    add("--events", default=EVENTS, type=int, help="events to generate in all (%(default)s)")
    add("--chunksize", default=25_000, type=int, help="events per chunk (%(default)s)")
    add("--cache", default=_cache_dir(), type=pathlib.Path, metavar="DIR", help="(%(default)s)")
    add("--json", action="store_true", help="print the result as JSON, for programs")
    options = parser.parse_args(arguments)
    for name in ("workers", "events", "chunksize"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1")
    for file in options.input or ():
        if "://" not in file and not pathlib.Path(file).is_file():
            parser.error(f"there is no file {file}")
    return options


def _cache_dir() -> pathlib.Path:
    """In the source tree its own cache; elsewhere the user's."""
    chosen = os.environ.get("XDG_CACHE_HOME")
    if chosen:
        return pathlib.Path(chosen, "crema-demo")
    here = pathlib.Path(".cache")
    return here / "demo" if here.is_dir() else pathlib.Path.home() / ".cache" / "crema-demo"


def _inputs(options: argparse.Namespace, say) -> dict:
    if options.input:
        files = [f if "://" in f else str(pathlib.Path(f).absolute()) for f in options.input]
        return {"input": {"files": dict.fromkeys(files, options.treename)}}
    from ._demo_data import make_fileset

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(f"events in {options.cache}", total=options.events)
        started = time.monotonic()
        fileset = make_fileset(
            options.cache.absolute(), options.events, lambda n: bar.advance(task, n)
        )
    say(f"Input files are in {options.cache} ({time.monotonic() - started:.1f} s).")
    return fileset


@contextlib.contextmanager
def _client(options: argparse.Namespace, say) -> Iterator[Client]:
    """A client of the cluster that was named, or of one that is made here and goes with it."""
    from distributed import Client, LocalCluster

    from .collect.collector import CremaError

    with contextlib.ExitStack() as stack:
        if options.scheduler:
            say(f"Waiting for {options.workers} workers at {options.scheduler}.")
            try:
                client = stack.enter_context(Client(options.scheduler, timeout=PATIENCE_S))
                client.wait_for_workers(options.workers, timeout=PATIENCE_S)
            except (
                OSError,
                ValueError,
            ) as error:  # no scheduler there, no address, or too few workers
                raise CremaError(f"the cluster is not ready: {error}") from error
        else:
            workers = f"{options.workers} worker{'s' * (options.workers != 1)}"
            say(f"Starting a LocalCluster of {workers} with one thread each.")
            cluster = LocalCluster(
                n_workers=options.workers, threads_per_worker=1, dashboard_address=":0"
            )
            client = stack.enter_context(Client(stack.enter_context(cluster)))
        yield client


def _run(options: argparse.Namespace, fileset: dict, say) -> int:
    from .collect.collector import CremaError

    try:
        with _client(options, say) as client:
            mc = _measure(client, options, fileset, say)
    except CremaError as error:
        say(f"crema could not start: {error}", style="red")
        return 2
    return _conclude(mc, options, say)


def _measure(client: Client, options: argparse.Namespace, fileset: dict, say) -> MetricsCollector:
    from coffea import processor

    from ._demo_processor import DijetProcessor, Schema
    from .collect.collector import MetricsCollector

    instance = DijetProcessor()
    with MetricsCollector(
        client,
        processor_instance=instance,
        output=options.output,
        run_label="demo",
        report="none",
        on_error="raise",
        attributes={
            "requested_workers": options.workers,
            "n_datasets": len(fileset),
            "n_files": sum(len(d["files"]) for d in fileset.values()),
        },
    ) as mc:
        say(f"Run {mc.run_id}: the analysis starts.")
        run = processor.Runner(
            executor=processor.DaskExecutor(client=client, status=sys.stderr.isatty()),
            schema=Schema,
            savemetrics=True,
            chunksize=options.chunksize,
        )
        output, report = run(fileset, processor_instance=instance, treename=options.treename)
        mc.set_coffea_report(report)
        say(f"{output['selected']:,} of {output['events']:,} events have two jets.")
    return mc


def _conclude(mc: MetricsCollector, options: argparse.Namespace, say) -> int:
    if mc.path is None:
        return 1
    if options.json:
        known = {"run_id": mc.run_id, "verdict": mc.verdict, "reasons": mc.reasons}
        print(json.dumps({"path": str(mc.path), **known}, indent=1, default=str))
        return 0 if mc.verdict == "COMPLETE" else 1
    mc.print_summary()
    say("\nLook at it with any of", markup=False)
    say(f"    crema show {mc.path}", markup=False, soft_wrap=True)
    say(f"    crema report {mc.path}", markup=False, soft_wrap=True)
    say(f'    crema.open("{mc.path}")["summary/waterfall"]', markup=False, soft_wrap=True)
    return 0 if mc.verdict == "COMPLETE" else 1


if __name__ == "__main__":
    sys.exit(main())
