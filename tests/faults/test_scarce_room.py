"""More runs than a sink has room for: which of them gives way, what that costs, and what stays as it was."""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import time
import uuid

import h5py
import pytest

from crema.collect import _client
from facility_kit import state_of
from kept_records import Pipeline
from losses import nothing_lost_or_twice
from service_kit import RECORD_DICT, RECORD_END, RECORD_STREAM, field, record, sint
from waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(290)]

LIVE_FILES = 64
MANY = ("--runs-per-client", "1000")
LOST = {"state": 4, "name": "lost"}  # a worker that was there and recorded nothing: PARTIAL


def path_of(run_id: bytes, end: str = "") -> str:
    return f"{uuid.UUID(bytes=run_id)}{end}"


class Runs:
    """Runs of one client, each with one stream that lies in the spool from its beginning to its end."""

    def __init__(self, pipeline: Pipeline):
        self.pipeline, self.listed = pipeline, {}
        self.client = _client.AggregatorClient(pipeline.endpoint, None)

    def open(self, names: int = 2, name_b: int = 10) -> bytes:
        """A new run whose worker recorded so many names of that length."""
        run_id = os.urandom(16)
        opening = {"run_id": run_id, "t_start_ns": time.time_ns()}
        state_of(self.client, _client.RUN_OPEN, lambda state: state.phase >= 1, **opening)
        stream_id = uuid.uuid4()
        info = field(1, run_id) + field(3, b"host") + field(4, 7) + field(5, b"w")
        info += field(6, b"tcp://w") + field(7, 1)
        info += sint(9, time.time_ns()) + sint(10, time.monotonic_ns())
        frames = [record(1, RECORD_STREAM, info)]
        for seq in range(2, names + 2):
            text = os.urandom(name_b // 2).hex().encode()
            entry = field(1, 2) + field(2, seq - 2) + field(3, text)
            frames.append(record(seq, RECORD_DICT, field(1, entry)))
        frames.append(record(names + 2, RECORD_END, b""))
        spool = self.pipeline.spools[0]
        (spool / ".part").write_bytes(b"".join(frames))
        (spool / ".part").rename(spool / f"sp-{stream_id.hex}-{1:016x}")
        self.listed[run_id] = {
            "stream_id": stream_id.bytes, "last": names + 2, "kind": 0, "state": 1, "name": "w",
        }  # fmt: skip
        return run_id

    def must_deliver(self, run_id: bytes, timeout_s: float = 60):
        last = self.listed[run_id]["last"]
        state_of(
            self.client, _client.RUN_QUERY, lambda state: state.committed >= last, timeout_s,
            run_id=run_id,
        )  # fmt: skip

    def say_end(self, run_id: bytes, lacks: bool) -> dict:
        writers = [self.listed[run_id], LOST] if lacks else [self.listed[run_id]]
        listing = {"run_id": run_id, "part": 0, "parts": 1, "writers": writers}
        ending = {"run_id": run_id, "t_end_ns": time.time_ns(), "writer_parts": 1}
        self.client.send(_client.RUN_WRITERS, **listing)
        self.client.send(_client.RUN_END, **ending)
        return ending

    def seal(self, run_id: bytes, lacks: bool = False, timeout_s: float = 60):
        """Its state once it has its file; `lacks`: with the verdict PARTIAL."""
        ending = self.say_end(run_id, lacks)
        return state_of(
            self.client, _client.RUN_END, lambda state: state.phase >= _client.SEALED, timeout_s,
            **ending,
        )  # fmt: skip

    def left(self) -> list[bytes]:
        """Runs whose journals are there, the one that was opened first first."""
        return [
            run_id for run_id in self.listed if (self.pipeline.store / path_of(run_id)).is_dir()
        ]


@contextlib.contextmanager
def runs_of(pipeline: Pipeline):
    runs = Runs(pipeline)
    with contextlib.closing(runs.client):
        yield runs


def live(pipeline: Pipeline) -> set[str]:
    return {path.name.removesuffix(".live.h5") for path in pipeline.output.glob("*.live.h5")}


def sink_log(pipeline: Pipeline) -> str:
    return (pipeline.log / "sink.log").read_text()


def must_hold(path: pathlib.Path, records: int) -> None:
    """The file has each record of the one stream, once, and nothing is missing."""
    with h5py.File(path) as file:
        (row,) = file["summary/completeness"][:]
        assert (row["expected"], row["received"], row["lost"]) == (records, records, 0)
        assert len(file["gaps"]) == 0


def must_be_sound(pipeline: Pipeline, *paths) -> None:
    checked = subprocess.run(
        [pipeline.bin("crema-sink"), "check", *paths], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


# ---------------------------------------------------------------- live files


def test_runs_beyond_the_live_files_have_none_and_their_sealed_files_have_all(pipelines):
    """Promised: there are 64 live files; beyond that a run has none, and its sealed file has all the same (limits.md). A live file is
    removed after sealing (run-file.md)."""
    pipeline = pipelines(live=True, aggregator_options=MANY)
    with runs_of(pipeline) as runs:
        ids = [runs.open() for _ in range(LIVE_FILES + 16)]
        for run_id in ids:
            runs.must_deliver(run_id)
        wait_for(lambda: len(live(pipeline)) >= LIVE_FILES, 60, "live files")
        first = live(pipeline)
        assert len(first) == LIVE_FILES
        states = [runs.seal(run_id) for run_id in reversed(ids)]  # those without one first
        for run_id, state in zip(reversed(ids), states, strict=True):
            assert state.verdict == "COMPLETE", state.reasons
            must_hold(pathlib.Path(state.path), runs.listed[run_id]["last"])
        wait_for(lambda: not live(pipeline), 30, "an end of the live files")
        must_be_sound(pipeline, *(state.path for state in states))


def test_a_run_that_could_not_be_sealed_makes_room_for_a_live_file(pipelines):
    """Promised: at the limit of 64 live files, one that could not be sealed makes room first (limits.md); its records stay in the
    journal, and the sink tries again by itself once the file can be made (troubleshooting.md, "The output's disk is full")."""
    pipeline = pipelines(live=True, aggregator_options=MANY)
    with runs_of(pipeline) as runs:
        ids = [runs.open() for _ in range(LIVE_FILES)]
        for run_id in ids:
            runs.must_deliver(run_id)
        wait_for(lambda: len(live(pipeline)) == LIVE_FILES, 60, "live files")
        stuck = ids[LIVE_FILES // 2]
        obstacle = pipeline.output / path_of(stuck, ".h5")
        (obstacle / "in the way").mkdir(parents=True)
        ending = runs.say_end(stuck, lacks=False)
        wait_for(lambda: "event=seal_failed" in sink_log(pipeline), 60, "a failure to seal")
        late = runs.open()
        runs.must_deliver(late)
        wait_for(lambda: path_of(late) in live(pipeline), 30, "a live file of the late run")
        assert live(pipeline) == {path_of(run_id) for run_id in [*ids, late] if run_id != stuck}
        (obstacle / "in the way").rmdir()
        obstacle.rmdir()
        state = state_of(
            runs.client, _client.RUN_END, lambda state: state.phase == _client.SEALED, 120, **ending
        )
        assert state.verdict == "COMPLETE", state.reasons
        must_hold(obstacle, runs.listed[stuck]["last"])
        must_be_sound(pipeline, obstacle)


# ---------------------------------------------------------------- journals


def journals_b(pipeline: Pipeline) -> int:
    total = 0
    for directory, _, names in os.walk(pipeline.store):
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # it gives way
                path = pathlib.Path(directory) / name
                total += path.stat().st_size if path.suffix == ".journal" else 0
    return total


def rests(pipeline: Pipeline, run_id: bytes) -> bool:
    """A segment with a checkpoint alone follows what was recorded."""
    return (pipeline.store / path_of(run_id) / "000002.journal").exists()


def went_first(left: list[bool], slack: int) -> bool:
    """Those that are not left are the first ones; two runs that were sealed at once may have changed places."""
    gone = [i for i, is_left in enumerate(left) if not is_left]
    return not gone or gone[-1] - len(gone) + 1 <= slack


def test_partial_runs_give_way_after_all_complete_ones(pipelines):
    """Promised: when `--journal-limit` is nearly full, journals of sealed runs give way: those whose file is COMPLETE first, the oldest
    of them first; after a start 256 verdicts are read per look. A PARTIAL one only while records would be refused, and the log says so
    (`partial_journal_gives_way`). The run files are not touched (troubleshooting.md, "Sealed runs fill the disk"). Here the first 256
    are PARTIAL, and the sink starts when all are at rest."""
    n_partial, n_complete = 270, 20
    pipeline = pipelines(aggregator_options=MANY)
    with runs_of(pipeline) as runs:
        states = {}
        for lacks, count, names in ((True, n_partial, 1), (False, n_complete, 8)):
            ids = [runs.open(names, 30_000) for _ in range(count)]
            for run_id in ids:
                runs.must_deliver(run_id)
            for run_id in ids if lacks else ():  # several at once: it is a matter of a minute
                runs.say_end(run_id, lacks)
            for run_id in ids:
                states[run_id] = runs.seal(run_id, lacks)
                assert states[run_id].verdict == ("PARTIAL" if lacks else "COMPLETE")
        wait_for(lambda: all(rests(pipeline, run_id) for run_id in states), 60, "rest", 0.2)
        paths = {run_id: pathlib.Path(states[run_id].path) for run_id in states}
        in_order = sorted(paths, key=lambda run_id: paths[run_id].stat().st_mtime_ns)
        partial, complete = in_order[:n_partial], in_order[n_partial:]
        assert {states[run_id].verdict for run_id in partial} == {"PARTIAL"}
        full_b = journals_b(pipeline) + 500_000  # from here on records are refused
        pipeline.sink.kill(restart=False)
        limit = str(int(full_b / 0.95))
        pipeline.sink.command = list(map(str, pipeline.sink_command("--journal-limit", limit)))
        pipeline.sink.start()

        def left(some: list[bytes]) -> list[bool]:
            return [(pipeline.store / path_of(run_id)).is_dir() for run_id in some]

        def brought_in(names: int) -> bytes:
            """A run that goes on; the journals give way until there is room again."""
            run_id = runs.open(names, 60_000)
            runs.must_deliver(run_id, 120)
            wait_for(lambda: journals_b(pipeline) <= full_b + 20_000, 60, "room", 0.1)
            print(
                f"{left(complete).count(False)} complete and {left(partial).count(False)} partial runs"
                f" gave way, {full_b - journals_b(pipeline)} B are free"
            )
            return run_id

        going_on = [brought_in(60)]  # 3.6 MB of the complete ones' 4.8
        assert all(left(partial)), "a PARTIAL one gave way while there were complete ones"
        assert "partial_journal_gives_way" not in sink_log(pipeline)
        assert went_first(left(complete), 0), "the oldest complete ones did not go first"
        assert not all(left(complete))
        going_on.append(brought_in(36))  # 2.2 MB
        assert not any(left(complete)), "complete ones were left"
        assert went_first(left(partial), 4), "the oldest partial ones did not go first"
        assert "partial_journal_gives_way" in sink_log(pipeline)
        assert left(partial).count(False) < 40, "more gave way than was needed"
        for run_id in going_on:
            state = runs.seal(run_id)
            assert state.verdict == "COMPLETE", state.reasons
            must_hold(pathlib.Path(state.path), runs.listed[run_id]["last"])
        must_be_sound(pipeline, *paths.values())


def test_oldest_runs_leave_a_store_that_keeps_a_size(pipelines):
    """Promised: `--retain-bytes` keeps the journals of sealed runs up to a size, and frees the oldest first (`--help`), whatever the
    verdict; runs in progress are not sealed and stay; what was freed is known by its id (storage.md)."""
    pipeline = pipelines(sink_options=("--retain-bytes", "9M"), aggregator_options=MANY)
    with runs_of(pipeline) as runs:
        going_on = runs.open(60, 60_000)
        runs.must_deliver(going_on)
        ids = []
        for lacks in (False, True, False, True):
            ids.append(runs.open(60, 60_000))  # 3.6 MB
            runs.must_deliver(ids[-1])
            assert runs.seal(ids[-1], lacks).verdict == ("PARTIAL" if lacks else "COMPLETE")
        wait_for(lambda: len(runs.left()) <= 3, 60, "journals that were freed")
        assert runs.left() == [going_on, *ids[2:]]
        listed = subprocess.run(
            [pipeline.bin("crema-sink"), "store", pipeline.store], capture_output=True, text=True
        ).stdout
        for run_id in ids[:2]:
            (line,) = [line for line in listed.splitlines() if path_of(run_id) in line]
            assert "freed" in line
        with nothing_lost_or_twice():
            assert runs.seal(going_on).verdict == "COMPLETE"
