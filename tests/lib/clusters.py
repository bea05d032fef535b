"""Clusters of processes that are there at once: forks of a server that has Dask and coffea loaded, instead of a start of Python each.

Of what a start of Python gives a worker, a fork lacks the environment of this moment, which is handed over here.
"""

from __future__ import annotations

import concurrent.futures
import functools
import multiprocessing
import multiprocessing.forkserver
import os
import time

import dask
import distributed

METHOD = "distributed.worker.multiprocessing-method"
LOADED = ["distributed", "coffea.processor", "coffea.nanoevents", "uproot", "pandas", "h5py"]
_environment = dict(os.environ)


@functools.cache
def _start_server() -> None:
    now = dict(os.environ)
    os.environ.clear()
    os.environ.update(_environment)  # not what a test has set for itself
    try:
        multiprocessing.get_context("forkserver").set_forkserver_preload(LOADED)
        multiprocessing.forkserver.ensure_running()
    finally:
        os.environ.clear()
        os.environ.update(now)


def as_dask_starts_workers():
    """In this block Dask's own LocalCluster starts processes as it does by default."""
    return dask.config.set({METHOD: "spawn"})


class LocalCluster(distributed.LocalCluster):
    """Dask's, but for how its worker processes start."""

    def __init__(self, *arguments, processes: bool = True, **options):
        if processes:
            _start_server()
            dask.config.set({METHOD: "forkserver"})
            options.setdefault("env", dict(os.environ))
        super().__init__(*arguments, processes=processes, **options)


class ProcessPool(concurrent.futures.ProcessPoolExecutor):
    """A pool of such processes; coffea's own starts Python for each of them."""

    def __init__(self, max_workers: int):
        _start_server()
        super().__init__(max_workers, mp_context=multiprocessing.get_context("forkserver"))


def doze(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def work(client: distributed.Client, tasks: int = 40) -> None:
    """Short tasks, each with an argument of its own."""
    client.gather(client.map(doze, [0.002 + 1e-6 * i for i in range(tasks)]))
