"""What if: a recorded run replayed with other threads, chunks or input, through a small simulation of its scheduler.

A chunk is so many seconds of waiting for input and so many on CPU, with the pause before it that its slot really had: dispatch, Dask's
executor, merging. What came before the first chunk and after the last one stays as it was.
"""

from __future__ import annotations

import dataclasses
import math
import os
import socket
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ._attempts import SUPERSEDED
from .fits import Floats
from .reader import open as open_run
from .schedule import Chunks, simulate

if TYPE_CHECKING:
    from .reader import RunFile

FULL = 1.05  # of the cores: wanting more than this is oversubscribed
STRETCHED = 1.15  # waiting per event against that of the fewest threads: the source is at its limit
WAITED = 0.1  # of the threads' time for a core: an answer says so
_SEED = 20260301
_LOOPBACK = {
    "127.0.0.1",
    "::1",
    "localhost",
}  # a worker's host, where the scheduler knows no other name of it
_PAIRS_MAX = 400  # chunks that a line is fitted to
_CHUNKS_MAX = 4_000_000  # of another size that are replayed: half a minute, 1 GB


class ReplayError(ValueError):
    """The run cannot be replayed in this way; the message says why."""


class OversubscribedError(ReplayError):
    """More threads want a core than there are cores: their interference was not recorded."""


@dataclasses.dataclass(frozen=True)
class Recorded:
    """The data of one run file that a replay needs."""

    file: str
    threads: int
    wall_s: float
    before_s: float  # until the first chunk
    after_s: float  # from the last chunk's end
    chunks: Chunks
    warm_s: float  # that the first chunk of a slot takes longer
    cores: float  # of the workers' hosts; NaN unknown
    waited_s: float  # thread-seconds, for a core
    each: int = 0  # threads of one of Dask's workers; 0: what is not started waits in one place


