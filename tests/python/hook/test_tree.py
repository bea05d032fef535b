"""A process counts once, with its children, whatever number of workers it has; against psutil."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
import pytest
from distributed import Client

import hook_support as support
import spool_reader
from children import Child, Fork
from clusters import LocalCluster
from crema.hook import _recorder, _tree, _writers

SPIN = "import time\nuntil = time.thread_time() + {s}\nwhile time.thread_time() < until: pass"


def start_child(seconds: float, then: str = "") -> Child:
    return Child(
        [sys.executable, "-c", SPIN.format(s=seconds) + "\nprint(flush=True)\n" + then],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def end(child: Child) -> None:
    child.communicate()


@pytest.mark.timing
def test_children_count_alive_and_ended():
    tree = _tree.Tree()
    before = tree.used()
    children = [start_child(0.3, "input()") for _ in range(3)]
    try:
        for child in children:
            child.stdout.readline()
        alive = tree.used()
        truth_s = sum(sum(psutil.Process(c.pid).cpu_times()[:2]) for c in children)
    finally:
        for child in children:
            end(child)
    ended = tree.used()
    assert truth_s >= 0.85
    assert alive.processes == before.processes + 3
    assert alive.cpu_s - before.cpu_s >= truth_s - 0.1
    assert alive.cpu_s <= ended.cpu_s <= alive.cpu_s + 0.5
    assert ended.processes == before.processes


def test_a_childs_pages_that_are_shared_count_once():
    block = bytearray(os.urandom(1 << 20)) * 200
    child = Fork(lambda: time.sleep(60))
    try:
        tree = _tree.Tree()
        assert tree.used().memory == _tree.RSS
        assert tree.is_due()
        tree.measure_memory()
        used = tree.used()
        assert not tree.is_due(), "at most every ten seconds"
        assert used.memory == _tree.PSS
        ours = [psutil.Process(), *psutil.Process().children(recursive=True)]
        rss_b = sum(p.memory_info().rss for p in ours)  # each shared page once for each process
        assert psutil.Process().memory_info().rss > len(block)
        assert used.rss_b < rss_b - len(block) / 2
    finally:
        child.end()


def test_a_child_that_records_itself_is_not_its_parents():
    child = start_child(0.1, "input()")
    try:
        child.stdout.readline()
        assert _tree.Tree(lambda: {child.pid}).used().processes == _tree.Tree().used().processes - 1
    finally:
        end(child)


def test_a_process_without_children_asks_one_question(monkeypatch):
    monkeypatch.setattr(_tree, "_children", lambda pid: pytest.fail("read /proc"))
    monkeypatch.setattr(_tree, "has_children", lambda: False)
    assert _tree.Tree().used().processes == 1


def used_b() -> tuple[int, int]:
    """Memory of this process and of what earlier tests left running below it: shared pages once, and once for each process."""
    ours = [
        p.memory_full_info() for p in (psutil.Process(), *psutil.Process().children(recursive=True))
    ]
    return sum(p.pss for p in ours), sum(p.rss for p in ours)


@pytest.mark.timing
def test_workers_in_one_process_share_its_cpu_and_memory(tmp_path):
    def spin(seconds):
        support.spin(seconds)

    settings = support.config(tmp_path)
    with (
        LocalCluster(
            n_workers=4, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        began, cpu_s = time.monotonic(), time.process_time()
        with support.recording(client, settings, with_scheduler=True) as streams:
            client.gather(client.map(spin, [0.3] * 8, pure=False))
            time.sleep(0.5)  # several samples
        took_s, cpu_s = time.monotonic() - began, time.process_time() - cpu_s
    rows = spool_reader.table(streams, "worker_samples")
    for source in ("worker", "scheduler"):
        of = rows[(rows.source == source) & (rows.rss_b >= 0)]
        whole_b = of.groupby("worker").rss_b.mean().sum()
        least_b, most_b = used_b()
        assert 0.7 * least_b <= whole_b <= 1.3 * most_b, source
    ours = rows[rows.source == "worker"]
    assert ours.process_workers.max() == 4
    assert ours.groupby("worker").cpu_pct.mean().sum() == pytest.approx(
        100 * cpu_s / took_s, rel=0.5
    )


def test_the_workers_cpu_contains_its_children(tmp_path):
    def work():
        children = [start_child(0.5) for _ in range(3)]
        for child in children:
            end(child)

    settings = support.config(tmp_path)
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
        support.recording(client, settings) as streams,
    ):
        client.submit(work).result()
        time.sleep(0.5)
    rows = spool_reader.table(streams, "worker_samples").sort_values("seq")
    seconds = rows.t_ns.diff().fillna(0) * 1e-9
    assert (rows.cpu_pct / 100 * seconds).sum() >= 1.5
    assert rows.processes.max() >= 4


def test_the_pids_of_recorded_children_are_those_of_the_register(tmp_path):
    settings = support.config(tmp_path)
    entry = _writers.Writer("host:4711", 0, _writers.LEFT, os.urandom(16))
    settings.spool_dir().mkdir(parents=True)
    _writers.register(settings.spool_dir(), settings.run_id, entry)
    assert _tree.recorded(settings) == {4711}
    assert _recorder.sharing("no run", "me") == 1
