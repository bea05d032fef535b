"""How entering and leaving the block grow with the number of workers, beside an empty ``client.run`` and an empty plugin.

    python tests/bench/enter.py [--workers N ...] [--rounds N]

Client and scheduler are in this process, and the workers, which are real, in others, up to 25 in each. So CPU, which is that of client
and scheduler alone, is what every further worker costs wherever it runs; wall time holds what the workers do as well, one after the other
here, at the same time where each has a process. Workers send no heartbeats and take samples rarely, so that the two cores are free for what
is measured. The first round of each cluster imports everything and is left out.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import dask
from distributed import Client, LocalCluster, WorkerPlugin

import crema

AT_ONCE = 20  # workers of a process that connect
PER_PROCESS = 25
# A worker checks its event loop and samples its threads 150 times per second: a hundred of them would keep a core busy. And where they
# share a process, each keeps what all of them log, garbage is searched in the objects of all, and the agent looks for a worker's file among
# the open files of all: none of this happens where each has a process, so it is avoided here too, or kept small.
QUIET = {
    "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "1h",
    "DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__INTERVAL": "1h",
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
}
WORKERS = f"""
import asyncio, gc, logging, sys
from distributed import Worker
async def main(address, n):
    workers = [Worker(address, nthreads=1, dashboard=False, memory_limit=0) for _ in range(n)]
    for first in range(0, n, {AT_ONCE}):
        await asyncio.gather(*workers[first : first + {AT_ONCE}])
    for worker in workers:
        worker.periodic_callbacks["heartbeat"].stop()
    del logging.getLogger("distributed.worker").handlers[1:]
    gc.freeze()
    await asyncio.gather(*(worker.finished() for worker in workers))
asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


class Nothing(WorkerPlugin):
    """What every plugin costs."""

    name = "nothing"


@contextlib.contextmanager
def open_cluster(n: int) -> Iterator[Client]:
    """A scheduler here and `n` workers in other processes."""
    with (
        dask.config.set({"distributed.scheduler.worker-ttl": None}),
        LocalCluster(
            n_workers=0, processes=False, protocol="tcp", dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
        contextlib.ExitStack() as stack,
    ):
        command = [sys.executable, "-c", WORKERS, cluster.scheduler_address]
        for first in range(0, n, PER_PROCESS):
            workers = [*command, str(min(PER_PROCESS, n - first))]
            process = stack.enter_context(
                subprocess.Popen(workers, stderr=subprocess.DEVNULL, env=os.environ | QUIET)
            )
            stack.callback(process.terminate)
        client.wait_for_workers(n, timeout=600)
        yield client


class Costs:
    """Seconds of each step: wall, and CPU of this process beyond what it uses when nothing happens."""

    def __init__(self) -> None:
        began = time.process_time()
        time.sleep(3)
        self._idle = (time.process_time() - began) / 3
        self._found: collections.defaultdict[str, list] = collections.defaultdict(list)

    def measure(self, step: str, action: Callable[[], Any]) -> None:
        began, cpu_s = time.monotonic(), time.process_time()
        action()
        wall_s, cpu_s = time.monotonic() - began, time.process_time() - cpu_s
        self._found[step].append((wall_s, cpu_s - self._idle * wall_s))

    def settle(self) -> None:
        """Wait until this process is at rest, a minute at most."""
        for _ in range(60):
            began = time.process_time()
            time.sleep(1)
            if time.process_time() - began < 1.5 * self._idle + 0.01:
                return

    def medians(self) -> dict[str, tuple[float, float]]:
        return {
            step: tuple(statistics.median(values) for values in zip(*found[1:], strict=True))
            for step, found in self._found.items()
        }


def measure(n: int, rounds: int) -> dict[str, tuple[float, float]]:
    """Median seconds of each step, wall and CPU."""
    with open_cluster(n) as client, tempfile.TemporaryDirectory() as output:

        def register_nothing() -> None:
            client.register_plugin(Nothing())
            client.unregister_worker_plugin(Nothing.name)

        costs = Costs()
        for _ in range(1 + rounds):
            costs.measure("run", lambda: client.run(int))
            costs.measure("register", register_nothing)
            mc = crema.MetricsCollector(client, output=output, quiet=True, sample_interval=60)
            costs.measure("enter", mc.__enter__)
            if mc.reasons:
                raise SystemExit(f"{n} workers: {mc.reasons}")
            client.gather(client.map(abs, range(2 * n), pure=False))
            time.sleep(2)  # the agent has delivered what there was
            costs.settle()  # Dask has released the tasks
            costs.measure("exit", lambda mc=mc: mc.__exit__(None, None, None))
            if mc.verdict != "COMPLETE":
                raise SystemExit(f"{n} workers: {mc.verdict} {mc.reasons}")
            mc.path.unlink()
        return costs.medians()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 100, 300])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    logging.getLogger("distributed").setLevel(logging.ERROR)
    import coffea.processor  # noqa: F401  the block imports it otherwise

    rows = []
    for n in options.workers:
        found = measure(n, options.rounds)
        rows.append((n, found))
        steps = (f"{step} {wall:.3f} s ({cpu:.3f})" for step, (wall, cpu) in found.items())
        print(f"{n} workers, wall (CPU): " + ", ".join(steps), flush=True)
    for (n, few), (m, many) in itertools.pairwise(rows):
        each = (
            f"{step} {1e3 * (many[step][0] - wall) / (m - n):.2f} ({1e3 * (many[step][1] - cpu) / (m - n):.2f})"
            for step, (wall, cpu) in few.items()
        )
        print(f"{n} to {m}, ms per worker: " + ", ".join(each))
    return 0


if __name__ == "__main__":
    sys.exit(main())