@dataclasses.dataclass(frozen=True)
class WhatIf:
    """An answer with the accuracy of the replay."""

    threads: int
    wall_s: float  # `recorded_wall_s`, changed as the replay changes against the replay of the recorded run
    recorded_threads: int
    recorded_wall_s: float
    replayed_wall_s: float  # of the recorded run itself: what the simulation makes of what is known
    n_chunks: int
    tail_s: float  # between the first slot that has no chunk any more and the last chunk's end
    cores_wanted: float
    assumes: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Replay:
    """Runs of one analysis to be replayed; `base` is the one with the most threads."""

    base: Recorded
    runs: tuple[Recorded, ...]
    source: float  # most readers' worth of unhindered waiting that the source delivered at its limit; inf: no limit was seen

    def what_if(
        self,
        *,
        threads: int | None = None,
        chunk_size: int | None = None,
        input_speed: float = 1.0,
        tail: bool = True,
        cores: float | None = None,
    ) -> WhatIf:
        """Wall time if something had been different; everything that is not given stays as recorded.

        Parameters
        ----------
        threads : int, optional
            Number of threads.
        chunk_size : int, optional
            Approximate number of events per chunk.
        input_speed : float, optional
            Factor by which input is faster.
        tail : bool, optional
            False: as if the last chunks ended at the same moment.
        cores : float, optional
            Cores of all workers together. If not given, those of the file, or of this machine if the run was on it.

        Returns
        -------
        WhatIf

        Raises
        ------
        OversubscribedError
            If more threads would want a core than there are.
        ReplayError
            If a number is invalid, or the number of cores is needed and unknown.
        """
        n = self.base.threads if threads is None else threads
        if not (n >= 1 and input_speed > 0 and (chunk_size is None or chunk_size >= 1)):  # NaN too
            raise ReplayError("threads and chunk_size must be at least 1, input_speed more than 0")
        chunks, source = self.base.chunks, self.source * input_speed
        if chunk_size is not None:
            chunks = _rechunked(chunks, chunk_size)
        if input_speed != 1:
            chunks = dataclasses.replace(chunks, wait_s=chunks.wait_s / input_speed)
        seconds, tail_s = self._simulate(chunks, n, source)
        if not tail:
            gaps = chunks.gap_s.sum() + n * self.base.warm_s
            seconds, tail_s = (chunks.busy_s + gaps) / n, 0.0
        wanted = float(chunks.cpu_s.sum()) / seconds
        if cores is None:
            self._must_have_been_free(n)
        self._must_have_cores(n, wanted, self.base.cores if cores is None else cores)
        own, _ = self._simulate(self.base.chunks, self.base.threads, self.source)
        around_s = self.base.before_s + self.base.after_s
        replayed_s = around_s + own
        return WhatIf(
            threads=n,
            wall_s=self.base.wall_s * (around_s + seconds) / replayed_s,
            recorded_threads=self.base.threads,
            recorded_wall_s=self.base.wall_s,
            replayed_wall_s=replayed_s,
            n_chunks=len(chunks.cpu_s),
            tail_s=tail_s,
            cores_wanted=wanted,
            assumes=tuple(self._assumptions(n, chunk_size, source)),
        )

    def _simulate(self, chunks: Chunks, threads: int, source: float) -> tuple[float, float]:
        each, warm_s = self.base.each, self.base.warm_s
        threads = min(threads, len(chunks.cpu_s) + 1)  # the last one has no chunk: the tail
        return simulate(chunks, threads, each=each, warm_s=warm_s, source=source)

    def _must_have_been_free(self, n: int) -> None:
        """Whatever else ran on the hosts: where the run's threads waited for a core, more threads get none."""
        waited = self._waited_for_cores()
        if n > self.base.threads and waited > WAITED:
            raise OversubscribedError(
                f"oversubscribed: the run's {self.base.threads} threads waited for a core in {100 * waited:.0f} % of their "
                f"time, so its hosts have none for {n}; pass cores= if you ask about others"
            )

    def _waited_for_cores(self) -> float:
        """Share of the threads' time."""
        return self.base.waited_s / (self.base.threads * self.base.wall_s)

    def _must_have_cores(self, n: int, wanted: float, cores: float) -> None:
        if math.isnan(cores):
            if n > self.base.threads:
                raise ReplayError(
                    f"{n} threads would want {wanted:.1f} cores, and the file does not say how many the workers have: pass cores="
                )
        elif wanted > FULL * cores:
            raise OversubscribedError(
                f"oversubscribed: {n} threads would want {wanted:.1f} cores, and the workers have {cores:g}"
            )

    def _assumptions(self, n: int, chunk_size: int | None, source: float) -> Iterable[str]:
        largest = self.base.threads
        if (
            math.isinf(source)
            and n > largest
            and self.base.chunks.wait_s.sum() > 0.1 * self.base.chunks.busy_s
        ):
            yield f"the source, which showed no limit up to {largest} threads, has none up to {n}"
        waited = self._waited_for_cores()
        if waited > WAITED:
            yield f"the run's threads waited for a core in {100 * waited:.0f} % of their time, and would again"
        sizes = self.base.chunks.n_events
        if chunk_size is not None and sizes.max() < 1.5 * sizes.min():
            yield "opening a file costs the same whatever the chunk, process() in proportion to its events: the chunks are too alike to tell"


