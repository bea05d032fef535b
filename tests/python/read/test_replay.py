"""The replay against schedules that are known by hand, and against a scheduler of its own that is simulated event by event."""

from __future__ import annotations

import dataclasses
import heapq
import math
import shutil

import h5py
import numpy as np
import pytest

from crema.read.replay import OversubscribedError, Recorded, Replay, ReplayError, _source
from crema.read.replay import replay as replay_of
from crema.read.scaling_report import what_if_lines
from crema.read.schedule import Chunks, schedule


def chunks(cpu_s, wait_s, n_events=1000, gap_s=0.0):
    cpu_s, wait_s = np.asarray(cpu_s, float), np.asarray(wait_s, float)
    n = len(cpu_s)
    return Chunks(
        cpu_s=cpu_s,
        wait_s=wait_s,
        open_s=np.zeros(n),
        gap_s=np.full(n, gap_s),
        n_events=np.broadcast_to(np.asarray(n_events, float), n).copy(),
        file=np.arange(n) % 4,
        dataset=np.zeros(n, int),
    )


def recorded(of, threads, *, wall_s=None, cores=math.nan, before_s=1.0, after_s=0.5):
    if wall_s is None:
        wall_s = before_s + after_s + (of.busy_s + of.gap_s.sum()) / threads
    return Recorded("made.h5", threads, wall_s, before_s, after_s, of, 0.0, cores, 0.0)


def replay(of, threads, **more):
    run = recorded(of, threads, **more)
    return Replay(run, (run,), math.inf)


def test_chunks_go_to_the_thread_that_is_free_first():
    of = replay(chunks([3, 1, 1, 1], [0] * 4), 1, cores=8)
    answer = of.what_if(threads=2)
    assert answer.wall_s == pytest.approx(1 + 3 + 0.5)
    assert answer.tail_s == pytest.approx(0)
    assert answer.replayed_wall_s == pytest.approx(of.base.wall_s) == pytest.approx(7.5)
    assert of.what_if(threads=4).wall_s == pytest.approx(1 + 3 + 0.5)
    assert of.what_if(threads=4).tail_s == pytest.approx(2)
    assert of.what_if(threads=4, tail=False).wall_s == pytest.approx(1 + 6 / 4 + 0.5)


def test_a_prediction_is_the_recorded_time_changed_as_the_replay_changes():
    """A replay of 7.5 s of a run of 6 s says nothing of 1.5 s more."""
    of = replay(chunks([3, 1, 1, 1], [0] * 4), 1, cores=8, wall_s=6.0)
    assert of.what_if().wall_s == pytest.approx(6.0)
    assert of.what_if(threads=2).wall_s == pytest.approx(6.0 * 4.5 / 7.5)
    assert "scaled by 0.80" in " ".join(what_if_lines(of.what_if(threads=2)))
    assert "(+0.00 s)" in " ".join(what_if_lines(of.what_if()))


def test_hosts_whose_cores_were_all_busy_have_none_for_more_threads():
    run = dataclasses.replace(recorded(chunks([1] * 8, [1] * 8), 2, cores=2), waited_s=6.0)
    of = Replay(run, (run,), math.inf)
    with pytest.raises(OversubscribedError, match=r"waited for a core in 32 % .* none for 4"):
        of.what_if(threads=4)
    assert "would again" in " ".join(of.what_if(threads=2).assumes)
    assert of.what_if(threads=4, cores=8).wall_s < run.wall_s


def of_workers(of, each):
    """The same, run by workers of Dask."""
    return dataclasses.replace(of, base=dataclasses.replace(of.base, each=each))


@pytest.mark.parametrize("source", [math.inf, 100.0])
@pytest.mark.parametrize(
    ("threads", "each", "wall_s", "tail_s"),
    [(2, 1, 4, 2), (2, 2, 3, 0), (2, 0, 3, 0), (1, 1, 6, 0)],
)
def test_chunks_that_a_worker_of_dask_holds_are_taken_by_no_other(
    source, threads, each, wall_s, tail_s
):
    """Of workers of one thread the second has nothing left at 2 s; the first holds a chunk that it cannot begin before 3 s."""
    of = chunks([0] * 4, [3, 1, 1, 1])
    found = schedule(of, threads, each=each, warm_s=0.0, source=source)
    assert found == (pytest.approx(wall_s), pytest.approx(tail_s))


