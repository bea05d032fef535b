"""What the threads of chunks waited for, as the looks at them found it; every wait is planted."""

from __future__ import annotations

import gc
import itertools
import os
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import crema
import hook_support as support
import spool_reader
from children import Fork
from crema.hook import _kernel, _looking, _recorder, _stacks, _waits
from crema.hook.chunks import ChunkHook
from waiting import wait_for

META = {
    "dataset": "ds",
    "filename": "root://user@server.example:1094//x.root?token=secret",
    "fileuuid": "u",
    "treename": "Events",
    "entrystart": 0,
    "entrystop": 1,
}
BLOCKED = [f"{_looking.STATES[state]}_s" for state in _waits.BLOCKED]

pytestmark = pytest.mark.skipif(bool(_kernel.why_not()), reason=_kernel.why_not())


class Recorded:
    """Chunks that were recorded here, and what the looks found."""

    def __init__(self, directory) -> None:
        self.settings = support.config(directory, start_agent=False)
        self.hook = ChunkHook(self.settings)
        self.n = 0

    def chunk(self, work, **meta) -> None:
        self.n += 1
        meta = META | {"entrystart": self.n} | meta
        self.hook.load(meta, None)
        work()
        self.hook.save({}, meta, None)

    def close(self) -> None:
        _recorder.close_process(self.settings.run_id)
        [self.stream] = spool_reader.read(self.settings.spool_dir())

    def chunks(self):
        return self.stream.chunks()

    def looks(self):
        """Seconds by state, place, section and line, with the lines of the callers."""
        rows = self.stream.table("looks")
        key = ["state", "place", "section", "stack_id"]
        rows = rows.groupby(key, dropna=False)["total_s"].max().reset_index()
        rows["lines"] = [self.lines(number) for number in rows.stack_id]
        return rows

    def lines(self, number: int) -> list[tuple[str, int]]:
        found = []
        while number >= 0:
            node = self.stream.names["stack", number]
            frame = self.stream.names["frame", node.frame]
            found.append((frame.text, frame.line))
            number = -1 if node.outermost else node.parent
        return found

    def share(self, state: str, row: int = -1) -> float:
        """Of the time for which a chunk's thread was blocked."""
        chunk = self.chunks().iloc[row]
        return chunk[f"{state}_s"] / chunk[BLOCKED].sum()


@pytest.fixture
def recorded(tmp_path):
    made = Recorded(tmp_path)
    yield made
    _recorder.close_process(made.settings.run_id)