def replay(files: Iterable[str | os.PathLike]) -> Replay:
    """Runs of one analysis, to ask `Replay.what_if`.

    Parameters
    ----------
    files : iterable of paths
        Sealed run files, one or more. The one with the most threads is replayed; the others show whether the source has a limit.

    Raises
    ------
    ReplayError
        If a run has no counted chunk.
    FileNotFoundError, RunFileError
        As `crema.open` does.
    """
    runs = []
    for path in files:
        with open_run(path) as run:
            runs.append(recorded(run))
    if not runs:
        raise ReplayError("a replay needs at least one run file")
    runs.sort(key=lambda r: (r.threads, r.wall_s))
    most = [r for r in runs if r.threads == runs[-1].threads]
    base = most[len(most) // 2]  # of repeats the median one
    source, stretch = _source(runs, base)
    chunks = dataclasses.replace(base.chunks, wait_s=base.chunks.wait_s / stretch)
    return Replay(dataclasses.replace(base, chunks=chunks), tuple(runs), source)


def recorded(run: RunFile) -> Recorded:
    """What a replay needs of a sealed run file."""
    table = run.file["chunks"]
    rows = table[:]
    ok = np.isin(rows["status"], [_code(table, "ok"), _code(table, "partial")])
    rows = rows[ok & (rows["quality"] & SUPERSEDED == 0)]
    rows = rows[np.isfinite(rows["wall_s"]) & np.isfinite(rows["cpu_s"])]
    if not len(rows):
        raise ReplayError(
            f"{run.path.name} has no chunk with its time and CPU: there is nothing to replay"
        )
    open_s = np.nan_to_num(rows["open_s"])
    start_s = (rows["t_start_ns"] - int(run.attributes["t_run_start_ns"])) * 1e-9 - open_s
    order = np.argsort(start_s, kind="stable")
    rows, open_s, start_s = rows[order], open_s[order], start_s[order]
    busy_s = rows["wall_s"] + open_s
    cpu_s = np.minimum(rows["cpu_s"], busy_s)
    efficiency = run.rows("summary/efficiency")[0]
    slots = list(zip(rows["worker_id"].tolist(), rows["thread"].tolist(), strict=True))
    gap_s, warm_s = _gaps(start_s, busy_s, rows["n_events"], slots)
    ranking = {row.name: row.thread_seconds for row in run.rows("summary/bottlenecks")}
    return Recorded(
        file=run.path.name,
        threads=max(1, round(efficiency.cap_s / efficiency.wall_s)),
        wall_s=efficiency.wall_s,
        before_s=float(start_s[0]),
        after_s=float(efficiency.wall_s - (start_s + busy_s).max()),
        chunks=Chunks(
            cpu_s=cpu_s,
            wait_s=busy_s - cpu_s,
            open_s=open_s,
            gap_s=gap_s,
            n_events=rows["n_events"].astype(float),
            file=rows["file_id"],
            dataset=rows["dataset_id"],
        ),
        warm_s=warm_s,
        cores=_cores(run),
        waited_s=float(np.nan_to_num(ranking.get("cores", 0.0))),  # none where it was not measured
        each=_threads_of_a_worker(run, rows["worker_id"]),
    )


# ---------------------------------------------------------------- reading


def _code(table, label: str) -> int:
    import h5py

    return h5py.check_enum_dtype(table.dtype["status"])[label]


def _cores(run: RunFile) -> float:
    """What the file says, or this machine's, where all workers were on it."""
    try:
        said = float(run.attributes.get("cores", 0))  # of the collector it is a text
    except (TypeError, ValueError):
        said = 0.0
    if said > 0:
        return said
    hosts = {row.host for row in run.rows("dict/worker")} - _LOOPBACK
    here = hosts == {socket.gethostname()}
    return float(len(os.sched_getaffinity(0))) if here else math.nan


def _threads_of_a_worker(run: RunFile, worker_ids: np.ndarray) -> int:
    """Of those that had a chunk, the typical one; 0 without Dask, which records tasks, or where it is not known."""
    if not len(run.file["task_events"]):
        return 0
    nthreads = [row.nthreads for row in run.rows("dict/worker")]
    known = [nthreads[i] for i in np.unique(worker_ids) if i < len(nthreads) and nthreads[i] > 0]
    return int(np.median(known)) if known else 0


def _gaps(
    start_s: Floats, busy_s: Floats, n_events: np.ndarray, slots: Sequence[tuple[int, int]]
) -> tuple[Floats, float]:
    """The pause before each chunk on its slot, the typical one for the first of a slot; and what these take longer."""
    ends: dict[tuple[int, int], float] = {}
    gaps, first = np.zeros(len(slots)), np.zeros(len(slots), bool)
    for k, slot in enumerate(slots):
        first[k] = slot not in ends
        gaps[k] = 0.0 if first[k] else max(0.0, start_s[k] - ends[slot])
        ends[slot] = start_s[k] + busy_s[k]
    later = ~first
    if not later.any():
        return gaps, 0.0
    gaps[first] = np.median(gaps[later])
    per_event = busy_s / np.maximum(1, n_events)
    warm = np.median(per_event[first] - np.median(per_event[later])) * np.median(n_events[first])
    typical = np.median(busy_s[later])
    return gaps, float(warm) if warm > 0.2 * typical else 0.0


def _source(runs: Sequence[Recorded], base: Recorded) -> tuple[float, float]:
    """How many unhindered readers the source serves at its limit, inf where none shows; and how much longer `base` waited for it.

    It shows where a chunk waits longer per event than with the fewest threads.
    """

    def per_event(run: Recorded, without_s: float = 0.0) -> float:
        waiting_s = run.chunks.wait_s.sum() - without_s
        return float(max(0.0, waiting_s) / max(1.0, run.chunks.n_events.sum()))

    fewest = [r for r in runs if r.threads == runs[0].threads]
    unhindered = float(np.median([per_event(r) for r in fewest]))
    if unhindered <= 0:
        return math.inf, 1.0
    # What waiting for a core may explain is not the source's: on a busy machine it takes more to show a limit.
    flows = [
        unhindered * r.chunks.n_events.sum() / (r.wall_s - r.before_s - r.after_s)
        for r in runs
        if r.threads > runs[0].threads and per_event(r, r.waited_s) > STRETCHED * unhindered
    ]
    if not flows:
        return math.inf, 1.0
    return float(np.median(flows)), max(1.0, per_event(base, base.waited_s) / unhindered)


# ---------------------------------------------------------------- other chunks


def _rechunked(chunks: Chunks, size: int) -> Chunks:
    """The same events in chunks of about `size`, as coffea cuts files: evenly; scatter about the cost as it was recorded."""
    if (n := float(chunks.n_events.sum()) / size) > _CHUNKS_MAX:
        raise ReplayError(
            f"{n:,.0f} chunks of {size} events: at most {_CHUNKS_MAX:,} can be replayed"
        )
    random = np.random.default_rng(_SEED)
    names = ("cpu_s", "wait_s", "open_s", "n_events", "file", "dataset")
    parts: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for dataset in np.unique(chunks.dataset):
        of = chunks.dataset == dataset
        sizes, files = _cut(chunks.n_events[of], chunks.file[of], size)
        opening = float(chunks.open_s[of].sum() / (chunks.cpu_s + chunks.wait_s)[of].sum())
        for name in ("cpu_s", "wait_s"):
            seconds = getattr(chunks, name)[of]
            a, b = _line(chunks.n_events[of], seconds, opening)
            expected = np.maximum(a + b * chunks.n_events[of], 1e-9)
            scatter = random.choice(seconds / expected, len(sizes))
            parts[name].append((a + b * sizes) * scatter)
        parts["open_s"].append(np.zeros(len(sizes)))  # not needed for a replay
        parts["n_events"].append(sizes)
        parts["file"].append(files)
        parts["dataset"].append(np.full(len(sizes), dataset))
    joined = {name: np.concatenate(values) for name, values in parts.items()}
    gap_s = random.choice(chunks.gap_s, len(joined["cpu_s"]))
    return Chunks(gap_s=gap_s, **joined)


def _cut(n_events: Floats, file: np.ndarray, size: int) -> tuple[Floats, np.ndarray]:
    sizes: list[float] = []
    files: list[int] = []
    for f in np.unique(file):
        total = float(n_events[file == f].sum())
        n = max(1, round(total / size))
        sizes += [total / n] * n
        files += [f] * n
    return np.array(sizes), np.array(files)


def _line(n: Floats, seconds: Floats, opening: float) -> tuple[float, float]:
    """Line a + b n, neither below 0, by Theil-Sen; where the sizes are too alike for a line, a is the share of opening."""
    if n.max() < 1.5 * n.min() or len(n) < 4:
        return opening * float(seconds.mean()), (1 - opening) * float(seconds.sum() / n.sum())
    every = max(1, len(n) // _PAIRS_MAX)
    i, j = np.triu_indices(len(n[::every]), 1)
    dn, ds = n[::every][j] - n[::every][i], seconds[::every][j] - seconds[::every][i]
    slope = max(0.0, float(np.median(ds[dn != 0] / dn[dn != 0])))
    return max(0.0, float(np.median(seconds - slope * n))), slope
