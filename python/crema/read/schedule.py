"""A small simulation of a scheduler: threads take recorded chunks in the order in which they were started.

Where Dask hands chunks out, each worker holds some more than it runs, and gives none away. Threads that read share a source which
delivers no more than its limit.
"""

from __future__ import annotations

import collections
import dataclasses
import heapq
import math
from collections.abc import Iterable, Sequence

import numpy as np

from .fits import Floats

SATURATION = 1.1  # tasks that Dask hands to a worker for each of its threads, its default
_SEED = 20260301
_ORDERS_MAX = 40  # that an answer is the mean of
_ORDERED_MAX = 20_000  # chunks in all of them


@dataclasses.dataclass(frozen=True)
class Chunks:
    """Chunks in the order of their starts; arrays of one length."""

    cpu_s: Floats
    wait_s: Floats
    open_s: Floats  # of both, in opening the file
    gap_s: Floats  # on its slot, before it
    n_events: Floats
    file: np.ndarray  # id
    dataset: np.ndarray  # id

    @property
    def busy_s(self) -> float:
        """All thread-seconds of chunks."""
        return float((self.cpu_s + self.wait_s).sum())


class _Queues:
    """Which chunk a thread takes next.

    A worker holds what Dask hands it beyond its threads, and gets another one whenever it has finished one. What it holds, no other
    worker takes: at the end one may still have a chunk to begin while others have none.
    """

    def __init__(self, n: int, threads: int, each: int) -> None:
        each = min(each, threads) or threads
        self._sizes = [each] * (threads // each) + [threads % each] * (threads % each > 0)
        self._held: list[collections.deque[int]] = [collections.deque() for _ in self._sizes]
        self._left = iter(range(n))

    def begin(self) -> list[tuple[int, int]]:
        """Chunk and worker of each thread at the start; fewer than threads where there are not as many chunks."""
        begun = [(next(self._left, None), w) for w in self._turns(self._sizes)]
        more = [math.ceil(SATURATION * size) - size for size in self._sizes]
        for w in self._turns(more):
            self._hand(w)
        return [(chunk, w) for chunk, w in begun if chunk is not None]

    def after(self, worker: int) -> int | None:
        """The next chunk of a thread of this worker; None if there is none for it."""
        self._hand(worker)
        held = self._held[worker]
        return held.popleft() if held else None

    def _hand(self, worker: int) -> None:
        chunk = next(self._left, None)
        if chunk is not None:
            self._held[worker].append(chunk)

    @staticmethod
    def _turns(counts: Sequence[int]) -> Iterable[int]:
        """Each worker so many times, in turn."""
        return (w for k in range(max(counts)) for w, n in enumerate(counts) if k < n)


def simulate(
    chunks: Chunks, threads: int, *, each: int, warm_s: float, source: float
) -> tuple[float, float]:
    """Seconds from the first chunk's start to the last one's end, and the tail.

    Parameters
    ----------
    chunks : Chunks
        In the order of their starts.
    threads : int
        That take them.
    each : int
        Threads of one of Dask's workers; 0: what is not started waits in one place.
    warm_s : float
        That the first chunk of a thread takes longer.
    source : float
        Most readers' worth of unhindered waiting that the source delivers; inf: it has no limit.

    Notes
    -----
    Which worker is left with a chunk that it cannot begin is chance, and may cost a round: the mean over orders that differ a little.
    """
    n = len(chunks.cpu_s)
    orders = [np.arange(n)]
    if 0 < each < threads:
        random = np.random.default_rng(_SEED)
        times = max(1, min(_ORDERS_MAX, _ORDERED_MAX // n))
        orders = [np.argsort(orders[0] + random.uniform(0, threads, n)) for _ in range(times)]
    found = [
        schedule(_reordered(chunks, order), threads, each=each, warm_s=warm_s, source=source)
        for order in orders
    ]
    seconds, tail_s = np.mean(found, axis=0)
    return float(seconds), float(tail_s)


def _reordered(chunks: Chunks, order: np.ndarray) -> Chunks:
    return Chunks(
        **{field.name: getattr(chunks, field.name)[order] for field in dataclasses.fields(Chunks)}
    )


def schedule(
    chunks: Chunks, threads: int, *, each: int, warm_s: float, source: float
) -> tuple[float, float]:
    """The same in this very order of the chunks."""
    queues = _Queues(len(chunks.cpu_s), threads, each)
    if math.isinf(source):
        return _list_schedule(chunks, threads, queues, warm_s)
    return _shared_source(chunks, threads, queues, warm_s, source)


def _list_schedule(
    chunks: Chunks, threads: int, queues: _Queues, warm_s: float
) -> tuple[float, float]:
    """Each thread takes its next chunk as soon as it is free."""
    took = (chunks.cpu_s + chunks.wait_s + chunks.gap_s).tolist()
    running = [(took[k] + warm_s, worker) for k, worker in queues.begin()]
    free = [0.0] * (threads - len(running))  # without a chunk, since when
    heapq.heapify(running)
    while running:
        now, worker = heapq.heappop(running)
        k = queues.after(worker)
        if k is None:
            free.append(now)
        else:
            heapq.heappush(running, (now + took[k], worker))
    return max(free), max(free) - min(free)


def _shared_source(
    chunks: Chunks, threads: int, queues: _Queues, warm_s: float, source: float
) -> tuple[float, float]:
    """The same with waiting stretched as far as the source's limit demands, recomputed whenever a chunk begins or ends."""
    running = queues.begin()
    fixed = chunks.cpu_s + chunks.gap_s
    fixed[[k for k, _ in running]] += warm_s
    wait = chunks.wait_s
    left = np.ones(len(fixed))  # share of each chunk that is still to be done
    now, first_free = 0.0, math.inf if len(running) == threads else 0.0
    while running:
        active = np.array([k for k, _ in running])
        took = fixed[active] + wait[active] * _stretch(fixed[active], wait[active], source)
        ended = int(np.argmin(left[active] * took))
        step = left[active[ended]] * took[ended]
        left[active] -= step / took
        now += step
        worker = running[ended][1]
        following = queues.after(worker)
        if following is not None:
            running[ended] = following, worker
        else:
            running.pop(ended)
            first_free = min(first_free, now)
    return now, now - first_free


def _stretch(fixed: Floats, wait: Floats, source: float) -> float:
    """How much longer all wait, so that together they get no more than the source delivers."""

    def flow(stretch: float) -> float:
        return float((wait / np.maximum(fixed + wait * stretch, 1e-9)).sum())

    if flow(1.0) <= source:
        return 1.0
    lo, hi = 1.0, max(2.0, 2 * len(wait) / source)
    for _ in range(40):
        middle = (lo + hi) / 2
        lo, hi = (middle, hi) if flow(middle) > source else (lo, middle)
    return hi