@pytest.fixture
def slow_server():
    """Answers each message after 0.1 s."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        while connection.recv(1):
            time.sleep(0.1)
            connection.sendall(b"x")

    server = Fork(serve)
    yield listener.getsockname()
    listener.close()
    server.end()


def line_here() -> int:
    return sys._getframe(1).f_lineno


def test_a_wait_for_a_service_names_section_peer_and_line(recorded, slow_server):
    where = []

    def ask() -> None:
        with socket.create_connection(slow_server) as peer, crema.track_time("inference"):
            for _ in range(5):
                peer.sendall(b"x")
                where[:] = [line_here() + 1]
                peer.recv(1)

    recorded.chunk(ask)
    recorded.close()
    assert recorded.share("service") > 0.7
    looks = recorded.looks()
    most = looks.loc[looks.total_s.idxmax()]
    assert (most.state, most.section) == ("service", "inference")
    assert most.place == f"{slow_server[0]}:{slow_server[1]}"
    assert most.lines[0] == (__file__, where[0])


def test_code_that_is_made_anew_for_each_task_is_not_kept(monkeypatch):
    """As functions that travel by value are: the same lines in other code objects."""
    monkeypatch.setattr(_stacks, "_CODES_MAX", 50)
    stacks, found, sizes = _stacks.Stacks(), set(), set()
    for _ in range(200):
        made: dict = {"sys": sys}
        exec(compile("def task():\n    return sys._getframe()", "task.py", "exec"), made)
        found.add(stacks.of(made["task"]()))
        sizes.add(len(stacks._known.codes))
    assert max(sizes) < 60
    (stack,) = found
    assert (stack.frame.file, stack.frame.line) == ("task.py", 2)


def test_the_sampler_goes_with_the_last_stream(recorded):
    recorded.chunk(lambda: time.sleep(0.1))
    assert _looking._sampler is not None
    recorded.close()
    assert _looking._sampler is None


def test_long_garbage_collections_are_counted_at_the_line_in_which_they_began(recorded):
    where = []

    def work() -> None:
        kept = [[n] for n in range(200_000)]
        for _ in range(10):
            where[:] = [line_here() + 1]
            gc.collect()
        del kept

    recorded.chunk(work)
    recorded.chunk(lambda: None)
    recorded.close()
    totals = recorded.stream.table("looks").groupby("stack_id")["total_gc_s"].max()
    lines = {recorded.lines(number)[0]: s for number, s in totals.items() if s > 0}
    chunk = recorded.chunks().iloc[0]
    assert max(lines, key=lines.get) == (__file__, where[0])
    assert 0.5 * chunk.gc_s < lines[__file__, where[0]] <= sum(lines.values())
    # Shorter ones, below a millisecond each, have no line.
    assert sum(lines.values()) <= 1.001 * chunk.gc_s


@pytest.mark.timing
def test_states_of_a_chunk_are_disjoint_and_are_all_of_its_time(recorded):
    def work() -> None:
        support.spin(0.2)
        time.sleep(0.8)
        with crema.track_time("inner"):
            time.sleep(0.8)  # the first looks are dear, and few

    recorded.chunk(work)
    recorded.chunk(lambda: None)
    recorded.close()
    rows = recorded.chunks()
    whole = rows[["cpu_s", "cpu_wait_s", *BLOCKED]].sum(axis=1)
    np.testing.assert_allclose(whole, rows.wall_s + rows.open_s.fillna(0), rtol=0.01, atol=1e-3)
    assert 1.2 < rows.iloc[0].sleep_s < 1.8
    looks = recorded.looks()
    np.testing.assert_allclose(looks.total_s.sum(), whole.sum(), rtol=0.01)
    inner = looks[(looks.section == "inner") & (looks.state == "sleep")]
    assert 0.4 < inner.total_s.sum() < 1.2


@pytest.mark.timing
def test_a_thread_that_waits_for_helpers_takes_their_state(recorded):
    def work() -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(support.spin, 0.4).result()

    recorded.chunk(work)
    recorded.close()
    assert recorded.share("native") > 0.6
    assert recorded.chunks().iloc[0].helper_cpu_s > 0.1


@pytest.mark.timing
def test_a_thread_that_waits_for_another_chunks_thread_waits_for_a_lock(recorded):
    lock = threading.Lock()

    def work() -> None:
        with lock:
            time.sleep(0.4)

    threads = [threading.Thread(target=recorded.chunk, args=(work,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorded.close()
    rows = recorded.chunks()
    assert 0.25 < rows.lock_s.max() < 0.6
    assert 0.3 < rows.sleep_s.min() < 0.6


@pytest.mark.timing
def test_a_thread_that_waits_for_a_child_names_it(recorded):
    code = "import time\nuntil = time.process_time() + 0.4\nwhile time.process_time() < until: pass"
    recorded.chunk(lambda: subprocess.run([sys.executable, "-c", code], capture_output=True))
    recorded.close()
    assert recorded.share("child") > 0.6
    assert recorded.chunks().iloc[0].child_cpu_s > 0.05
    looks = recorded.looks()
    assert "python" in looks[looks.state == "child"].place.iloc[0]


@pytest.mark.timing
def test_a_full_pipe_without_a_child_is_a_file(recorded):
    read, write = os.pipe()

    def slow_reader() -> None:
        for _ in range(4):
            time.sleep(0.1)
            os.read(read, 1 << 16)

    reader = threading.Thread(target=slow_reader)

    def work() -> None:
        reader.start()
        os.write(write, bytes(5 << 16))

    recorded.chunk(work)
    reader.join()
    recorded.close()
    os.close(read)
    os.close(write)
    assert recorded.share("file") > 0.6
    assert "pipe" in set(recorded.looks().place)


def test_the_server_of_a_file_is_host_and_port_or_the_mount_point():
    assert _waits.server_of(META["filename"]) == "server.example:1094"
    assert _waits.server_of("simplecache::https://a.example/b.root?sig=secret") == "a.example"
    assert _waits.server_of("/proc/self/x.root") == "/proc"
    assert _waits.server_of("http://[::1]:80/x") == "[::1]:80"


def test_stacks_beyond_the_limit_are_their_outer_frames(monkeypatch):
    monkeypatch.setattr(_stacks, "STACKS_MAX", 3)
    stacks = _stacks.Stacks()

    def deep(n: int):
        return deep(n - 1) if n else stacks.of(sys._getframe())

    first = deep(6)
    assert len(list(first.outwards())) == 3 and stacks.folded == 1
    assert deep(7) is not None and stacks.folded > 1


def test_the_gil_is_found_by_trying_and_nothing_is_recorded_where_looks_are_off(tmp_path):
    assert any(_kernel.find_gil() for _ in range(5))
    off = Recorded(tmp_path)
    off.settings = support.config(tmp_path, start_agent=False, look_interval_s=0)
    off.hook = ChunkHook(off.settings)
    off.chunk(lambda: time.sleep(0.1))
    off.close()
    assert off.chunks().sleep_s.isna().all() and len(off.stream.table("looks")) == 0


def test_a_stream_that_ends_while_its_tasks_are_looked_at_loses_nothing(recorded):
    """As on a worker that is retired: the thread that looks may be in the middle of a look."""
    recorder, switched_s = _recorder.process_recorder(recorded.settings), sys.getswitchinterval()
    looks = _looking.Looks(recorder, None, _stacks.Stacks())

    def look() -> None:
        for n in range(20000):
            where = _waits.SLEEP, "", None
            looks.take_other(f"task-{n % 64}", (1000, 500, 0), 0.5, where)

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(1) as pool:
            looking = pool.submit(look)
            while not looking.done():
                recorder.guarded(_looking.stop, looks)
            looking.result()
    finally:
        sys.setswitchinterval(switched_s)
    assert recorder.stream.dropped == 0


@pytest.mark.parametrize("failing", [1, 1000], ids=["one look", "all looks"])
def test_a_look_that_fails_costs_itself_alone(recorded, monkeypatch, failing):
    find, calls = _waits.Finder.find, itertools.count(1)
    failed = threading.Event()

    def fail(*args):
        if next(calls) <= failing:
            raise KeyError("as long as that")
        failed.set()
        find(*args)

    monkeypatch.setattr(_waits.Finder, "find", fail)
    recorder = _recorder.process_recorder(recorded.settings)
    over = failed.is_set if failing == 1 else lambda: "looks" in recorder._unavailable
    recorded.chunk(lambda: wait_for(over, 20, "the looks after that"))
    recorded.close()
    custom = recorded.stream.table("custom")
    sums = custom.groupby("metric_id").value.sum()
    names = (recorded.stream.names["metric", number].text for number in sums.index)
    counts = {name.rpartition(" test_")[0] or name: n for name, n in zip(names, sums, strict=True)}
    gives_up = "crema.unavailable.looks" in counts
    assert gives_up == (failing > 1)
    assert counts["crema.failed.a look at threads: KeyError"] == min(failing, 10 if gives_up else 1)
    assert recorded.stream.end.dropped == recorder.stream.dropped == 0
    assert recorded.chunks().status.tolist() == ["ok"]


def test_a_stream_ends_after_what_its_sampler_is_writing(recorded, monkeypatch):
    recorded.chunk(lambda: time.sleep(0.3))
    recorder = _recorder.process_recorder(recorded.settings)
    looks, write = recorder.looks, recorder.stream.rows
    in_the_middle, go_on = threading.Event(), threading.Event()

    def halting(table, rows, flags=0):
        if table is _looking.LOOKS and threading.current_thread() is sampler:
            in_the_middle.set()
            assert go_on.wait(20)
        return write(table, rows, flags)

    monkeypatch.setattr(recorder.stream, "rows", halting)
    looks._flushed = time.monotonic()  # the real sampler writes nothing for two seconds
    looks._changed = dict(looks._totals)
    sampler = threading.Thread(target=looks.flush, kwargs={"last": True})
    sampler.start()
    assert in_the_middle.wait(20)
    ending = threading.Thread(target=recorded.close)
    ending.start()
    ending.join(1)  # it must not end before the other has written
    go_on.set()
    sampler.join()
    ending.join()
    assert recorded.stream.end is not None
    assert recorded.looks().total_s.sum() > 0.25


def test_a_cut_while_those_before_it_are_settled_is_kept(recorded, monkeypatch):
    """The thread of a chunk goes on while the one that looks divides its pieces."""
    recorder = _recorder.process_recorder(recorded.settings)
    looks, phase = _looking.Looks(recorder, None, _stacks.Stacks()), _looking.PROCESS
    watch = looks.begin((0, 0, 0), phase, {"task_prefix_id": 0, "dataset_id": 0}, "")
    watch.cut((10, 1, 0), phase, "first")
    watch.cut((20, 2, 0), phase, "second")
    take = looks._take_collections

    def cut_meanwhile(settled) -> None:
        watch.cut((30, 3, 0), phase, "third")
        take(settled)

    monkeypatch.setattr(looks, "_take_collections", cut_meanwhile)
    looks._settle_marks(watch)
    assert watch.last == (20, 2, 0)
    assert watch.marks == [(30, 3, 0, phase, "second")] and watch.section == "third"


def test_two_runs_on_one_worker_have_the_same_times_of_a_task(recorded):
    recorder, done = _recorder.process_recorder(recorded.settings), threading.Event()

    def work() -> None:
        while not done.wait(0.002):
            sum(range(20_000))

    thread = threading.Thread(target=work)
    thread.start()
    both = [_looking.start(recorder, 60.0, lambda: {thread.ident: "task"}) for _ in range(2)]
    try:
        sampler = _looking._sampler
        wait_for(lambda: sampler._finder is not None, what="the sampler's thread")
        for _ in range(10):
            time.sleep(0.02)
            sampler._look()
        first, second = (looks._others["task"] for looks in both)
    finally:
        done.set()
        thread.join()
        for looks in both:
            _looking.stop(looks)
    assert 0 < first.cpu_ns < first.wall_ns
    assert (first.cpu_ns, first.wait_ns) == (second.cpu_ns, second.wait_ns)


def test_a_thread_with_the_number_of_one_that_has_ended_is_looked_at(recorded):
    """Python's number of a thread is an address, which is used again; the kernel's number is kept by it."""
    recorder, done = _recorder.process_recorder(recorded.settings), threading.Event()
    ended, thread = threading.Thread(target=int), threading.Thread(target=done.wait)
    ended.start()
    ended.join()
    thread.start()
    looks = _looking.start(recorder, 60.0, lambda: {thread.ident: "task"})
    try:
        sampler = _looking._sampler
        wait_for(lambda: sampler._finder is not None, what="the sampler's thread")
        sampler._finder._native_ids[thread.ident] = ended.native_id
        for _ in range(2):
            sampler._look()
        assert "task" in looks._others
    finally:
        done.set()
        thread.join()
        _looking.stop(looks)


@pytest.mark.parametrize(("cpu_ns", "shares"), [((300, 100), (0.75, 0.25)), ((0, -1), (0.5, 0.5))])
def test_a_thread_that_two_runs_record_holds_the_gil_once(cpu_ns, shares):
    seen = [
        _waits.Seen(None, None, thread, None, "", [], used_ns, -1)
        for _ in range(2)
        for thread, used_ns in enumerate(cpu_ns)
    ]
    _waits._share_gil(seen)
    assert [look.running for look in seen] == [*shares, *shares]


@pytest.mark.timing
def test_a_look_reads_one_file_for_each_thread_and_so_does_a_cut(recorded, monkeypatch):
    """What a look costs, counted: it is the same on any machine."""
    threads = [
        threading.Thread(target=recorded.chunk, args=(lambda: time.sleep(0.6),)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    sampler, reads = _looking._sampler, []
    sampler.interval_s = 60.0  # it is in our hands now
    time.sleep(0.1)
    read, here = _kernel.File.read, threading.get_ident()

    def counted(self, offset=0):
        if threading.get_ident() == here:  # chunks that end read too
            reads.append(1)
        return read(self, offset)

    monkeypatch.setattr(_kernel.File, "read", counted)
    for _ in range(5):
        reads.clear()
        sampler._look()
    assert len(reads) == 4
    reads.clear()
    _kernel.OwnWait().ns()
    assert len(reads) == 1
    for thread in threads:
        thread.join()


def test_a_child_of_a_process_that_looks_starts_without_looks(recorded):
    def must_not_look() -> None:
        assert _looking._sampler is None

    def work() -> None:
        time.sleep(0.1)
        assert Fork(must_not_look).wait() == 0

    recorded.chunk(work)
