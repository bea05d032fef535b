"""What a worker's threads wait for: Python's lock and a core, as the samples count it."""

from __future__ import annotations

import concurrent.futures
import hashlib
import os
import threading
import time

import numpy as np
import pytest
from distributed import Client

import hook_support as support
import missing
import spool_reader
from clusters import LocalCluster
from crema.hook import _process


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client


def _compute_python(until):
    while time.monotonic() < until:
        sum(i * i for i in range(1000))


def _compute_native(until):
    while time.monotonic() < until:
        hashlib.pbkdf2_hmac("sha256", b"crema", b"salt", 20_000)


def _wait(until):
    time.sleep(max(until - time.monotonic(), 0))


@pytest.mark.timing
@pytest.mark.parametrize(
    ("work", "low", "high"),
    [(_compute_python, 0.6, 1), (_compute_native, 0, 0.3), (_wait, 0, 0.3)],
)
def test_the_gil_is_held_by_python_and_by_nothing_else(work, low, high):
    until = time.monotonic() + 2
    threads = [threading.Thread(target=work, args=(until,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    looks = []
    while time.monotonic() < until - 0.1:
        time.sleep(0.02)
        looks.append(_process.gil_held())
    for thread in threads:
        thread.join()
    if np.isnan(looks).any():
        pytest.skip(missing.CORE_WAITS)
    print(f"held at {np.mean(looks):.2f} of {len(looks)} looks")
    assert low <= np.mean(looks) <= high


@pytest.mark.parametrize(
    ("running_ns", "no_core_ns", "held"), [(0, 0, 1), (5e6, 0, 0), (0, 5e6, 0)]
)
def test_a_gil_is_held_only_while_its_thread_neither_runs_nor_waits_for_a_core(
    monkeypatch, running_ns, no_core_ns, held
):
    """Time that a hypervisor took counts as running, where the kernel does not know of it. On a clock of our own."""

    class Clock:
        now_ns = running_so_far_ns = waited_ns = 0

        def sleep(self, _):
            self.now_ns, self.running_so_far_ns, self.waited_ns = int(5e6), running_ns, no_core_ns

        def perf_counter_ns(self):
            return self.now_ns

        def thread_time_ns(self):
            return self.running_so_far_ns

        def __getattr__(self, name):  # for other threads
            return getattr(time, name)

    clock = Clock()
    monkeypatch.setattr(_process, "time", clock)
    monkeypatch.setattr(_process, "_schedstat", lambda _: (0, clock.waited_ns))
    assert _process.gil_held() == held


@pytest.mark.timing
def test_waiting_for_a_core_is_counted_of_the_threads_asked_for():
    """Two threads want one core all the time, one sleeps; what ended is not lost, and each is counted once."""
    until, core = time.monotonic() + 1, min(os.sched_getaffinity(0))

    def on_one_core(work):
        os.sched_setaffinity(0, {core})  # of the calling thread
        work(until)

    threads = [
        threading.Thread(target=on_one_core, args=(work,))
        for work in (_compute_native, _compute_native, _wait)
    ]
    for thread in threads:
        thread.start()
    (one, other, sleeper), waits = (t.native_id for t in threads), _process.ThreadWaits()
    time.sleep(0.8)
    of_one, of_both = waits.seconds([one]), _process.ThreadWaits().seconds([one, other])
    asleep = _process.ThreadWaits().seconds([sleeper])
    for thread in threads:
        thread.join()
    if np.isnan(of_one):
        pytest.skip(missing.CORE_WAITS)
    print(f"waited: one {of_one:.2f} s, both {of_both:.2f} s, the one asleep {asleep:.2f} s")
    assert 0.2 < of_one < of_both <= 1.6
    assert asleep < 0.1
    assert waits.seconds([]) == of_one


@pytest.mark.timing
def test_a_workers_samples_count_the_threads_of_tasks_alone(client, tmp_path):
    """Other threads of the worker wait for a core as well, and delay no task."""
    settings = support.config(tmp_path)
    with support.recording(client, settings) as streams:
        for done in (
            client.submit(_crowd, 1.0, pure=False, workers=[w]) for w in client.nthreads()
        ):
            done.result()
    waited = [spool_reader.table([s], "worker_samples").cpu_wait_s for s in streams]
    grown = np.array([s.max() - s.min() for s in waited])  # cumulative, of each worker
    if np.isnan(grown).any():
        pytest.skip(missing.CORE_WAITS)
    print(f"waited: {grown.round(3)}")
    assert len(grown) == 2 and (grown < 0.3).all()


def test_waiting_of_tasks_is_unknown_where_their_threads_are(client, tmp_path):
    settings = support.config(tmp_path)
    client.run(_add_executor)
    try:
        with support.recording(client, settings) as streams:
            time.sleep(0.5)
    finally:
        client.run(_remove_executor)
    samples = spool_reader.table(streams, "worker_samples")
    assert len(samples) > 0
    assert samples.cpu_wait_s.isna().all()


def _add_executor(dask_worker):
    dask_worker.executors["ours"] = concurrent.futures.ProcessPoolExecutor(1)


def _remove_executor(dask_worker):
    dask_worker.executors.pop("ours").shutdown()


def _crowd(seconds):
    """A task that sleeps while two threads beside it want one core, so that one always waits."""
    until, core = time.monotonic() + seconds, min(os.sched_getaffinity(0))

    def work():
        os.sched_setaffinity(0, {core})
        _compute_native(until)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
