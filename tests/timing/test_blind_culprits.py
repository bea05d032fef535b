"""More runs with one planted cause, by another author who has not read the rules: sentences, `crema show` and `crema hot` name it.

The parameters were chosen once, before the first run. What is true is measured by the analyses' own clocks, by Python's account of
its collector, and by the kernel's of the control group.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import gc
import hashlib
import json
import os
import pathlib
import re
import socket
import socketserver
import subprocess
import tempfile
import threading
import time

import numpy as np
import psutil
import pytest
from click.testing import CliRunner
from distributed import get_worker

import crema
import missing
import planted_runs
from crema.hook import _kernel
from crema.read.command import main
from crema.read.html.sentences import findings
from measured_runs import CROWDED, NOT_OURS, waited_for_cores
from planted_runs import Case, Planted, marked_line

pytestmark = [
    pytest.mark.timing,
    pytest.mark.long,
    pytest.mark.skipif(bool(_kernel.why_not()), reason=_kernel.why_not()),
]

HOST = "127.0.0.6"
CGROUPS = pathlib.Path("/sys/fs/cgroup/cpu")


# ---------------------------------------------------------------- a storm of collections


class Correction:
    """Each knows its neighbour, which knows it."""

    def __init__(self, value: float) -> None:
        self.value, self.neighbour = value, None


@functools.cache
def corrections() -> list[Correction]:
    made = [Correction(float(i)) for i in range(400_000)]
    for one, other in zip(made[::2], made[1::2], strict=True):
        one.neighbour, other.neighbour = other, one
    return made


class CollectsAfterEachVariation(Planted):
    """To save memory, beside 400,000 objects that refer to each other and stay."""

    def plant(self, events):
        corrections()
        collecting = 0.0

        def account(phase, info):
            nonlocal collecting
            collecting += time.perf_counter() * (1 if phase == "stop" else -1)

        gc.callbacks.append(account)
        try:
            for variation in range(4):
                np.sort(np.random.default_rng(variation).random(200_000))
                gc.collect()  # planted: collect
        finally:
            gc.callbacks.remove(account)
        return collecting


# ---------------------------------------------------------------- a tool, locks


@functools.cache
def _tool() -> str:
    path = pathlib.Path(get_worker().local_directory) / "calibrate"
    path.write_text("#!/bin/sh\nsleep 0.6\necho 1.02\n")
    path.chmod(0o755)
    return str(path)


class AsksATool(Planted):
    """A script that waits for something itself and prints a number."""

    def plant(self, events):
        ran = subprocess.run([_tool()], capture_output=True, text=True, check=True)  # planted: tool
        float(ran.stdout)


def _empty_file(suffix: str) -> str:
    handle, path = tempfile.mkstemp(suffix=suffix)
    os.close(handle)
    atexit.register(pathlib.Path(path).unlink)
    return path


class LocksAFile(Planted):
    """The cache of a group, in a directory with a lock file: only one chunk may be in it."""

    def __init__(self):
        self.path = _empty_file(".lock")

    def plant(self, events):
        with open(self.path, "w") as file:
            began = time.monotonic()
            fcntl.flock(file, fcntl.LOCK_EX)  # planted: flock
            waited = time.monotonic() - began
            time.sleep(0.3)
        return waited


_client = threading.Lock()


@functools.cache
def _connection(port: int) -> socket.socket:
    return socket.create_connection((HOST, port))


class _Answers(socketserver.BaseRequestHandler):
    def handle(self):
        while self.request.recv(1):
            time.sleep(0.3)
            self.request.sendall(b"x")


class SharesAClient(Planted):
    """One connection for all threads, and a lock around it."""

    def __init__(self):
        server = socketserver.ThreadingTCPServer((HOST, 0), _Answers)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.port = server.server_address[1]

    def plant(self, events):
        with _client:  # planted: client
            peer = _connection(self.port)
            peer.sendall(b"q")
            peer.recv(1)  # planted: answer


# ---------------------------------------------------------------- limits


class ComputesAndSleeps(Planted):
    """What it takes longer to compute than its CPU time is what the group's quota holds back."""

    def plant(self, events):
        wall, cpu = time.monotonic(), time.thread_time()
        while time.thread_time() < cpu + 0.1:
            hashlib.pbkdf2_hmac("sha256", b"crema", b"salt", 20_000)  # planted: quota
        held_back = time.monotonic() - wall - (time.thread_time() - cpu)
        time.sleep(0.1)
        return held_back


@contextlib.contextmanager
def quarter_of_a_core(cluster):
    group = CGROUPS / f"blind-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"{missing.CPU_QUOTA}: {error}")
    seen = {}
    try:
        (group / "cpu.cfs_period_us").write_text("100000")
        (group / "cpu.cfs_quota_us").write_text("25000")
        for nanny in cluster.workers.values():
            (group / "cgroup.procs").write_text(str(nanny.pid))
        yield seen
        stat = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
        seen["throttled"] = int(stat["nr_throttled"]) / int(stat["nr_periods"])
    finally:
        for pid in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                (CGROUPS / "cgroup.procs").write_text(pid)
        group.rmdir()