@pytest.mark.parametrize(("threads", "least", "most"), [(4, 12, 12), (8, 6.3, 7), (16, 3.6, 4)])
def test_two_workers_and_more_need_another_round_more_often_than_not(threads, least, most):
    """48 chunks that are alike, on workers of four threads."""
    wait_s = 1 + 1e-3 * np.random.default_rng(3).random(48)
    of = of_workers(replay(chunks([0] * 48, wait_s), 4, cores=8), 4)
    assert least <= of.what_if(threads=threads).wall_s - 1.5 <= most + 0.02
    assert of_workers(of, 0).what_if(threads=threads).wall_s < 1.5 + 48 / threads + 0.02


def test_pauses_before_chunks_are_kept():
    of = replay(chunks([1] * 8, [0] * 8, gap_s=0.25), 1, cores=8)
    assert of.what_if(threads=4).wall_s == pytest.approx(1.5 + 2 * 1.25)


def test_faster_input_shortens_the_waiting_alone():
    of = replay(chunks([1] * 8, [3] * 8), 2, cores=2)
    assert of.what_if(input_speed=3).wall_s == pytest.approx(1.5 + 4 * 2)
    assert of.what_if(input_speed=0.5).wall_s == pytest.approx(1.5 + 4 * 7)


def test_more_threads_that_want_a_core_than_cores_is_oversubscribed():
    of = replay(chunks([1] * 64, [0.05] * 64), 1, cores=2)
    assert of.what_if(threads=2).wall_s > 0
    with pytest.raises(
        OversubscribedError, match=r"oversubscribed: 4 threads would want 3\.8 cores"
    ):
        of.what_if(threads=4)
    waits = replay(chunks([0.05] * 64, [1] * 64), 4, cores=2)
    assert waits.what_if(threads=16).cores_wanted == pytest.approx(16 * 0.05 / 1.05)
    assert "has none up to 16" in waits.what_if(threads=16).assumes[0]


def test_unknown_cores_are_asked_for():
    of = replay(chunks([1] * 8, [0] * 8), 1)
    with pytest.raises(ReplayError, match="does not say how many"):
        of.what_if(threads=2)
    assert of.what_if(threads=2, cores=2).wall_s == pytest.approx(1.5 + 4)
    assert of.what_if(threads=1).wall_s == pytest.approx(9.5)


@pytest.mark.parametrize(
    "wrong", [{"threads": 0}, {"input_speed": 0.0}, {"input_speed": math.nan}, {"chunk_size": 0}]
)
def test_questions_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ReplayError, match="at least 1"):
        replay(chunks([1], [1]), 1).what_if(**wrong)


@pytest.mark.parametrize("source", [math.inf, 100.0])
@pytest.mark.parametrize("each", [0, 1])
def test_threads_without_a_chunk_cost_nothing(source, each):
    of = of_workers(replay(chunks([3, 1], [0.1] * 2), 1, cores=8), each)
    of = dataclasses.replace(of, source=source)
    assert of.what_if(threads=3).tail_s == pytest.approx(3.1)
    assert of.what_if(threads=10**12) == dataclasses.replace(
        of.what_if(threads=3),
        threads=10**12,
        assumes=of.what_if(threads=10**12).assumes,
    )


def test_more_chunks_than_can_be_replayed_are_refused():
    of = replay(chunks([1] * 8, [0] * 8, [10**9] * 8), 1)
    with pytest.raises(ReplayError, match=r"8,000,000,000 chunks of 1 events: at most"):
        of.what_if(chunk_size=1)


def test_other_chunks_cost_what_the_recorded_ones_show():
    n = np.repeat([500, 1000, 1500, 2000], 10)
    of = replay(chunks(0.4 + 1e-3 * n, 0.1 + 0 * n, n), 1)
    answer = of.what_if(chunk_size=5000)
    assert answer.n_chunks == sum(max(1, round(n[file::4].sum() / 5000)) for file in range(4))
    busy = answer.n_chunks * 0.5 + 1e-3 * n.sum()
    assert answer.wall_s == pytest.approx(1.5 + busy, rel=0.01)
    alike = replay(chunks([1] * 10, [1] * 10, 1000), 1)
    assert any("too alike" in line for line in alike.what_if(chunk_size=500).assumes)


# ---------------------------------------------------------------- a source with a limit


