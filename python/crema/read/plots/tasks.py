"""The task stream: what ran where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.collections import PolyCollection

from ._style import SIDES, NothingToDrawError, plot, since, swatch, window

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..reader import RunFile

_DRAWN_MAX = 20_000  # more are drawn as busy threads by side
_STEPS = 400


def slots(run: RunFile) -> dict[str, np.ndarray]:
    """Tasks that took a thread, each with the row of its slot.

    Returns
    -------
    dict of ndarray
        ``start_ns``, ``stop_ns``, ``slot`` (dense from 0, by worker and thread), ``side``, ``status``, ``prefix``, ``worker``
        and ``key``, one element per execution; in the order of the file.

    Raises
    ------
    NothingToDrawError
        If no task was recorded.
    """
    columns = ["t_start_ns", "t_stop_ns", "worker_id", "thread", "side", "status", "task_prefix_id"]
    rows = run.arrays("task_events", [*columns, "task_key", "action"])
    good = rows["action"] == run.labels("task_events", "action")["compute"]
    good &= (rows["t_start_ns"] > 0) & (rows["t_stop_ns"] >= rows["t_start_ns"])
    if not good.any():
        raise NothingToDrawError("no task was recorded: /task_events is empty without Dask")
    worker, thread = _ranks(rows["worker_id"][good]), _ranks(rows["thread"][good])
    return {
        "start_ns": rows["t_start_ns"][good],
        "stop_ns": rows["t_stop_ns"][good],
        "slot": _ranks(worker * (int(thread.max()) + 1) + thread),
        "side": rows["side"][good],
        "status": rows["status"][good],
        "prefix": rows["task_prefix_id"][good],
        "worker": rows["worker_id"][good],
        "key": rows["task_key"][good],
    }


def _ranks(values: np.ndarray) -> np.ndarray:
    """Position of each value among the different ones, without sorting where they are not far apart."""
    top = int(values.max())
    if top > 4 * len(values) + (1 << 16):
        return np.unique(values, return_inverse=True)[1]
    there = np.zeros(top + 1, dtype=bool)
    there[values] = True
    return (np.cumsum(there) - 1)[values]


def busy_by_side(
    run: RunFile, tasks: dict[str, np.ndarray]
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Busy threads in even steps of time, by side: edges in seconds since the run began, mean threads of each step."""
    window_ns = window(run)
    labels = {code: label for label, code in run.labels("task_events", "side").items()}
    edges = np.linspace(0, (window_ns[1] - window_ns[0]) * 1e-9, _STEPS + 1)
    start, stop = since(tasks["start_ns"], window_ns), since(tasks["stop_ns"], window_ns)
    busy: dict[str, np.ndarray] = {}
    for code in np.unique(tasks["side"]):
        of = tasks["side"] == code
        done = _integral(stop[of], edges) - _integral(start[of], edges)
        side = _known(labels.get(code))
        busy[side] = busy.get(side, 0.0) - np.diff(done) / np.diff(edges)
    return edges, busy


def _known(side: str | None) -> str:
    """The side; those of later versions have no colour here."""
    return side if side in SIDES else "unattributed"


def _integral(points: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Sum over points of max(0, edge - point)."""
    points = np.sort(points)
    total = np.append(0.0, np.cumsum(points))
    n = np.searchsorted(points, edges)
    return n * edges - total[n]


@plot("What ran where?", group="Tasks", height=3.6, time_axis=True, grid="")
def task_stream(run: RunFile, ax: Axes) -> Any:
    """Every task on its thread, coloured by side of the budget; of more than 20,000 the busy threads by side.

    Source: ``task_events``.
    """
    tasks, window_ns = slots(run), window(run)
    labels = {code: label for label, code in run.labels("task_events", "side").items()}
    sides = list(dict.fromkeys(_known(labels.get(code)) for code in np.unique(tasks["side"])))
    if len(tasks["slot"]) > _DRAWN_MAX:
        edges, busy = busy_by_side(run, tasks)
        bottom = np.zeros(len(edges))
        for side in sides:
            top = bottom + np.append(busy[side], busy[side][-1:])
            ax.fill_between(edges, bottom, top, step="post", color=SIDES[side], linewidth=0)
            bottom = top
        ax.set_ylabel("busy threads")
        ax.set_title(f"What ran? {len(tasks['slot']):,} tasks", loc="left")
        return [swatch(SIDES[side], side) for side in sides]
    start, stop = since(tasks["start_ns"], window_ns), since(tasks["stop_ns"], window_ns)
    colours = np.array([SIDES[_known(labels.get(code))] for code in range(256)])
    bad = tasks["status"] != run.labels("task_events", "status")["ok"]
    fill = np.where(bad, SIDES["wasted"], colours[tasks["side"]])
    low, high = tasks["slot"] + 0.12, tasks["slot"] + 0.88
    corners = np.stack([start, low, stop, low, stop, high, start, high], axis=1).reshape(-1, 4, 2)
    width = 0.4 if len(corners) < 2000 else 0
    bars = PolyCollection(corners, facecolors=fill, edgecolors="white", linewidths=width)
    bars.set_rasterized(len(corners) > 2000)
    ax.add_collection(bars)
    n_slots = int(tasks["slot"].max()) + 1
    ax.set_ylim(n_slots, 0)
    ax.set_ylabel(f"{n_slots} threads")
    ax.set_yticks([])
    entries = [swatch(SIDES[side], side) for side in sides]
    return entries + ([swatch(SIDES["wasted"], "failed or lost")] if bad.any() else [])
