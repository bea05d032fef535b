"""What the writer of a spool promises."""

from __future__ import annotations

import errno
import itertools
import os
import subprocess
import sys
import threading
import time

import pytest

import missing
import spool_reader
from children import Child, Fork
from crema.hook import _recorder, _records, _secrets, _spool
from crema.hook._config import HookConfig
from heartbeats import HEARTBEATS, INFO, beat


def read_one(directory) -> spool_reader.Stream:
    (stream,) = spool_reader.read(directory)
    return stream


def fail(*args):
    raise OSError(errno.EIO, "no")


def test_records_that_are_written_are_read(tmp_path):
    writer = _spool.StreamWriter(tmp_path, INFO)
    assert writer.append(_records.BATCH, beat(7))
    stream = read_one(tmp_path)
    assert stream.locked and stream.end is None
    assert stream.stream_id == writer.stream_id.hex()
    assert stream.info.host == "h"
    assert stream.table("heartbeats").sent.tolist() == [7]
    writer.close()
    writer.close()
    stream = read_one(tmp_path)
    assert not stream.locked and stream.end.reason == 0
    assert not writer.append(_records.BATCH, beat(8))
    assert writer.dropped == 1
    assert len(read_one(tmp_path).frames) == 3


def test_rows_are_column_major_and_keep_their_values(tmp_path):
    writer = _spool.StreamWriter(tmp_path, INFO)
    rows = [HEARTBEATS.row(t_ns=i, sent=-i, interval_s=i / 2) for i in range(5)]
    writer.rows(HEARTBEATS, rows)
    got = read_one(tmp_path).table("heartbeats")
    assert got.t_ns.tolist() == list(range(5))
    assert got.sent.tolist() == [0, -1, -2, -3, -4]
    assert got.interval_s.tolist() == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert got.dropped.tolist() == [-1] * 5  # not known


@pytest.mark.parametrize("flags", [0, _records.PROVISIONAL])
@pytest.mark.parametrize("name", _records.TABLES)
def test_one_row_says_what_a_batch_of_it_says(name, flags):
    table = _records.TABLES[name]
    ints = itertools.cycle((-1, 0, 2**63 - 1, -(2**63), 4711))
    row = table.row(**{c: next(ints) for c in table.ints}, **dict.fromkeys(table.reals, 0.1))
    one, batch = (
        _records.MESSAGES["Batch"].FromString(body)
        for body in (table.one(row, flags), table.batch([row], flags))
    )
    assert (one.table, one.rows, one.flags) == (batch.table, batch.rows, batch.flags)
    assert (one.table, one.rows, one.flags) == (table.number, 1, flags)
    assert not one.ints and list(one.fixed_ints) == list(batch.ints) == list(row[0])
    assert list(one.reals) == list(batch.reals) == list(row[1])


def test_an_unknown_column_is_refused():
    with pytest.raises(KeyError):
        HEARTBEATS.row(sennt=1)


def test_many_rows_are_split_into_records_below_the_limit(tmp_path):
    writer = _spool.StreamWriter(tmp_path, INFO)
    rows = [HEARTBEATS.row(t_ns=2**62 + i, sent=2**62) for i in range(5000)]
    writer.rows(HEARTBEATS, rows)
    stream = read_one(tmp_path)
    assert max(len(f.body) for f in stream.frames) <= _records.BODY_BYTES_MAX
    assert max(batch.rows for _, batch in stream.batches) <= _records.ROWS_MAX
    assert stream.table("heartbeats").t_ns.tolist() == [2**62 + i for i in range(5000)]


def test_segments_follow_each_other(tmp_path, monkeypatch):
    monkeypatch.setattr(_spool, "SEGMENT_BYTES", 1000)
    writer = _spool.StreamWriter(tmp_path, INFO)
    for n in range(100):
        writer.append(_records.BATCH, beat(n))
    writer.close()
    stream = read_one(tmp_path)
    assert len(stream.paths) > 3
    assert all(path.stat().st_size <= 1000 for path in stream.paths)
    assert stream.table("heartbeats").sent.tolist() == list(range(100))
    assert not list(tmp_path.glob(".new-*"))