def shared_source(of, threads, capacity):
    """Seconds of all chunks where `capacity` readers are served at full speed: every thread reads, then computes."""
    now, queue = 0.0, list(range(len(of.cpu_s)))[::-1]
    reading: dict[int, float] = {}
    computing: list[tuple[float, int]] = []
    for _ in range(min(threads, len(queue))):
        k = queue.pop()
        reading[k] = of.wait_s[k]
    done = 0
    while done < len(of.cpu_s):
        rate = min(1.0, capacity / len(reading)) if reading else 1.0
        read_at = now + min(reading.values()) / rate if reading else math.inf
        compute_at = computing[0][0] if computing else math.inf
        step = min(read_at, compute_at) - now
        for k in reading:
            reading[k] -= step * rate
        now += step
        if compute_at <= read_at:
            heapq.heappop(computing)
            done += 1
            if queue:
                k = queue.pop()
                reading[k] = of.wait_s[k]
        else:
            k = min(reading, key=reading.__getitem__)
            del reading[k]
            heapq.heappush(computing, (now + of.cpu_s[k], k))
    return now


def as_recorded(of, threads, capacity):
    """The run with its waiting stretched, as a file would have it."""
    seconds = shared_source(of, threads, capacity)
    wait_s = of.wait_s * max(1.0, (seconds * threads - of.cpu_s.sum()) / of.wait_s.sum() * 0.98)
    stretched = dataclasses.replace(of, wait_s=wait_s)
    return recorded(stretched, threads, wall_s=seconds + 1.5, cores=64)


@pytest.mark.parametrize("capacity", [math.inf, 3.0])
def test_runs_on_up_to_four_threads_predict_eight_and_sixteen(capacity):
    random = np.random.default_rng(7)
    of = chunks(0.05 * random.lognormal(0, 0.2, 200), 0.6 * random.lognormal(0, 0.2, 200))
    runs = [as_recorded(of, n, capacity) for n in (1, 2, 4)]
    source, stretch = _source(runs, runs[-1])
    assert math.isinf(source) == math.isinf(capacity)
    base = runs[-1]
    base = dataclasses.replace(
        base, chunks=dataclasses.replace(base.chunks, wait_s=base.chunks.wait_s / stretch)
    )
    of_runs = Replay(base, tuple(runs), source)
    for threads in (8, 16):
        held_back = shared_source(of, threads, capacity) + 1.5
        assert of_runs.what_if(threads=threads).wall_s == pytest.approx(held_back, rel=0.1)


def test_waiting_for_a_core_is_not_the_sources():
    few = recorded(chunks([0.1] * 40, [0.5] * 40), 1)
    more = recorded(chunks([0.1] * 40, [0.8] * 40), 4)
    assert not math.isinf(_source([few, more], more)[0])
    others = dataclasses.replace(more, waited_s=0.3 * 40)
    assert math.isinf(_source([few, others], others)[0])
    # Others on the machine all the time: less of the longer waiting was for a core.
    first = dataclasses.replace(recorded(chunks([0.1] * 40, [0.75] * 40), 1), waited_s=0.35 * 40)
    last = dataclasses.replace(recorded(chunks([0.1] * 40, [0.85] * 40), 4), waited_s=0.25 * 40)
    assert math.isinf(_source([first, last], last)[0])


@pytest.mark.timing
def test_a_recorded_run_is_replayed_as_it_was(measured):
    """A file of a real run: what the replay makes of it, and of its slots."""
    import crema

    with crema.open(measured.path) as run:
        n_chunks = int(run.summary()["num_chunks"])
        wall_s = run.summary()["wall_time"]
    answer = crema.scaling([measured.path]).what_if()
    assert answer.n_chunks == n_chunks
    assert answer.recorded_threads == answer.threads == 2
    assert answer.wall_s == pytest.approx(wall_s)
    assert answer.recorded_wall_s == pytest.approx(wall_s)
    assert answer.replayed_wall_s == pytest.approx(wall_s, rel=0.25)


@pytest.mark.parametrize(("said", "cores"), [("64", 64), (16, 16), (2.5, 2.5)])
def test_the_cores_that_the_collector_was_given_count(measured, tmp_path, said, cores):
    """It writes them as a text."""
    path = shutil.copy(measured.path, tmp_path)
    with h5py.File(path, "a") as f:
        f.attrs["cores"] = said
    assert replay_of([path]).base.cores == cores
