"""How the times of entering and leaving the block grow with the number of workers, beside an empty ``client.run`` and an empty plugin.

    python tests/bench/enter.py [--workers N ...] [--rounds N]

The workers are real but share this process with their scheduler, its event loop and one host's agent; each is recorded in its own
stream. Workers with separate processes run the plugin at the same time, these one after the other: that time is measured and shown
separately. The first round of each cluster imports everything and is left out.
"""

from __future__ import annotations

import argparse
import collections
import functools
import itertools
import logging
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from distributed import WorkerPlugin

import crema
from crema.hook.worker import WorkerHook

STEPS = ("run", "register", "enter", "exit")  # of Dask alone: the first two, with nothing in them
OURS = ("setup", "finish", "teardown")  # of the plugin, on a worker


class Nothing(WorkerPlugin):
    """What every plugin costs."""

    name = "nothing"


class OnWorkers:
    """Adds up the seconds that the plugins spend."""

    def __init__(self) -> None:
        self.total_s = 0.0
        for name in OURS:
            setattr(WorkerHook, name, self._timed(getattr(WorkerHook, name)))

    def _timed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def timed(*args: Any, **kwargs: Any) -> Any:
            began = time.thread_time()
            try:
                return method(*args, **kwargs)
            finally:
                self.total_s += time.thread_time() - began

        return timed


def measure(n: int, rounds: int, on_workers: OnWorkers) -> dict[str, float]:
    """Median seconds of each step, without what workers do at the same time elsewhere."""
    from distributed import Client, LocalCluster

    options = {
        "threads_per_worker": 1,
        "processes": False,
        "dashboard_address": None,
        "memory_limit": 0,
    }
    found: collections.defaultdict[str, list[float]] = collections.defaultdict(list)
    with (
        LocalCluster(n_workers=n, **options) as cluster,
        Client(cluster) as client,
        tempfile.TemporaryDirectory() as output,
    ):
        client.wait_for_workers(n, timeout=600)
        for _ in range(1 + rounds):
            at, theirs = [time.monotonic()], [0.0]
            client.run(int)
            found["run"].append(time.monotonic() - at[0])
            client.register_plugin(Nothing())
            client.unregister_worker_plugin(Nothing.name)
            at.append(time.monotonic())
            theirs.append(on_workers.total_s)
            with crema.MetricsCollector(client, output=output, quiet=True, on_error="raise") as mc:
                at.append(time.monotonic())
                theirs.append(on_workers.total_s)
                client.gather(client.map(abs, range(2 * n), pure=False))
                time.sleep(2)  # the agent has delivered what there was
                at.append(time.monotonic())
            at.append(time.monotonic())
            theirs.append(on_workers.total_s)
            if mc.verdict != "COMPLETE":
                raise SystemExit(f"{n} workers: {mc.verdict} {mc.reasons}")
            mc.path.unlink()
            found["register"].append(at[1] - at[0] - found["run"][-1])
            for step, began, ended, k in (("enter", at[1], at[2], 2), ("exit", at[3], at[4], 3)):
                own = theirs[k] - theirs[k - 1]
                found[step].append(ended - began - own * (n - 1) / n)
                found[f"{step}, each worker"].append(own / n)
    return {step: statistics.median(times[1:]) for step, times in found.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 100, 300, 1000])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    logging.getLogger("distributed").setLevel(logging.ERROR)
    import coffea.processor  # noqa: F401  the block imports it otherwise

    on_workers, rows = OnWorkers(), []
    for n in options.workers:
        found = measure(n, options.rounds, on_workers)
        rows.append((n, found))
        print(
            f"{n} workers: " + ", ".join(f"{step} {found[step]:.4f} s" for step in found),
            flush=True,
        )
    for (n, few), (m, many) in itertools.pairwise(rows):
        each = {step: 1e3 * (many[step] - few[step]) / (m - n) for step in STEPS}
        print(
            f"{n} to {m}: "
            + ", ".join(f"{step} {each[step]:.2f}" for step in STEPS)
            + " ms per worker"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