def test_names_travel_once_and_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(_spool, "NAMES_BYTES", 2 * _spool._NAME_BYTES + 3)
    writer = _spool.StreamWriter(tmp_path, INFO)
    activity, unit = _records.ACTIVITY, _records.UNIT
    assert [writer.name(activity, n) for n in "abca"] == [0, 1, 2, 0]
    assert [writer.name(activity, n) for n in "defa"] == [3, 3, 3, 0]
    assert writer.name(unit, "seconds") == 0
    assert writer.name(unit, "bytes") == 0  # the limit is that of all dictionaries together
    names = read_one(tmp_path).names
    assert names["unit", 0].text == _spool.OVERFLOW
    assert [names["activity", i].text for i in range(4)] == ["a", "b", "c", _spool.OVERFLOW]
    assert len(names) == 5


def test_limits_that_were_met_are_written_as_metrics(tmp_path):
    writer = _spool.StreamWriter(tmp_path, INFO)
    for _ in range(3):
        writer.limit_met("writer_arrivals")
    writer.write_counts()
    writer.write_counts()  # nothing is new
    writer.limit_met("writer_arrivals")
    writer.write_counts()
    stream = read_one(tmp_path)
    rows = stream.table("custom")
    assert rows.value.tolist() == [3.0, 1.0] and set(rows.kind) == {"increment"}
    assert stream.names["metric", 0].text == "crema.limit.writer_arrivals"


def test_a_limit_that_is_met_while_they_are_written_counts_once(tmp_path):
    writer = _spool.StreamWriter(tmp_path, INFO)
    writes = threading.Thread(target=writer.write_counts)

    class MetDuringAWrite(dict):
        def get(self, *key):
            value = super().get(*key)
            writes.start()
            writes.join(0.2)  # it waits for this thread, or it is over
            return value

    writer._met = MetDuringAWrite({"crema.limit.writer_stacks": 1})
    writer.limit_met("writer_stacks")
    writes.join()
    writer.write_counts()
    assert read_one(tmp_path).table("custom").value.sum() == 2


@pytest.mark.slow
def test_ten_thousand_workers_have_a_name_each(tmp_path):
    writer = _spool.StreamWriter(tmp_path, INFO)
    numbers = [writer.name(_records.WORKER, f"tcp://{n}", f"uuid-{n}") for n in range(15_000)]
    assert numbers == list(range(15_000))
    assert _spool.OVERFLOW not in {entry.text for entry in read_one(tmp_path).names.values()}


def test_long_names_stay_different(tmp_path):
    writer = _spool.StreamWriter(tmp_path, INFO)
    long = "é" * 1000
    assert writer.name(_records.FILE, long + "1") != writer.name(_records.FILE, long + "2")
    writer.name(_records.FILE, "a\0b\udcff")
    names = read_one(tmp_path).names
    texts = [names["file", i].text for i in range(3)]
    assert len(set(texts)) == 3
    assert all(len(t.encode()) <= _records.NAME_BYTES_MAX and "\0" not in t for t in texts)


