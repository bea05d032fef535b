"""The summaries of a run file, computed again from its raw tables by what docs/metrics.md says: h5py, numpy and pandas, nothing of crema."""

from __future__ import annotations

import collections
import itertools
import math
import pathlib

import h5py
import numpy as np
import pandas as pd

NO_ID, NO_U16 = 0xFFFFFFFF, 0xFFFF
SUPERSEDED = 1 << 3  # of chunks.quality
NONE = math.nan
OTHERS = ("preprocess", "merge", "overhead", "unattributed")  # sides of tasks not the processor's
# Runtime of tasks passes while their slots look free: it is taken out of these, in this order.
IDLE = ("latency", "starved", "imbalance", "tail", "join", "paused", "merge", "preprocess",
        "startup", "drained")  # fmt: skip


def ratio(a: float, b: float) -> float:
    return a / b if b else NONE


def quantile(values, p: float) -> float:
    values = np.asarray(values, float)
    return float(np.quantile(values, p)) if len(values) else NONE


def theil_sen(x, y) -> tuple[float, float]:
    """a and b of y = a + b x; NaN where the largest x is not a tenth above the smallest one."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    i, j = np.triu_indices(len(x), 1)
    differ = x[i] != x[j]
    if not differ.any() or x.max() < 1.1 * x.min():
        return NONE, NONE
    b = float(np.median((y[j] - y[i])[differ] / (x[j] - x[i])[differ]))
    return float(np.median(y - b * x)), b


class Tables:
    """Tables of a file as frames, with labels and text."""

    def __init__(self, path: pathlib.Path) -> None:
        self.file = h5py.File(path)
        self._frames: dict[str, pd.DataFrame] = {}

    def __getitem__(self, name: str) -> pd.DataFrame:
        if name not in self._frames:
            rows = self.file[name][:]
            frame = pd.DataFrame({column: rows[column] for column in rows.dtype.names})
            for column in rows.dtype.names:
                labels = h5py.check_enum_dtype(rows.dtype[column])
                if labels:
                    frame[column] = frame[column].map({v: k for k, v in labels.items()})
                elif rows.dtype[column].kind == "S":
                    frame[column] = [text.decode() for text in rows[column]]
            self._frames[name] = frame.astype(dict.fromkeys(frame.select_dtypes("str"), object))
        return self._frames[name]

    def names(self, dictionary: str, ids: pd.Series) -> list[str]:
        known = self[f"dict/{dictionary}"].name
        return [known[i] if i != NO_ID else "" for i in ids]


Slot = collections.namedtuple("Slot", "t0 t1 worker side is_chunk ready submitted")
Spell = collections.namedtuple("Spell", "t0 t1 worker nthreads")


class Run:
    """A run's raw rows, and the sums that the formulas call W, A, Cap, E, P, C and B: in that order wall_s, thread_s, cap_s, n_events, process_s, cpu_s, read_b."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.of = Tables(path)
        attributes = self.of.file.attrs
        self.t0, self.t1 = int(attributes["t_run_start_ns"]), int(attributes["t_run_end_ns"])
        self.workers = list(self.of["dict/worker"].id)
        self.wall_s = self.s(self.t1 - self.t0)
        self._take_presence()
        self._take_chunks()
        self._take_slots()
        self._take_meters()
        self._take_samples()

    @staticmethod
    def s(ns) -> float:
        return ns * 1e-9

    def within(self, t0: int, t1: int) -> tuple[int, int]:
        return min(max(t0, self.t0), self.t1), min(max(t1, self.t0), self.t1)

    def _take_presence(self) -> None:
        """From joining to leaving, or the run's bounds; outside Dask by the process's own records."""
        self.present: list[Spell] = []
        self.paused: list[Spell] = []
        since: dict[int, tuple[int, int]] = {}
        pause: dict[int, int] = {}
        retired: dict[int, int] = {}
        for row in self.of["membership"].sort_values("t_ns", kind="stable").itertuples():
            found = row.event == "join" and row.evidence == "run_boundary"
            if row.event == "join":
                since.setdefault(row.worker_id, (self.t0 if found else row.t_ns, row.nthreads))
            elif row.event in ("leave", "lost") and row.worker_id in since:
                t_ns, nthreads = since.pop(row.worker_id)
                until = self.t1 if row.evidence == "run_boundary" else row.t_ns
                self.present.append(Spell(t_ns, until, row.worker_id, nthreads))
            elif row.event == "retire":
                retired[row.worker_id] = row.t_ns  # unless it leaves later
            if row.event == "pause":
                pause.setdefault(row.worker_id, row.t_ns)
            elif row.event != "join" and row.worker_id in pause:
                self.paused.append(Spell(pause.pop(row.worker_id), row.t_ns, row.worker_id, 0))
        for worker, (t_ns, nthreads) in since.items():
            self.present.append(Spell(t_ns, retired.get(worker, self.t1), worker, nthreads))
        self.paused += [Spell(t, self.t1, worker, 0) for worker, t in pause.items()]
        for row in self.of["dict/worker"].itertuples():
            if row.id not in set(self.of["membership"].worker_id) and row.t_first_ns:
                self.present.append(Spell(row.t_first_ns, row.t_last_ns, row.id, row.nthreads))
        self.present = [p._replace(**dict(zip(("t0", "t1"), self.within(p.t0, p.t1), strict=True)))
                        for p in self.present]  # fmt: skip
        changes: dict[int, list[int]] = {self.t0: [0, 0]}
        for p in self.present:
            for t_ns, sign in ((p.t0, 1), (p.t1, -1)):
                change = changes.setdefault(t_ns, [0, 0])
                change[0] += sign
                change[1] += sign * p.nthreads
        changes.pop(self.t1, None)
        self.steps: list[tuple[int, int, int]] = []  # since when, workers, threads
        for t_ns in sorted(changes):
            before = self.steps[-1][1:] if self.steps else (0, 0)
            now = (before[0] + changes[t_ns][0], before[1] + changes[t_ns][1])
            if not self.steps or now != before:
                self.steps.append((t_ns, *now))
        self.thread_s = sum(self.s(p.t1 - p.t0) * p.nthreads for p in self.present)
        self.worker_s = sum(self.s(p.t1 - p.t0) for p in self.present)
        self.peak = max(step[2] for step in self.steps)
        self.cap_s = self.peak * self.wall_s

    def _take_chunks(self) -> None:
        chunks = self.chunks = self.of["chunks"].copy()
        returned = chunks.status.isin(["ok", "partial"])
        chunks["counts"] = returned & (chunks.quality & SUPERSEDED == 0)
        chunks["superseded"] = returned & ~chunks.counts
        chunks["took_s"] = chunks.wall_s.fillna(0) + chunks.open_s.fillna(0)
        counted = self.counted = chunks[chunks.counts]
        self.n_events, self.process_s, self.cpu_s = (
            counted.n_events.sum(),
            counted.wall_s.sum(),
            counted.cpu_s.sum(),
        )
        self.read_b = counted.bytes_read_b.clip(lower=0).sum()

    def _take_slots(self) -> None:
        """What ran on the slots: tasks; and chunks without one, or whose task only the scheduler saw lost."""
        tasks = self.of["task_events"]
        tasks = tasks[(tasks.action == "compute") & (tasks.t_start_ns != 0)]
        tasks = self.tasks = tasks[self._seen_once(tasks)].copy()
        rows = list(tasks.itertuples())
        by_key = collections.defaultdict(list)
        for i, task in enumerate(rows):
            by_key[task.task_key, task.worker_id].append(i)
        chunk_tasks, outcomes, self.slots, self.waits = set(), [], [], []
        for chunk in self.chunks.itertuples():
            found = [i for i in by_key.get((chunk.task_key, chunk.worker_id), [])
                     if rows[i].t_start_ns <= chunk.t_end_ns and rows[i].t_stop_ns >= chunk.t_start_ns]  # fmt: skip
            found = found if chunk.task_key else []
            chunk_tasks.update(found)
            outcomes.append(next((rows[i].status for i in found if rows[i].status != "lost"), ""))
            if not outcomes[-1]:
                opened = 0 if math.isnan(chunk.open_s) else int(chunk.open_s * 1e9)
                self._add_slot(chunk.t_start_ns - opened, chunk.t_end_ns, chunk.worker_id, "", True)
        for i, task in enumerate(rows):
            if i not in chunk_tasks or task.status != "lost":
                self._add_slot(task.t_start_ns, task.t_stop_ns, task.worker_id, task.side,
                               i in chunk_tasks, task.t_ready_ns, task.t_submit_ns)  # fmt: skip
        self.chunks["task_status"] = outcomes  # empty: no task
        tasks["is_chunk"] = np.array([i in chunk_tasks for i in range(len(rows))], bool)
        self.own = [slot for slot in self.slots if slot.side != "foreign"]

    @staticmethod
    def _seen_once(tasks: pd.DataFrame) -> np.ndarray:
        """Not what the scheduler saw lost, although its worker had recorded that execution itself."""
        ended = tasks[tasks.status != "lost"]

        def is_recorded(row) -> bool:
            of = ended[(ended.task_key == row.task_key) & (ended.worker_id == row.worker_id)]
            return ((of.t_start_ns <= row.t_stop_ns) & (of.t_stop_ns > row.t_start_ns)).any()

        once = [row.status != "lost" or not is_recorded(row) for row in tasks.itertuples()]
        return np.array(once, bool)

    def _add_slot(self, t0, t1, worker, side, is_chunk, ready=0, submitted=0) -> None:
        if worker != NO_ID and side != "foreign" and 0 < ready < t0:
            self.waits.append((ready, t0, worker))  # also of a task that left its slot at once
        t0, t1 = self.within(t0, t1)
        if worker != NO_ID and t1 > t0:
            self.slots.append(Slot(t0, t1, worker, side, is_chunk, ready, submitted))

    def _take_meters(self) -> None:
        meters = self.of["activities"].copy()
        meters["prefix"] = self.of.names("task_prefix", meters.task_prefix_id)
        meters["activity"] = self.of.names("activity", meters.activity_id)
        meters["unit"] = self.of.names("unit", meters.unit_id)
        kinds = self.of["dict/activity"].kind
        meters["kind"] = [kinds[i] if i != NO_ID else "" for i in meters.activity_id]
        meters["is_cpu"] = meters.activity == "thread-cpu"
        self.meters = meters
        self.metered = meters[meters.context == "execute"]
        self.seconds = self.metered[self.metered.unit == "seconds"]

    def _take_samples(self) -> None:
        samples = self.of["worker_samples"]
        rank = samples.source.map({"worker": 2, "agent": 1, "scheduler": 0})
        best = rank.groupby(samples.worker_id).transform("max")
        self.samples = samples[rank == best].sort_values("t_ns", kind="stable")

    # -------------------------------------------------------------- budget of a worker

    def killed(self, worker: int) -> bool:
        name = self.of["dict/worker"].name[worker]
        return f'"{name}"' in self.of.file.attrs["verdict_reasons"]

    def left_slots(self, worker: int) -> dict[str, tuple[float, float]]:
        """By side: seconds not on CPU, and of runtime, that Dask metered after tasks had left their slots."""
        meters, found = self.meters[self.meters.worker_id == worker], {}
        seceded = meters[(meters.context == "busy") & (meters.activity == "seceded")]
        for side, s in seceded.groupby("side").value.sum().items():
            of = self.seconds[(self.seconds.worker_id == worker) & (self.seconds.side == side)]
            tasks = self.tasks[(self.tasks.worker_id == worker) & (self.tasks.side == side)]
            on_slots = self.s((tasks.t_stop_ns - tasks.t_start_ns)[tasks.status == "ok"].sum())
            noncpu = of.value[~of.is_cpu].sum()
            beyond = min(s, max(of.value.sum() - on_slots, 0), noncpu)
            found[side] = (beyond, s - beyond)
        return found

    def spent(self, worker: int) -> dict[str, float]:
        """Seconds of one worker's tasks by where they went."""
        of = self.seconds[self.seconds.worker_id == worker]
        chunks = self.chunks[self.chunks.worker_id == worker]
        counted, again = chunks[chunks.counts], chunks[chunks.superseded]
        failed = chunks[chunks.status.isin(["error", "cancelled"])]
        lost_s = chunks.took_s[chunks.status == "lost"].sum()
        tasks = self.tasks[(self.tasks.worker_id == worker) & (self.tasks.side != "foreign")]
        took = (tasks.t_stop_ns - tasks.t_start_ns) * 1e-9
        if not len(of):  # outside Dask, or killed before it posted anything: what was on its slots
            others, cpu = tasks[~tasks.is_chunk], counted.cpu_s.sum()
            of_side = took[others.index].where(others.status == "ok", 0).groupby(others.side).sum()
            unfinished = took[others.index][others.status != "ok"].sum()
            wasted = failed.took_s.sum() + again.took_s.sum() + lost_s + unfinished
            noncpu = counted.took_s.sum() + of_side.get("processor", 0) - cpu
            found = {f"{side} noncpu": of_side.get(side, 0) for side in OTHERS}
            return found | {"cpu": cpu, "noncpu": noncpu, "wasted": wasted}
        left, processor = self.left_slots(worker), of[of.side == "processor"]
        slots = took[tasks.status.isin(["error", "cancelled"])].sum()
        slots += failed.took_s[failed.task_status == ""].sum()
        dropped_s = failed.took_s[failed.task_status == "ok"].sum()  # of tasks that succeeded
        failed_s = of.value[of.side == "wasted"].sum()
        found = {
            "cpu": processor.value[processor.is_cpu].sum(),
            "user": processor.value[processor.kind == "user"].sum(),
            "runtime": of.value[of.side == "runtime"].sum() - sum(r for _, r in left.values()),
            "wasted": max(failed_s, slots) + lost_s,
            "runtime of failed": max(failed_s - slots, 0),
        }
        found["wasted"] += took[(tasks.status == "lost") & ~tasks.is_chunk].sum()
        found["noncpu"] = processor.value.sum() - found["cpu"] - found["user"]
        # Dask counts a result that was lost later as a success; of a killed worker it may never have heard.
        again_cpu_s = again.cpu_s.sum()
        beside_s = again.took_s.sum() - again_cpu_s + dropped_s
        missing_s = 0.0
        for name, s in (("cpu", again_cpu_s), ("noncpu", beside_s)):
            moved = min(s, found[name])
            found[name] -= moved
            found["wasted"] += moved
            missing_s += s - moved
        moved = min(missing_s, found["cpu"])  # Dask counts the CPU that opening took
        found["cpu"] -= moved
        found["wasted"] += missing_s if self.killed(worker) else moved
        if self.killed(worker) and found["cpu"] + found["noncpu"] < counted.took_s.sum():
            found["cpu"] = counted.cpu_s.sum()
            found["noncpu"] = counted.took_s.sum() - found["cpu"]
        for side in OTHERS:
            of_side = of[of.side == side]
            found[f"{side} cpu"] = of_side.value[of_side.is_cpu].sum()
            found[f"{side} noncpu"] = of_side.value[~of_side.is_cpu].sum() - left.get(side, (0,))[0]
        return found

    def budget(self) -> dict[str, float]:
        total: dict[str, float] = collections.defaultdict(float)
        for worker in self.workers:
            for name, s in self.spent(worker).items():
                total[name] += s
        return total

    # -------------------------------------------------------------- free threads

    def idle(self) -> dict[str, float]:
        """Thread-seconds of free threads by the first row of the waterfall whose condition holds, before runtime is taken out."""
        found = dict.fromkeys(IDLE, 0.0)
        changes: dict[int, list] = collections.defaultdict(list)

        def during(t0, t1, counter, key, n=1):
            t0, t1 = self.within(t0, t1)
            if t1 > t0:
                changes[t0].append((counter, key, n))
                changes[t1].append((counter, key, -n))

        counts = {name: collections.Counter() for name in
                  ("threads", "running", "ready", "paused", "kind", "began", "unserved")}  # fmt: skip
        for p in self.present:
            during(p.t0, p.t1, "threads", p.worker, p.nthreads)
        for p in self.paused:
            during(p.t0, p.t1, "paused", p.worker)
        for slot in self.slots:
            during(slot.t0, slot.t1, "running", slot.worker)
            during(slot.t0, slot.t1, "kind", "chunk" if slot.is_chunk else slot.side)
            during(slot.t0, self.t1, "began", slot.worker)
            if slot.is_chunk and slot.submitted:
                during(self.t0, slot.submitted, "unserved", slot.worker)
        for ready, began, worker in self.waits:
            during(ready, began, "ready", worker)
        first = min((slot.t0 for slot in self.own), default=self.t1)
        last = max((slot.t1 for slot in self.own), default=self.t1)
        tail0, tail1 = self.tail()
        times = sorted({self.t0, self.t1, first, last, tail0, tail1, *changes})
        for t_ns, until in itertools.pairwise(times):
            for counter, key, n in changes[t_ns]:
                counts[counter][key] += n
            free = {w: max(0, n - counts["running"][w]) for w, n in counts["threads"].items()}
            waiting = sum(max(0, n - free.get(w, 0)) for w, n in counts["ready"].items())
            work = counts["kind"]["chunk"] > 0 or waiting > 0
            for worker, n in free.items():
                s = self.s(until - t_ns)
                if t_ns < first:
                    found["startup"] += n * s
                elif t_ns >= last:
                    found["drained"] += n * s
                elif counts["paused"][worker]:
                    found["paused"] += n * s
                elif not counts["kind"]["chunk"] and counts["kind"]["preprocess"]:
                    found["preprocess"] += n * s
                elif not counts["kind"]["chunk"] and counts["kind"]["merge"]:
                    found["merge"] += n * s
                elif tail0 <= t_ns < tail1:
                    found["tail"] += n * s
                elif not counts["began"][worker]:
                    found["join"] += n * s
                else:
                    own = min(counts["ready"][worker], n)
                    found["latency"] += own * s
                    if counts["unserved"][worker]:
                        found["latency" if work else "starved"] += (n - own) * s
                    else:
                        held_up = min(waiting, n - own)
                        waiting -= held_up
                        found["imbalance"] += held_up * s
                        found["starved"] += (n - own - held_up) * s
        return found

    def tail(self) -> tuple[int, int]:
        """From the start of the last chunk to the end of all; of tasks if there are none."""
        of = [slot for slot in self.slots if slot.is_chunk] or self.own
        ends = max((slot.t1 for slot in of), default=self.t1)
        return max((slot.t0 for slot in of), default=self.t1), ends

    def busy_s(self, worker: int | None = None) -> float:
        """Seconds in which threads ran tasks, never more threads than there are."""
        if worker is None:
            return sum(self.busy_s(w) for w in self.workers)
        return sum(self.busy_steps(worker)[1])

    def busy_steps(self, worker: int) -> tuple[list[tuple[int, int, int]], list[float]]:
        """(t0, t1, busy threads) of a worker, and the thread-seconds of each."""
        changes: dict[int, list[int]] = collections.defaultdict(lambda: [0, 0])
        for i, rows in enumerate((self.slots, self.present)):
            for row in rows:
                if row.worker == worker:
                    n = row.nthreads if i else 1
                    changes[row.t0][i] += n
                    changes[row.t1][i] -= n
        steps, n, most = [], 0, 0
        times = sorted(changes)
        for t_ns, until in itertools.pairwise(times):
            n, most = n + changes[t_ns][0], most + changes[t_ns][1]
            steps.append((t_ns, until, min(n, most)))
        return steps, [self.s(t1 - t0) * n for t0, t1, n in steps]
