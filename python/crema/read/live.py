"""A running analysis seen from its live file: how fast, how busy, where the time goes, what is missing.

Each look reads only what was written since the one before. The run does not notice: nothing but the file is read, and it
may be looked at from any time on, as often as one likes.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import math
import os
import pathlib
import threading
import time
from collections import deque
from typing import Any

import h5py
import numpy as np
from rich import box
from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ..hook._printable import printable
from .reader import LIVE, RunFile
from .reader import open as open_run
from .report import percent, quantity, seconds

RATE_S = 10.0  # events of the last seconds are the rate
STALE_S = 10.0  # a worker that was not sampled for so long is not counted as busy
SLOWEST = 5
_TABLES = (
    "chunks",
    "worker_samples",
    "activities",
    "gaps",
    "membership",
    "dict/stream",
    "heartbeats",
)
_NO_U16 = 0xFFFF
# Of a file that is being written, or is damaged: HDF5 and numpy raise them all.
_UNREADABLE = (OSError, ValueError, KeyError, RuntimeError, TypeError, IndexError, AttributeError)


@dataclasses.dataclass(frozen=True)
class Look:
    """The run at one instant; unknown values are NaN."""

    run_id: str
    elapsed_s: float
    n_events: int
    n_chunks: int
    n_failed: int
    rate_hz: float  # events per second of the last ten
    threads: float
    busy: float  # threads running a task
    split_s: dict[str, float]  # seconds of tasks so far, by side
    slowest: list[tuple[float, int, str]]  # seconds, events, file
    n_agents: int
    n_workers: int
    n_gaps: int
    n_lost: int
    backlog: float  # records written and not yet durable
    silent_s: float  # since the newest record
    left_s: float  # until all events are done at the rate of the run so far


class Watch:
    """Follows a live file.

    Parameters
    ----------
    path : path
        ``<run_id>.live.h5``.
    n_events : int, optional
        Number of events of the whole input: enables an estimate of the remaining time.
    """

    def __init__(self, path: str | os.PathLike, n_events: int | None = None) -> None:
        self.path = pathlib.Path(path)
        self._n_expected = n_events
        self._run: RunFile | None = None
        self._forget()

    def _forget(self) -> None:
        self._read: dict[str, int] = {}
        self._first_ns, self._last_ns = 0, 0
        self._n_events = self._n_chunks = self._n_failed = self._n_gaps = self._n_lost = 0
        self._recent: deque[tuple[int, int]] = deque()  # end of a chunk, its events
        self._slowest: list[tuple[float, int, int]] = []
        self._split: dict[int, float] = {}
        self._samples: dict[int, tuple[int, int, int]] = {}  # worker -> when, executing, threads
        self._gone: dict[int, bool] = {}
        self._backlog: dict[int, int] = {}  # by stream; those that report it

    def look(self) -> Look:
        """The run now.

        Raises
        ------
        FileNotFoundError
            When the run is over and its live file was removed; the state of this object is reset.
        OSError
            If the file is being rewritten, is not a run file yet, or is damaged: try again.
        """
        if not self.path.exists():
            self.close()
            raise FileNotFoundError(f"there is no file {self.path}")
        if self._run is None:
            self._forget()
            try:
                self._run = open_run(self.path)
            except _UNREADABLE as error:  # its first bytes are not there yet, or damaged
                raise OSError(f"{self.path} cannot be read: {error}") from error
        try:
            fresh = {name: self._new_rows(name) for name in _TABLES}
            self._take_chunks(fresh["chunks"])
            self._take_workers(fresh["worker_samples"], fresh["membership"], fresh["heartbeats"])
            self._take_activities(fresh["activities"])
            gaps = fresh["gaps"]
            self._n_gaps += len(gaps)
            self._n_lost += int(np.maximum(0, gaps["n_lost"]).sum()) if len(gaps) else 0
            return self._summed()
        except _UNREADABLE as error:
            self.close()
            raise OSError(f"{self.path} is being written again: {error}") from error

    def last(self) -> Look | None:
        """The run at its end, from the file that was sealed in place of the live one; None if there is none, or it cannot be read."""
        sealed = self.path.with_name(self.path.name.removesuffix(LIVE) + ".h5")
        watch = Watch(sealed, self._n_expected)
        with contextlib.suppress(OSError), contextlib.closing(watch):
            return watch.look()
        return None

    @property
    def n_rows(self) -> int:
        """Rows read so far: there was something new if it changed."""
        return sum(self._read.values())

    def close(self) -> None:
        """Close the file; the next look opens it again, from the beginning."""
        if self._run is not None:
            self._run.close()
            self._run = None

    # -------------------------------------------------------------- reading

    def _new_rows(self, name: str) -> np.ndarray:
        dataset = self._run.file[name]
        dataset.refresh()
        first, last = self._read.get(name, 0), len(dataset)
        if last < first:
            raise RuntimeError("it became shorter")
        self._read[name] = last
        return dataset[first:last]

    def _label(self, table: str, column: str, code: int) -> str:
        labels = h5py.check_enum_dtype(self._run.file[table].dtype[column])
        return next((label for label, number in labels.items() if number == code), "?")

    def _take_chunks(self, rows: np.ndarray) -> None:
        if not len(rows):
            return
        code = h5py.check_enum_dtype(self._run.file["chunks"].dtype["status"])
        done = np.isin(rows["status"], [code["ok"], code["partial"]]) & (rows["n_events"] >= 0)
        self._n_failed += int((~done).sum())
        rows = rows[done]
        self._n_chunks += len(rows)
        self._n_events += int(rows["n_events"].sum())
        self._recent.extend(zip(rows["t_end_ns"].tolist(), rows["n_events"].tolist(), strict=True))
        took = rows["wall_s"] + np.nan_to_num(rows["open_s"])
        found = zip(took.tolist(), rows["n_events"].tolist(), rows["file_id"].tolist(), strict=True)
        known = [row for row in found if math.isfinite(row[0])]
        self._slowest = sorted([*self._slowest, *known], reverse=True)[:SLOWEST]
        if len(rows):
            self._first_ns = min(
                self._first_ns or rows["t_start_ns"].min(), rows["t_start_ns"].min()
            )
            self._last_ns = max(self._last_ns, int(rows["t_end_ns"].max()))

    def _take_workers(self, samples: np.ndarray, members: np.ndarray, beats: np.ndarray) -> None:
        samples = samples[samples["executing"] != _NO_U16][::-1]
        _, newest = np.unique(samples["worker_id"], return_index=True)
        for row in samples[newest]:
            known = row["nthreads"] != _NO_U16
            threads = (
                int(row["nthreads"]) if known else self._samples.get(row["worker_id"], (0, 0, 0))[2]
            )
            self._samples[int(row["worker_id"])] = (
                int(row["t_ns"]),
                int(row["executing"]),
                threads,
            )
            self._last_ns = max(self._last_ns, int(row["t_ns"]))
        for row in members:
            event = self._label("membership", "event", row["event"])
            if event in ("join", "leave", "lost"):
                self._gone[int(row["worker_id"])] = event != "join"
        for row in beats:
            if row["backlog"] >= 0:
                self._backlog[int(row["stream_id"])] = int(row["backlog"])

    def _take_activities(self, rows: np.ndarray) -> None:
        units = self._run.file["dict/unit"]
        units.refresh()
        in_seconds = np.flatnonzero(units.fields("name")[:] == b"seconds")
        context = h5py.check_enum_dtype(rows.dtype["context"])
        rows = rows[(rows["context"] == context["execute"]) & np.isin(rows["unit_id"], in_seconds)]
        for side in np.unique(rows["side"]).tolist():
            found = float(rows["value"][rows["side"] == side].sum())
            self._split[side] = self._split.get(side, 0.0) + found

    # -------------------------------------------------------------- adding up

    def _summed(self) -> Look:
        now_ns = time.time_ns()
        if not self._run.live:  # over: it is seen at its end
            now_ns = int(self._run.file.attrs.get("t_run_end_ns", 0)) or self._last_ns or now_ns
        start_ns = int(self._run.file.attrs.get("t_run_start_ns", 0)) or self._first_ns or now_ns
        while self._recent and self._recent[0][0] < now_ns - RATE_S * 1e9:
            self._recent.popleft()
        here = {w: s for w, s in self._samples.items() if not self._gone.get(w)}
        young = [s for s in here.values() if s[0] > now_ns - STALE_S * 1e9]
        streams = self._run.rows("dict/stream")
        working_s = (now_ns - self._first_ns) * 1e-9 if self._first_ns else 0.0
        left = math.nan
        if self._n_expected and self._n_events:
            left = max(0, self._n_expected - self._n_events) * working_s / self._n_events
        return Look(
            run_id=self._run.run_id,
            elapsed_s=(now_ns - start_ns) * 1e-9,
            n_events=self._n_events,
            n_chunks=self._n_chunks,
            n_failed=self._n_failed,
            rate_hz=sum(n for _, n in self._recent) / max(1.0, min(RATE_S, working_s or RATE_S)),
            threads=sum(s[2] for s in here.values()) if here else math.nan,
            busy=sum(s[1] for s in young) if young else math.nan,
            split_s={
                self._label("activities", "side", k): v for k, v in sorted(self._split.items())
            },
            slowest=self._named(),
            n_agents=len({s.agent_uuid for s in streams if s.agent_uuid}),
            n_workers=sum(not gone for gone in self._gone.values()) or len(here),
            n_gaps=self._n_gaps,
            n_lost=self._n_lost,
            backlog=sum(self._backlog.values()) if self._backlog else math.nan,
            silent_s=max(0.0, (now_ns - self._last_ns) * 1e-9) if self._last_ns else math.nan,
            left_s=left,
        )

    def _named(self) -> list[tuple[float, int, str]]:
        files = self._run.file["dict/file"]
        files.refresh()
        names = self._run.names("file")
        return [(s, n, names[f] if f < len(names) else "?") for s, n, f in self._slowest]


# ---------------------------------------------------------------- showing


def render(look: Look) -> Panel:
    """Render a look for a terminal or a notebook."""
    head = Table.grid(padding=(0, 3))
    left = f"{seconds(look.left_s)} s left" if math.isfinite(look.left_s) else ""
    busy = (
        "threads unknown"
        if math.isnan(look.busy)
        else f"{look.busy:.0f} of {look.threads:.0f} threads busy"
    )
    waiting = (
        "" if math.isnan(look.backlog) else f"{_count(int(look.backlog), 'record')} on the way"
    )
    head.add_row(
        f"{seconds(look.elapsed_s)} s",
        Text(f"{look.rate_hz:,.0f} events/s", style="bold"),
        f"{look.n_events:,} events in {look.n_chunks:,} chunks",
        busy,
        left,
    )
    health = Table.grid(padding=(0, 3))
    gaps = Text(
        f"{_count(look.n_gaps, 'gap')}, {_count(look.n_lost, 'record')} lost",
        style="red" if look.n_gaps else "",
    )
    failed = Text(
        f"{_count(look.n_failed, 'chunk')} failed", style="yellow" if look.n_failed else ""
    )
    health.add_row(
        _count(look.n_workers, "worker"),
        _count(look.n_agents, "agent"),
        gaps,
        failed,
        waiting,
    )
    parts = [head, health]
    if look.split_s:
        parts.append(_split(look.split_s))
    if look.slowest:
        parts.append(_slowest(look.slowest))
    quiet = f", nothing new for {look.silent_s:.0f} s" if look.silent_s > RATE_S else ""
    return Panel(
        Group(*parts),
        title=Text(f"run {printable(look.run_id)}{quiet}"),
        title_align="left",
        box=box.ROUNDED,
    )


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' * (n != 1)}"


def _split(split_s: dict[str, float]) -> Table:
    total = sum(split_s.values()) or 1.0
    table = Table(
        title="Seconds of tasks so far", title_justify="left", box=None, show_header=False
    )
    for side, value in sorted(split_s.items(), key=lambda item: -item[1]):
        bar = "█" * round(30 * max(0.0, value) / total)
        table.add_row(side, seconds(value), percent(value / total), bar)
    return table


def _slowest(rows: list[tuple[float, int, str]]) -> Table:
    table = Table(title="Slowest chunks", title_justify="left", box=None, show_header=False)
    for took_s, n, file in rows:
        table.add_row(
            f"{seconds(took_s)} s",
            quantity(n, "count") + " events",
            Text(printable(file.rpartition("/")[2])),
        )
    return table


class Display:
    """Shows a run in the cell of a notebook once a second from a thread, so also while the analysis blocks the kernel.

    Attributes
    ----------
    n_looks : int
        How often it was shown.
    """

    def __init__(self, watch: Watch, period_s: float = 1.0) -> None:
        from IPython.display import display

        self.n_looks = 0
        self._watch, self._period_s = watch, period_s
        self._handle = display(Text("waiting for the first records"), display_id=True)
        self._end = threading.Event()
        # In the cell's own context: what the thread shows belongs below it.
        self._context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=self._context.run, args=(self._repeat,), name="crema-live", daemon=True
        )
        self._thread.start()

    def _repeat(self) -> None:
        while True:
            self._show()
            if self._end.wait(self._period_s):
                return

    def _show(self) -> None:
        try:
            look = self._watch.look()
        except OSError:  # not yet, no more, damaged, or just being written again
            return
        self._update(render(look))
        self.n_looks += 1

    def _update(self, what: Any) -> None:
        if self._handle is not None:  # outside of a notebook there is none
            self._handle.update(what)

    def stop(self) -> None:
        """Stop; may be called again."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        self._watch.close()

    def finish(self) -> None:
        """Stop, and show the run as its sealed file has it: the last second of the live file lacks the last records."""
        self.stop()
        if (look := self._watch.last()) is not None:
            self._context.copy().run(self._update, render(look))
            self.n_looks += 1