def test_threads_share_a_stream(tmp_path):
    writer = _spool.StreamWriter(tmp_path, INFO)

    def work(base):
        for n in range(300):
            writer.append(_records.BATCH, beat(base + n))
            writer.name(_records.SPAN, f"s{n}")

    threads = [threading.Thread(target=work, args=(1000 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stream = read_one(tmp_path)
    assert sorted(stream.table("heartbeats").sent) == sorted(
        1000 * i + n for i in range(4) for n in range(300)
    )
    assert sum(kind == "span" for kind, _ in stream.names) == 300


def test_a_short_write_leaves_nothing(tmp_path, monkeypatch):
    writer = _spool.StreamWriter(tmp_path, INFO)
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[: len(data) // 2]))
    assert not writer.append(_records.BATCH, beat(1))
    monkeypatch.setattr(os, "write", real)
    assert writer.append(_records.BATCH, beat(2))
    stream = read_one(tmp_path)
    assert stream.table("heartbeats").sent.tolist() == [2] and not stream.torn_bytes
    writer.close()
    assert read_one(tmp_path).end.dropped == 1


def test_a_new_segment_begins_where_nothing_can_be_taken_back(tmp_path, monkeypatch):
    writer = _spool.StreamWriter(tmp_path, INFO)
    real = os.write

    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:10]))
    monkeypatch.setattr(os, "ftruncate", fail)
    assert not writer.append(_records.BATCH, beat(1))
    monkeypatch.setattr(os, "write", real)
    assert writer.append(_records.BATCH, beat(2))
    stream = read_one(tmp_path)
    assert len(stream.paths) == 2 and stream.torn_bytes == 10
    assert stream.table("heartbeats").sent.tolist() == [2]


def test_a_full_disk_is_counted_and_survived(tmp_path):
    """RLIMIT_FSIZE stands in for the disk: write() is cut short, then fails with EFBIG."""
    script = f"""
import pathlib, resource, signal, sys
sys.path[:0] = {sys.path!r}
from crema.hook import _records, _spool
from heartbeats import INFO, beat
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
writer = _spool.StreamWriter(pathlib.Path({str(tmp_path)!r}), INFO)
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
kept = sum(writer.append(_records.BATCH, beat(n)) for n in range(100))
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
assert writer.append(_records.BATCH, beat(1000))
writer.close()
print(kept, writer.dropped)
"""
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    kept, dropped = map(int, out.stdout.split())
    assert 0 < kept < 100 and kept + dropped == 100
    stream = read_one(tmp_path)
    assert stream.table("heartbeats").sent.tolist() == [*range(kept), 1000]
    assert stream.end.dropped == dropped and not stream.torn_bytes
    assert stream.end.dropped_disk_full == dropped


def test_the_cause_of_a_record_that_could_not_be_written_is_said_once_others_can(
    tmp_path, monkeypatch
):
    writer = _spool.StreamWriter(tmp_path, INFO)
    real = os.write

    monkeypatch.setattr(os, "write", fail)
    for n in range(3):
        assert not writer.append(_records.BATCH, beat(n))
        writer.write_counts()  # which would only fail, and count as another
    assert writer.dropped == 3
    monkeypatch.setattr(os, "write", real)
    assert writer.append(_records.BATCH, beat(3))
    writer.write_counts()
    writer.write_counts()  # nothing is new
    writer.close()
    stream = read_one(tmp_path)
    assert stream.names["metric", 0].text == "crema.dropped.EIO"
    assert stream.table("custom").value.tolist() == [3.0]
    assert (stream.end.dropped, stream.end.dropped_disk_full) == (3, 0)


def test_a_count_that_cannot_be_written_is_written_once_others_can(tmp_path, monkeypatch):
    writer = _spool.StreamWriter(tmp_path, INFO)
    real = os.write

    writer.lose("a cause")
    writer.limit_met("writer_arrivals")
    monkeypatch.setattr(os, "write", fail)
    writer.write_counts()
    monkeypatch.setattr(os, "write", real)
    writer.lose("a cause")
    assert writer.append(_records.BATCH, beat(1))
    writer.write_counts()
    writer.write_counts()  # nothing is new
    writer.close()
    stream = read_one(tmp_path)
    rows = stream.table("custom")
    assert len(rows) == 3
    counts = {stream.names["metric", row.metric_id].text: row.value for row in rows.itertuples()}
    assert counts.pop("crema.limit.writer_arrivals") == 1
    assert counts["crema.dropped.a cause"] == 2
    assert sum(counts.values()) == stream.end.dropped


def test_the_last_counts_are_tried_although_the_record_before_failed(tmp_path, monkeypatch):
    writer = _spool.StreamWriter(tmp_path, INFO)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda fd, data: len(data) - 1)  # a part of it
        assert not writer.append(_records.BATCH, beat(1))
    writer.write_counts()
    writer.write_counts(last=True)
    writer.close()
    stream = read_one(tmp_path)
    (row,) = stream.table("custom").itertuples()
    assert (row.value, stream.end.dropped) == (1, 1)


def test_counts_of_a_stream_that_cannot_be_written_any_more_drop_nothing(tmp_path):
    writer = _spool.StreamWriter(tmp_path, INFO)
    writer.close()
    writer.limit_met("writer_arrivals")
    for _ in range(3):
        writer.write_counts(last=True)
    assert writer.dropped == 0


@pytest.mark.skipif(os.geteuid() != 0, reason=missing.OTHER_USERS)
def test_files_of_another_user_take_no_room(tmp_path):
    for name in "01":
        path = tmp_path / f"sp-{name * 32}-{1:016x}"
        path.write_bytes(bytes(5000))
        os.chown(path, 4711, -1)
    assert _spool.held_bytes(tmp_path, 4711) == 10_000
    writer = _spool.StreamWriter(tmp_path, INFO, limit_bytes=8000)
    assert all(writer.append(_records.BATCH, beat(n)) for n in range(20))
    assert 0 < _spool.held_bytes(tmp_path, os.geteuid()) < 8000


