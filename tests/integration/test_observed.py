"""What observers of a worker say, against what psutil says from outside of a planted load."""

from __future__ import annotations

import time

import psutil
import pytest
from distributed import Client, LocalCluster, wait

import crema


def spin(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def used_s(process):
    """CPU seconds of a process and all that it ever started."""
    times = process.cpu_times()
    living = [child.cpu_times() for child in process.children(recursive=True)]
    ended = times.children_user + times.children_system
    return times.user + times.system + ended + sum(t.user + t.system for t in living)


# Seconds of computing and of waiting, in turn. Weighed by the wrong interval, each gives another number.
LOADS = {
    "first": [(2.0, 0), (0, 4)],
    "last": [(0, 4), (2.0, 0)],
    "between": [(0, 2), (1.5, 0), (0, 2)],
}


@pytest.mark.parametrize(
    "load", ["first", *(pytest.param(n, marks=pytest.mark.slow) for n in ("last", "between"))]
)
def test_cpu_is_what_psutil_counts_over_the_block(load, tmp_path):
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        (process,) = (psutil.Process(worker.pid) for worker in cluster.workers.values())
        entering_s = used_s(process)
        # An interval as long as the load: the wrong weights would show.
        with crema.MetricsCollector(client, output=tmp_path, quiet=True, sample_interval=4) as mc:
            before_s = used_s(process)
            for cpu_s, wait_s in LOADS[load]:
                wait(client.submit(spin, cpu_s, pure=False))
                time.sleep(wait_s)
            after_s = used_s(process)
        left_s = used_s(process)
    with crema.open(mc.path) as run:
        (row,) = [row for row in run.rows("summary/workflow") if row.name == "cpu_pct_avg"]
        samples = run["worker_samples"]
    assert row.status == "ok"
    t_ns = samples[samples.source == "worker"].t_ns
    recorded_s = row.value / 100 * (t_ns.max() - t_ns.min()) * 1e-9
    print(f"{recorded_s:.2f} s, psutil {after_s - before_s:.2f} to {left_s - entering_s:.2f} s")
    # The first sample is taken before psutil's inner reading, the last one after it.
    assert after_s - before_s - 0.05 <= recorded_s <= left_s - entering_s + 0.05
