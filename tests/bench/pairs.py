"""How often `crema diff` names a cause though nothing changed: every pair of repeats of one analysis.

    python tests/bench/pairs.py [DIRECTORY] [--runs 10] [--events 200000]

Run files that are in the directory already are compared, none are made then. Ten runs are 45 pairs; at most 5 % of them may
name a cause.
"""

from __future__ import annotations

import argparse
import itertools
import pathlib
import sys

import crema
from crema.read.compare import compare


def measure(directory: pathlib.Path, n: int, events: int) -> None:
    """Make `n` runs of the same analysis, one after another, on one cluster."""
    from coffea import processor
    from distributed import Client, LocalCluster

    from crema._demo_data import make_fileset
    from crema._demo_processor import DijetProcessor, Schema

    fileset = make_fileset(directory / "input", events, lambda n: None)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        for i in range(n + 1):  # the first one imports everything
            instance = DijetProcessor()
            with crema.MetricsCollector(
                client,
                processor_instance=instance,
                output=directory if i else directory / "input",
                quiet=True,
            ) as mc:
                executor = processor.DaskExecutor(client=client, status=False)
                run = processor.Runner(
                    executor=executor,
                    schema=Schema,
                    savemetrics=True,
                    chunksize=events // 40,
                    checkpointer=mc.checkpointer,
                )
                _, report = run(fileset, processor_instance=instance, treename="Events")
                mc.set_coffea_report(report)
            print(f"run {i} of {n}: {mc.verdict}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", nargs="?", default="pairs", type=pathlib.Path)
    parser.add_argument("--runs", default=10, type=int)
    parser.add_argument("--events", default=200_000, type=int)
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    if not list(options.directory.glob("*.h5")):
        measure(options.directory, options.runs, options.events)
    pairs = list(itertools.combinations(sorted(options.directory.glob("*.h5")), 2))
    named = 0
    for a, b in pairs:
        found = compare(a, b)
        if found.moved:
            named += 1
            print(f"{a.name} {b.name}: {found.sentence()}")
    print(f"{named} of {len(pairs)} pairs name a cause: {100 * named / len(pairs):.1f} %")
    return 0 if named <= 0.05 * len(pairs) else 1


if __name__ == "__main__":
    sys.exit(main())