def test_a_directory_that_cannot_be_listed_costs_no_record(tmp_path, monkeypatch):
    writer = _spool.StreamWriter(tmp_path, INFO)

    def fail(directory, owner):
        raise OSError(errno.EMFILE, "no descriptor is left")

    monkeypatch.setattr(_spool, "held_bytes", fail)
    assert all(writer.append(_records.BATCH, beat(n)) for n in range(1000))
    assert writer.dropped == 0


def test_the_limit_of_the_directory_drops_the_newest(tmp_path, monkeypatch):
    monkeypatch.setattr(_spool, "_LOOK_BYTES", 1000)
    monkeypatch.setattr(_spool, "_LOOK_S", 0.05)
    (tmp_path / f"sp-{'0' * 32}-{1:016x}").write_bytes(bytes(5000))
    writer = _spool.StreamWriter(tmp_path, INFO, limit_bytes=10_000)
    kept = sum(writer.append(_records.BATCH, beat(n)) for n in range(1000))
    assert 0 < kept < 1000 and writer.dropped == 1000 - kept
    assert _spool.held_bytes(tmp_path, os.geteuid()) <= 10_000
    (tmp_path / f"sp-{'0' * 32}-{1:016x}").unlink()  # the agent delivered it
    time.sleep(0.06)
    assert writer.append(_records.BATCH, beat(1000))
    writer.close()
    stream = read_one(tmp_path)
    assert stream.table("heartbeats").sent.tolist() == [*range(kept), 1000]
    assert stream.end.dropped == stream.end.dropped_spool_limit == 1000 - kept


def test_a_stream_that_opens_does_not_look_at_all_others(tmp_path, monkeypatch):
    """Where many workers of a host enter a run at once, that would take time with the square of their number."""
    looks: list[int] = []
    monkeypatch.setattr(_spool, "held_bytes", lambda directory, owner: looks.append(1) or 0)
    writer = _spool.StreamWriter(tmp_path, INFO)
    while writer.written_b < 15_000:
        writer.append(_records.BATCH, beat(1))
    assert not looks
    while writer.written_b < 17_000:
        writer.append(_records.BATCH, beat(1))
    assert looks == [1]


def test_a_spool_without_any_room_is_an_error_of_opening(tmp_path):
    (tmp_path / f"sp-{'0' * 32}-{1:016x}").write_bytes(bytes(5000))
    with pytest.raises(OSError, match="no room"):
        _spool.StreamWriter(tmp_path, INFO, limit_bytes=1000)


def test_an_interrupt_between_write_and_bookkeeping_loses_nothing(tmp_path, monkeypatch):
    writer = _spool.StreamWriter(tmp_path, INFO)
    real = os.write

    def interrupted(fd, data, size=None):
        real(fd, data[:size])
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        writer.append(_records.BATCH, beat(1))
    monkeypatch.setattr(os, "write", lambda fd, data: interrupted(fd, data, 20))
    with pytest.raises(KeyboardInterrupt):
        writer.append(_records.BATCH, beat(2))
    monkeypatch.setattr(os, "write", real)
    assert writer.append(_records.BATCH, beat(3))
    assert read_one(tmp_path).table("heartbeats").sent.tolist() == [1, 3]
    assert writer.dropped == 1


RECORDS_IN_A_HANDLER = """
import itertools, signal, sys
from crema.hook import _recorder, _records
from crema.hook._config import HookConfig

config = HookConfig("0" * 32, spool=sys.argv[1], start_agent=False)
recorder = _recorder.process_recorder(config)
handlers, sections = itertools.count(), itertools.count()
handled = 0

def handle(number, frame):
    global handled
    handled = n = next(handlers)  # this may be inside another one
    recorder.stream.row(_records.HEARTBEATS, _records.HEARTBEATS.row(sent=n))
    recorder.stream.name(_records.METRIC, f"metric {n}")

signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 1e-4, 1e-4)
while handled < 500 or not recorder.stream.dropped:
    recorder.stream.name(_records.SECTION, f"section {next(sections)}")
signal.setitimer(signal.ITIMER_REAL, 0)
recorder.close("error")
print(next(sections) + 2 * next(handlers), recorder.stream.dropped)
"""