KEPT_B = 3_000_000
LIMIT_B = 1_000_000_000


@functools.cache
def histogram(entry: int) -> np.ndarray:
    return np.full(KEPT_B // 8, float(entry))


class CachesEachChunk(Planted):
    """A cache without a limit, whose key is of the chunk."""

    def plant(self, events):
        histogram(int(events.run[0]))
        time.sleep(0.1)

    def process(self, events):
        return super().process(events) | {"rss_b": [psutil.Process().memory_info().rss]}


# ---------------------------------------------------------------- what must be said


def _line(mark: str) -> str:
    return marked_line(__file__, mark)


CASES = [
    (Case("collects", CollectsAfterEachVariation, frozenset({"garbage_collection"}), (_line("collect"),),
          "gc.collect() four times in each chunk, among 400,000 objects that stay",
          threads=1, share=0.5), "collect"),
    (Case("tool", AsksATool, frozenset({"children"}), (_line("tool"),),
          "a script that takes 0.6 s and whose output is read"), "tool"),
    (Case("flock", LocksAFile, frozenset({"lock", "file"}), (_line("flock"),),
          "one of four threads sleeps for 0.3 s with a file locked, three wait for it",
          threads=4, files=32, share=0.6), "flock"),
    (Case("shared-client", SharesAClient, frozenset({"lock", "service"}),
          (f"{_line('client')}|{_line('answer')}",),
          "one of four threads waits 0.3 s for a service, three for the lock around its connection",
          threads=4, files=32), "client"),
    (Case("quota-and-sleeps", ComputesAndSleeps, frozenset({"throttling", "cores"}), ("throttl|quota",),
          "two threads compute for 0.1 s and sleep for 0.1 s, in a group that may use a quarter of a core",
          files=20, share=0.5, beside=quarter_of_a_core), "quota"),
]  # fmt: skip


def said_by(*command: str) -> str:
    """Of a command of crema."""
    ran = CliRunner().invoke(main, command, catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    return ran.stdout


def causes(path: str, passed_over: set[str]) -> list:
    with crema.open(path) as run:
        said = findings(run, shown=8)
    for each in said:
        print(f"{each.name}: {each.finding}")
    return [each for each in said if each.name not in passed_over]


@pytest.mark.parametrize(
    ("case", "hottest"), [pytest.param(*each, id=each[0].name) for each in CASES]
)
def test_cause_and_line_are_named_first(case, hottest, tmp_path):
    path, measured = planted_runs.run(case, tmp_path)
    print(case.why, measured)
    if (
        measured["planted_s"] < case.share * measured["process_s"]
        or measured.get("throttled", 1) < 0.5
    ):
        pytest.fail(f"not planted: {measured}")
    busy = "cores" not in case.expected and waited_for_cores(path) > CROWDED
    shown, hot = said_by("show", str(path)), said_by("hot", str(path))
    print(shown, hot, sep="\n")
    first, *_ = causes(path, NOT_OURS | ({"cores"} if busy else set()))
    assert first.name in case.expected
    for words in case.words:
        assert any(word in first.finding for word in words.split("|"))
        assert any(word in shown for word in words.split("|"))
    lines = json.loads(said_by("hot", "--json", str(path)))["lines"]
    assert lines[0]["name"] == _line(hottest)


def test_growing_memory_is_named_with_its_slope_and_what_still_fits(tmp_path):
    case = Case(
        *("cached", CachesEachChunk, frozenset({"memory_growth"}), ()),
        why="3 MB stay in a cache after each chunk, of a limit of 1 GB",
        files=64,
        memory_limit=str(LIMIT_B),
    )
    path, measured = planted_runs.run(case, tmp_path)
    rss = sorted(measured["rss_b"])
    slope = (rss[-1] - rss[len(rss) // 2]) / (len(rss) - 1 - len(rss) // 2)
    fit = (LIMIT_B - rss[-1]) / KEPT_B
    print(
        case.why,
        f"{rss[0] / 1e6:.0f} to {rss[-1] / 1e6:.0f} MB, {slope / 1e6:.2f} MB per chunk, {fit:.0f} more fit",
    )
    if not 0.8 * KEPT_B < slope < 1.2 * KEPT_B:
        pytest.fail("not planted")
    print(said_by("show", str(path)))
    first, *_ = causes(path, NOT_OURS)
    assert first.name == "memory_growth"
    numbers = [
        float(each.replace(",", "")) for each in re.findall(r"\d[\d,]*(?:\.\d+)?", first.finding)
    ]
    assert any(0.9 * KEPT_B < number * 1e6 < 1.1 * KEPT_B for number in numbers)
    assert any(0.75 * fit < number < 1.25 * fit for number in numbers)
