"""Seconds of Python's cyclic garbage collector in a chunk: CPU time, of the thread that collected."""

from __future__ import annotations

import concurrent.futures
import gc
import subprocess
import sys
import threading
import time

import pytest
from coffea import processor
from coffea.nanoevents import NanoAODSchema

import crema
import hook_support
import paths
import spool_reader
from crema.hook import chunks
from crema.hook.chunks import ChunkHook

SAMPLE = paths.SAMPLES / "nano_dy.root"
SLEEP_S = 0.3

# Of the threads of this process: coffea makes a copy of the processor for each chunk.
both_chunks = threading.Barrier(2, timeout=60)
measured_s: dict[int, float] = {}  # collecting, by the first entry of the chunk


class Sleeper:
    """Garbage whose finalizer waits: that takes time of the collection, and other threads run meanwhile, but no CPU."""

    def __init__(self):
        self.itself = self

    def __del__(self):
        time.sleep(SLEEP_S)


class Littering(processor.ProcessorABC):
    """The first chunk makes cycles and has them collected; the second one, in another thread, lasts as long and makes none."""

    def process(self, events):
        start = events.metadata["entrystart"]
        both_chunks.wait()
        measured_s[start] = 0.0
        if start == 0:
            Sleeper()
            for _ in range(3):
                for _ in range(100_000):
                    cycle = []
                    cycle.append(cycle)
                began = time.thread_time()
                gc.collect()
                measured_s[start] += time.thread_time() - began
        both_chunks.wait()
        return {"n": len(events)}

    def postprocess(self, accumulator):
        return accumulator


@pytest.fixture
def settings(tmp_path):
    made = hook_support.config(tmp_path)
    yield made
    chunks.close(made.run_id)


@pytest.fixture
def only_when_asked():
    """No collection but those that the processor asks for, which it measures itself."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.filterwarnings("ignore")
def test_garbage_is_the_cpu_time_of_the_thread_that_collects(settings, only_when_asked):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        run = processor.Runner(
            executor=processor.FuturesExecutor(pool=pool, workers=2, status=False),
            schema=NanoAODSchema,
            savemetrics=True,
            chunksize=20,
            checkpointer=ChunkHook(settings),
        )
        run({"dy": {"files": {str(SAMPLE): "Events"}}}, processor_instance=Littering())
    (stream,) = spool_reader.read(settings.spool_dir())
    rows = stream.chunks().set_index("entry_start")
    assert rows.thread.nunique() == 2 and set(rows.status) == {"ok"}
    assert measured_s[0] > 0.01
    assert rows.gc_s[0] == pytest.approx(measured_s[0], rel=0.05, abs=0.002)
    assert rows.gc_s[0] <= rows.cpu_s[0] < rows.wall_s[0] + rows.open_s[0] - 0.9 * SLEEP_S
    assert rows.gc_s[20] == 0 and rows.wall_s[20] > SLEEP_S


def test_callbacks_that_the_analysis_removes_are_not_missed(tmp_path):
    """As a library does that clears them all."""
    before = list(gc.callbacks)

    def clears(events):
        gc.callbacks.clear()
        return {"n": len(events)}

    executor = processor.IterativeExecutor(status=False)
    run = processor.Runner(executor, schema=hook_support.BaseSchema)
    with crema.MetricsCollector(output=tmp_path, quiet=True) as mc:
        run(hook_support.make_files(tmp_path, 1), clears, treename="Events")
    gc.callbacks[:] = before
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])


FRAMES = """
import gc, sys, threading, time
from crema.hook._process import garbage

def leaf(n):
    return [n] if n == 0 else leaf(n - 1)

def until_the_end(call, *args):
    while time.monotonic() < end:
        call(*args)

garbage.start()
sys.setswitchinterval(1e-6)
gc.set_threshold(3)
end = time.monotonic() + 3
threads = [threading.Thread(target=until_the_end, args=(leaf, 5)) for _ in range(2)]
threads += [threading.Thread(target=until_the_end, args=(lambda: sys._current_frames(),)) for _ in range(2)]
for each in threads:
    each.start()
for each in threads:
    each.join()
gc.disable()
sys._current_frames()
assert not gc.isenabled()
gc.enable()
assert threading.get_ident() in sys._current_frames()
assert gc.isenabled()
garbage.stop()
gc.disable()
gc.collect()
assert sys._current_frames()[threading.get_ident()] is sys._getframe()
assert gc.collect() == 0, "frames that are let go are freed at once, with what they hold"
"""


def test_garbage_clock_stops_no_thread_while_others_take_all_frames():
    """Dask's profiler takes them a hundred times per second: python/cpython#106883."""
    subprocess.run([sys.executable, "-c", FRAMES], check=True, timeout=60)