def test_a_handler_that_records_within_a_record_does_not_wait_for_itself(tmp_path):
    """Python runs signal handlers, and finalizers of garbage, between any two instructions of a thread."""
    script = [sys.executable, "-c", RECORDS_IN_A_HANDLER, str(tmp_path)]
    ran = subprocess.run(script, capture_output=True, text=True, timeout=60, check=True)
    offered, dropped = map(int, ran.stdout.split())
    assert 0 < dropped < offered
    stream = read_one(tmp_path)
    # StreamInfo, the worker, END; what was dropped, with the names of metric and unit
    assert len(stream.frames) == 6 + offered - dropped
    assert stream.table("custom").value.tolist() == [dropped]
    assert "crema.dropped.interrupted" in {entry.text for entry in stream.names.values()}


def test_a_forked_child_leaves_the_stream_alone(tmp_path):
    writer = _spool.StreamWriter(tmp_path, INFO)
    ready, go = os.pipe()

    def look_and_stay() -> None:
        left_alone = not writer.alive and not writer.append(_records.BATCH, beat(666))
        os.write(go, b"y" if left_alone else b"n")
        time.sleep(60)

    Fork(look_and_stay)
    assert os.read(ready, 1) == b"y"
    assert writer.append(_records.BATCH, beat(1))
    writer.close()
    stream = read_one(tmp_path)
    assert stream.table("heartbeats").sent.tolist() == [1]
    assert not stream.locked, "the child holds the lock of its parent's stream"


def test_kill_leaves_every_record_whose_append_returned(tmp_path):
    script = f"""
import pathlib, sys
sys.path[:0] = {sys.path!r}
from crema.hook import _records, _spool
from heartbeats import INFO, beat
writer = _spool.StreamWriter(pathlib.Path({str(tmp_path)!r}), INFO)
n = 0
while True:
    writer.append(_records.BATCH, beat(n))
    sys.stdout.write(f"{{n}}\\n"); sys.stdout.flush()
    n += 1
"""
    process = Child([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    for _ in range(500):
        process.stdout.readline()
    process.kill()
    lines = process.stdout.read().split("\n")
    process.wait()
    last = int(lines[-2]) if len(lines) > 1 else 499
    stream = read_one(tmp_path)
    sent = stream.table("heartbeats").sent.tolist()
    assert sent == list(range(len(sent))) and len(sent) >= last + 1
    assert stream.end is None and not stream.locked


def test_hash_is_the_same_in_every_process():
    assert _records.hash64("dy", "f", "u", "Events", 0, 100) == _records.hash64(
        "dy", "f", "u", "Events", 0, 100
    )
    assert _records.hash64("ab", "c") != _records.hash64("a", "bc")
    code = "from crema.hook import _records; print(_records.hash64('key', 1))"
    env = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert int(out.stdout) == _records.hash64("key", 1)


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("", _spool.LIMIT_BYTES),
        ("4096", 4096),
        ("2M", 2_000_000),
        ("1.5Gi", 3 << 29),
        ("64 MiB", 64 << 20),
        ("-1", _spool.LIMIT_BYTES),
        ("plenty", _spool.LIMIT_BYTES),
    ],
)
def test_the_limit_is_read_from_the_environment(text, limit):
    assert _recorder.spool_limit_b(text) == limit


def test_names_without_their_secret_cannot_be_guessed_from_the_run(tmp_path):
    """Whoever has the run file knows the run's id, and may try passwords with it."""
    url = "root://alice:password1@host//file.root?authz=Bearer%20abc"
    keys = [HookConfig("0" * 32, name_key=key) for key in ("", "ab" * 16, "cd" * 16)]
    names = [_secrets.file_name(url, config.name_bytes) for config in keys]
    assert len(set(names)) == 3
    assert all(n.startswith("root://host//file.root~") for n in names)
    assert all(word not in n for n in names for word in ("alice", "password1", "Bearer", "abc"))


def test_children_that_record_by_themselves_name_a_file_as_their_parent_does():
    config = HookConfig("0" * 32, name_key="ab" * 16)
    _recorder.announce(config)
    try:
        (child,) = _recorder._announced_to_children()
    finally:
        _recorder.withdraw(config)
    assert child.name_bytes == config.name_bytes
