"""Parts of a run file and of its figures, held against the whole that they are parts of."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable

import pytest


def widths(ax) -> list[float]:
    """Length of the bars of each row of a figure, the first row first."""
    rows: dict[int, float] = {}
    for bar in ax.patches:
        y = round(bar.get_y() + bar.get_height() / 2)
        rows[y] = rows.get(y, 0.0) + bar.get_width()
    return [rows[y] for y in sorted(rows)]


def finite(values: Iterable[float]) -> float:
    return sum(v for v in values if math.isfinite(v))


def categories_of_the_budget_are_the_capacity(run) -> None:
    rows = run.rows("summary/waterfall")
    capacity = run.rows("summary/efficiency")[0].cap_s
    assert finite(r.thread_seconds for r in rows) == pytest.approx(capacity)
    assert finite(r.fraction for r in rows) == pytest.approx(1)


def what_is_left_over_is_noted(run) -> None:
    """It is a percent or less; where a worker was killed it may be more."""
    left = next(r for r in run.rows("summary/waterfall") if r.category == "residual").fraction
    noted = [note["code"] for note in json.loads(run.attributes["verdict_notes"])]
    assert ("budget_open" in noted) == (abs(left) > 0.01)
    assert abs(left) < 0.03 or run.verdict != "COMPLETE"


def sides_of_tasks_are_the_categories_of_the_budget(run) -> None:
    spent = {r.category: r.thread_seconds for r in run.rows("summary/waterfall")}
    sides = {r.side: r for r in run.rows("summary/split") if r.in_budget}
    idle = finite(s for name, s in spent.items() if name.startswith("idle_"))
    assert finite([sides["idle"].noncpu_s]) == pytest.approx(idle)
    assert finite(r.failed_s for r in sides.values()) == pytest.approx(spent["wasted"])
    of_tasks = finite(
        s
        for r in sides.values()
        if r.side not in ("idle", "wasted")
        for s in (r.cpu_s, r.noncpu_s, r.runtime_s)
    )
    rest = finite(spent[name] for name in ("absent", "wasted", "residual"))
    assert of_tasks == pytest.approx(sum(spent.values()) - idle - rest, rel=1e-6)


def bars_of_a_worker_are_its_thread_seconds(run) -> None:
    rows = sorted(run.rows("summary/per_worker"), key=lambda r: -r.thread_s)
    assert widths(run.plot.worker_share()) == pytest.approx([r.thread_s for r in rows])


def known_parts_of_a_worker_fit_into_its_thread_seconds(run) -> None:
    """Else its figure, whose last part is what is left, would cut them without a word."""
    for r in run.rows("summary/per_worker"):
        # Dask meters what failed from before its slot until after it; that time is not idle.
        held_s = r.thread_s - r.idle_s if r.wasted_s > 0 else r.busy_s
        assert finite((r.cpu_s, r.noncpu_s, r.wasted_s)) <= held_s + 0.01 * r.thread_s + 1e-6, r
        assert r.busy_s + r.idle_s <= r.thread_s + 1e-6, r


def workers_were_there_as_long_as_the_budget_says(run) -> None:
    absent = next(r.thread_seconds for r in run.rows("summary/waterfall") if r.category == "absent")
    capacity = run.rows("summary/efficiency")[0].cap_s
    there = finite(r.thread_s for r in run.rows("summary/per_worker"))
    assert there + absent == pytest.approx(capacity, rel=0.01)


def datasets_are_all_counted_chunks_in_table_and_figure(run) -> None:
    rows = run.rows("summary/per_dataset")
    if not rows:
        return  # tasks that are no chunks
    took = sorted((r.open_s + r.wall_s for r in rows), reverse=True)
    bars = [b.get_width() for b in run.plot.datasets().patches][
        : len(rows)
    ]  # opening and process()
    assert bars == pytest.approx(took)
    assert all(r.cpu_s <= r.open_s + r.wall_s + 1e-6 for r in rows)
    metrics = run.summary()
    assert sum(r.n_events for r in rows) == metrics["total_events"]
    assert finite(r.wall_s for r in rows) == pytest.approx(metrics["process_wall_time"])


def sections_of_a_chunk_are_no_longer_than_it(run) -> None:
    chunks = run["chunks"]
    whole = finite(chunks.wall_s) + finite(chunks.open_s)
    assert finite(r.self_s for r in run.rows("summary/per_section")) <= whole + 1e-6


ALL = (
    categories_of_the_budget_are_the_capacity,
    what_is_left_over_is_noted,
    sides_of_tasks_are_the_categories_of_the_budget,
    bars_of_a_worker_are_its_thread_seconds,
    known_parts_of_a_worker_fit_into_its_thread_seconds,
    workers_were_there_as_long_as_the_budget_says,
    datasets_are_all_counted_chunks_in_table_and_figure,
    sections_of_a_chunk_are_no_longer_than_it,
)
