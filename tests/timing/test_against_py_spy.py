"""py-spy, which shares nothing with crema, watches the same worker for the same minute: both give the same shares to the user's functions.

A third account is that of the functions' own clocks. CREMA_SPY_SECONDS shortens the minute, for trying.
"""

from __future__ import annotations

import collections
import contextlib
import os
import pathlib
import shutil
import signal
import socket
import sys
import time

import numpy as np
import pytest
from coffea import processor
from distributed import Client

import crema
import missing
from children import Child
from clusters import LocalCluster
from coffea_runs import run_coffea
from crema._demo_data import make_fileset
from crema.hook import _kernel
from late_server import answers_after
from measured_runs import enum_labels, table
from waiting import wait_for

pytestmark = [
    pytest.mark.timing,
    pytest.mark.long,
    pytest.mark.skipif(bool(_kernel.why_not()), reason=_kernel.why_not()),
]

SECONDS = float(os.environ.get("CREMA_SPY_SECONDS", "60"))
THREADS = 2
CHUNK_S = 1.2  # of a thread, on idle cores
CHUNK_EVENTS = 100
RATE_HZ = 20
AGREE = 0.05  # of all, two shares may differ by
FUNCTIONS = "counts_in_python", "sorts_with_numpy", "sleeps", "asks_the_server"
RUNNING = {"cpu", "core"}  # py-spy's active: it computes, or is ready and has no core


def counts_in_python() -> None:
    end = time.thread_time() + 0.4
    while time.thread_time() < end:
        total = 0
        for i in range(20_000):
            total += i * i


def sorts_with_numpy() -> None:
    values = np.random.default_rng(1).random(200_000)
    end = time.thread_time() + 0.25
    while time.thread_time() < end:
        np.sort(values)


def sleeps() -> None:
    time.sleep(0.2)


def asks_the_server(address: tuple[str, int]) -> None:
    with socket.create_connection(address) as peer:
        for _ in range(3):
            peer.sendall(b"x")
            peer.recv(1)


class FourKinds(processor.ProcessorABC):
    """Returns the wall and CPU seconds of each function, by its own clocks."""

    def __init__(self, address):
        self.address = address

    def process(self, events):
        begin = time.monotonic(), time.thread_time()
        spent = collections.Counter(chunks=1)
        for function, *arguments in (
            (counts_in_python,),
            (sorts_with_numpy,),
            (sleeps,),
            (asks_the_server, self.address),
        ):
            wall, cpu = time.monotonic(), time.thread_time()
            function(*arguments)
            spent[f"{function.__name__} wall"] = time.monotonic() - wall
            spent[f"{function.__name__} cpu"] = time.thread_time() - cpu
        spent["wall"], spent["cpu"] = time.monotonic() - begin[0], time.thread_time() - begin[1]
        return dict(spent)

    def postprocess(self, accumulator):
        return accumulator


@pytest.fixture(scope="module")
def server():
    with answers_after(0.1, "127.0.0.3") as address:
        yield address


@pytest.fixture
def py_spy():
    """The program, on PATH or in the environment of this Python."""
    beside = pathlib.Path(sys.executable).parent
    program = shutil.which("py-spy") or shutil.which("py-spy", path=beside)
    if not program:
        pytest.skip(missing.PY_SPY)
    return program


@contextlib.contextmanager
def watched(py_spy: str, pid: int, output: pathlib.Path, *options: str):
    """py-spy looks at the process during the block; `output` then has its stacks."""
    log = output.with_suffix(".log")
    command = [py_spy, "record", "--format", "raw", "--rate", RATE_HZ, "--pid", pid]
    with log.open("w") as said:
        spy = Child([*command, "--output", output, *options], stdout=said, stderr=said)
    try:
        wait_for(
            lambda: spy.poll() is not None or "Sampling process" in log.read_text(),
            what="py-spy's first word",
        )
        if spy.poll() is not None:
            pytest.skip(f"{missing.PY_SPY}: {log.read_text()}")
        yield
        spy.send_signal(signal.SIGINT)
        assert spy.wait(60) == 0, log.read_text()
        print(log.read_text())
    finally:
        spy.end()


def shares(seconds: dict[str, float], whole: float) -> dict[str, float]:
    return {name: seconds.get(name, 0.0) / whole for name in FUNCTIONS}


def seen_by_py_spy(output: pathlib.Path) -> tuple[dict[str, float], int]:
    """Share of each function in the samples with process() in their stack, and the number of these."""
    samples, whole = collections.Counter(), 0
    here = pathlib.Path(__file__).name
    for line in output.read_text().splitlines():
        stack, _, n = line.rpartition(" ")
        names = {
            frame.partition(" (")[0].rpartition(".")[2]
            for frame in stack.split(";")
            if here in frame
        }
        if "process" in names:
            whole += int(n)
            samples.update(dict.fromkeys(names, int(n)))
    return shares(samples, whole), whole


def seen_by_crema(path: str, states: set[str] | None = None) -> tuple[dict[str, float], float]:
    """The same of the run file's seconds in process(), and these; of the states only."""
    looks = table(path, "looks")
    labels = {column: enum_labels(path, "looks", column) for column in ("phase", "state")}
    looks = looks[looks.phase.map(labels["phase"]) == "process"]
    if states:
        looks = looks[looks.state.map(labels["state"]).isin(states)]
    parents = table(path, "dict/stack").set_index("id")
    functions = table(path, "dict/frame").set_index("id")["function"]
    spent = collections.Counter()
    for stack, seconds in looks.groupby("stack_id").seconds.sum().items():
        names = set()
        while stack in parents.index:
            names.add(functions[parents.frame_id[stack]].rpartition(".")[2])
            stack = parents.parent_id[stack]
        spent.update(dict.fromkeys(names, seconds))
    whole = float(looks.seconds.sum())
    return shares(spent, whole), whole


@pytest.mark.timeout(60 + 8 * SECONDS)
@pytest.mark.parametrize(
    ("options", "states", "clock"),
    [(["--idle"], None, "wall"), ([], RUNNING, "cpu")],
    ids=["all", "active"],
)
def test_shares_of_functions_are_those_of_py_spy(options, states, clock, server, py_spy, tmp_path):
    chunks = max(8, round(SECONDS * THREADS / CHUNK_S))
    fileset = make_fileset(tmp_path / "input", chunks * CHUNK_EVENTS, lambda _: None)
    instance, stacks = FourKinds(server), tmp_path / "stacks.raw"
    with (
        LocalCluster(n_workers=1, threads_per_worker=THREADS, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        [pid] = client.run(os.getpid).values()
        with (
            watched(py_spy, pid, stacks, *options),
            crema.MetricsCollector(client, instance, output=tmp_path, quiet=True) as mc,
        ):
            executor = processor.DaskExecutor(client=client, status=False)
            own, _ = run_coffea(mc, executor, fileset, instance, chunksize=CHUNK_EVENTS)
    spy, n = seen_by_py_spy(stacks)
    ours, seconds = seen_by_crema(mc.path, states)
    true = shares({name: own[f"{name} {clock}"] for name in FUNCTIONS}, own[clock])
    print(f"{own['chunks']} chunks, {own['wall']:.1f} s in process(), {own['cpu']:.1f} s of CPU")
    print(f"py-spy: {n} samples in process(); crema: {seconds:.1f} s")
    for name in FUNCTIONS:
        print(f"{name:18} py-spy {spy[name]:.3f} crema {ours[name]:.3f} clocks {true[name]:.3f}")
    assert (mc.verdict, own["chunks"]) == ("COMPLETE", chunks)
    assert n > RATE_HZ * min(SECONDS, own[clock] / THREADS) / 2, "py-spy hardly looked"
    assert ours == pytest.approx(spy, abs=AGREE)
    if clock == "wall":  # a thread's clock does not know that it has no core
        assert ours == pytest.approx(true, abs=AGREE)
