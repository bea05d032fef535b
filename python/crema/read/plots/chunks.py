"""What a chunk costs: by its events, its dataset and what it read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from .. import access
from .._attempts import WITH_OPENING, count, returned
from .._numbers import readable
from ._style import (
    DATASETS,
    FAINT,
    INK,
    LOST,
    SIDES,
    NothingToDrawError,
    counted,
    need_sealed,
    plot,
    short,
    swatch,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..reader import RunFile

_DOTS_MAX = 20_000  # more are drawn as a density


@plot(
    "What does a chunk cost?", group="Chunks", height=4.0, grid="both", also=("runtime_vs_events",)
)
def chunk_wall(run: RunFile, ax: Axes) -> Any:
    """Time of a chunk against its events: the fixed cost of a chunk, the cost per event, and slow chunks.

    Parameters
    ----------
    run : RunFile
        Sealed or live; the fit is in a sealed file only.
    ax : matplotlib.axes.Axes, optional
        Axes to draw into; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        x: events. y: seconds of opening and process(), which the line is for. One dot per attempt that returned, coloured by
        dataset; a line a + b n where the file has one; circles: stragglers; crosses: attempts that failed. Of more than 20,000
        attempts a density.

    Notes
    -----
    Source: ``chunks``, ``summary/chunk_model``, ``summary/stragglers``. Attempts with unknown events or time (their
    worker was lost) are counted in the legend.
    """
    rows = dict(run.arrays("chunks", ["n_events", "wall_s", "open_s", "status", "dataset_id"]))
    rows["took_s"] = rows["wall_s"] + np.nan_to_num(rows["open_s"])
    n_events, took_s = rows["n_events"], rows["took_s"]
    known = (n_events >= 0) & np.isfinite(took_s)
    ok = known & returned(run, rows["status"])
    names = run.names("dataset")
    models = {m.dataset_id: m for m in run.rows("summary/chunk_model")} if _sealed(run) else {}
    n_max, took_max = 0, 0.0
    if known.any():
        n_max, took_max = int(n_events[known].max()), float(took_s[known].max())
    entries: list[Any] = []
    dense = int(ok.sum()) > _DOTS_MAX
    if dense:
        ax.hexbin(n_events[ok], took_s[ok], gridsize=90, bins="log", cmap="cividis", mincnt=1,
                  rasterized=True)  # fmt: skip
        entries.append(Line2D([], [], linestyle="", label=f"density of {ok.sum():,} attempts"))
    ids = [i for i in np.unique(rows["dataset_id"]) if i < len(names)]
    for k, i in enumerate(sorted(ids, key=lambda i: names[i])):
        colour, dataset = DATASETS[k % len(DATASETS)], short(names[i])
        of = ok & (rows["dataset_id"] == i)
        if not dense:
            ax.scatter(n_events[of], took_s[of], s=18, color=colour, alpha=0.65, linewidth=0)
        entries.append(Line2D([], [], color=colour, marker="o", linestyle="", label=dataset))
        model = models.get(i)
        if model and np.isfinite(model.b_s_per_event):
            n = np.array([0, n_max])
            ax.plot(n, model.a_s + model.b_s_per_event * n, color=colour, linewidth=1.2)
            entries[-1].set_label(
                f"{dataset}: {readable(model.a_s, 2)} s + {readable(1e6 * model.b_s_per_event)} µs per event"
            )
    entries += _mark_attempts(run, ax, rows, known)
    ax.set_xlim(0, 1.05 * n_max or 1.0)
    ax.set_ylim(0, 1.08 * took_max or 1.0)
    ax.set_xlabel("events in the chunk")
    ax.set_ylabel("opening and process() [s]")
    ax.xaxis.set_major_formatter(lambda n, _: f"{n:,.0f}")
    return entries


def _mark_attempts(run: RunFile, ax: Axes, rows: Any, known: Any) -> list[Any]:
    """Stragglers, attempts that failed, attempts that cannot be drawn; what the legend says of them."""
    entries: list[Any] = []
    slow = _straggler_rows(run, len(known)) if _sealed(run) else []
    if len(slow):
        ax.scatter(
            rows["n_events"][slow],
            rows["took_s"][slow],
            s=90,
            facecolors="none",
            edgecolors=INK,
            linewidth=1.0,
            rasterized=len(slow) > 1000,
        )
        entries.append(
            Line2D([], [], color=INK, marker="o", markersize=9, fillstyle="none", linestyle="")
        )
        entries[-1].set_label(f"straggler ({len(slow)})")
    failed = known & ~returned(run, rows["status"])
    if failed.any():
        ax.scatter(
            rows["n_events"][failed],
            rows["took_s"][failed],
            s=36,
            marker="x",
            color=LOST,
            linewidth=1.4,
            rasterized=failed.sum() > 1000,
        )
        label = f"failed or lost ({failed.sum()})"
        entries.append(Line2D([], [], color=LOST, marker="x", linestyle="", label=label))
    if not known.all():
        label = f"not drawn, events unknown: {(~known).sum():,}"
        entries.append(Line2D([], [], linestyle="", label=label))
    return entries


@plot("How alike are the chunks?", group="Chunks", height=2.8)
def runtime_distribution(run: RunFile, ax: Axes) -> Any:
    """Distribution of the time in process() over counted attempts. Source: ``chunks.wall_s``."""
    wall_s = _process_s(counted(run, "wall_s", "quality"))
    return _histogram(ax, wall_s, "process() [s]", "no time in process() is known")


def _process_s(rows: dict[str, np.ndarray]) -> np.ndarray:
    """Seconds in process() alone; NaN where opening is in them."""
    return np.where(rows["quality"] & WITH_OPENING, np.nan, rows["wall_s"])


@plot("What makes the tail?", group="Chunks", height=3.2, grid="both")
def straggler_ccdf(run: RunFile, ax: Axes) -> Any:
    """Share of the chunks that took longer than this many times what their events explain; circles: stragglers.

    Of chunks of one size (without a model) it is the median of the dataset. Source: ``chunks``, ``summary/chunk_model``, ``summary/stragglers``.
    """
    need_sealed(run)
    rows = run.arrays("chunks", ["wall_s", "open_s", "n_events", "dataset_id", "status", "quality"])
    a = np.full(len(run.file["dict/dataset"]), np.nan)
    b = a.copy()
    for model in run.rows("summary/chunk_model"):
        if model.dataset_id < len(a) and model.method.startswith("theil_sen"):
            a[model.dataset_id], b[model.dataset_id] = model.a_s, model.b_s_per_event
    known = (rows["dataset_id"] < len(a)) & (rows["n_events"] >= 0)
    dataset = np.where(known, rows["dataset_id"], 0) if len(a) else np.zeros(len(known), int)
    if not len(a):
        raise NothingToDrawError("no chunk was recorded")
    expected = a[dataset] + b[dataset] * rows["n_events"]
    took = rows["wall_s"] + np.nan_to_num(rows["open_s"])
    known &= count(run, rows["status"], rows["quality"])
    for i in np.unique(dataset[known & np.isnan(expected)]):  # chunks of one size have no line
        of = known & (dataset == i) & np.isfinite(took)
        expected[of] = np.median(took[of]) if of.any() else np.nan
    ratio = np.where(known & (expected > 0), took / np.where(expected > 0, expected, 1), np.nan)
    good = np.sort(ratio[np.isfinite(ratio)])
    if len(good) < 2:
        raise NothingToDrawError("fewer than two chunks were processed to their end")
    share = 1 - np.arange(len(good)) / len(good)
    ax.plot(good, share, drawstyle="steps-post", color=SIDES["processor"], linewidth=1.6)
    slow = _straggler_rows(run, len(ratio))
    entries = [Line2D([], [], color=SIDES["processor"], label=f"{len(good):,} chunks")]
    slow = slow[np.isfinite(ratio[slow])]
    if len(slow):
        at = np.searchsorted(good, ratio[slow])
        ax.scatter(ratio[slow], share[np.minimum(at, len(share) - 1)], s=60, facecolors="none",
                   edgecolors=LOST)  # fmt: skip
        entries.append(Line2D([], [], color=LOST, marker="o", fillstyle="none", linestyle=""))
        entries[-1].set_label(f"straggler ({len(slow)})")
    ax.set_yscale("log")
    ax.set_xlabel("time of the chunk / what its events explain")
    ax.set_ylabel("share of the chunks above")
    return entries


@plot("Would another chunk size be faster?", group="Chunks", height=3.0, grid="both")
def chunk_size(run: RunFile, ax: Axes) -> Any:
    """Expected makespan of the chunks against the events of a chunk, the same for all datasets; dashed: today's size and the best.

    E a/(N n) + E b/N + (a + b n): fixed costs shared by N threads, work shared, and one chunk at the end. Source:
    ``summary/chunk_model``, ``summary/efficiency``.
    """
    need_sealed(run)
    models = [m for m in run.rows("summary/chunk_model") if np.isfinite(m.a_s)]
    efficiency = run.rows("summary/efficiency")
    if not models or not efficiency or not efficiency[0].n_threads_avg > 0:
        raise NothingToDrawError(
            "no model a + b n: the chunks of a dataset are too few, or opening was not measured"
        )
    events = {r.dataset_id: r.n_events for r in run.rows("summary/per_dataset")}
    threads = efficiency[0].n_threads_avg
    total = sum(events.get(m.dataset_id, 0) for m in models)
    if not total > 0:
        raise NothingToDrawError("no event was processed to its end")
    a = sum(m.a_s * events.get(m.dataset_id, 0) for m in models) / total
    b = sum(m.b_s_per_event * events.get(m.dataset_id, 0) for m in models) / total
    now = float(np.median(counted(run, "n_events")["n_events"]))
    best = np.sqrt(total * a / (threads * b)) if a > 0 and b > 0 else np.nan
    ends = [x for x in (now, best) if np.isfinite(x) and x > 0]
    n = np.geomspace(max(1, min(ends) / 8), max(ends) * 8, 300)
    span = total * a / (threads * n) + total * b / threads + a + b * n
    ax.plot(n, span, color=SIDES["processor"], linewidth=1.8)
    ax.axvline(now, color=INK, linestyle=(0, (4, 2)), linewidth=1.2)
    entries = [Line2D([], [], color=INK, linestyle=(0, (4, 2)), label=f"today: {now:,.0f} events")]
    if np.isfinite(best) and best > 0:
        ax.axvline(best, color=SIDES["preprocess"], linestyle=":", linewidth=2)
        label = f"least: {best:,.0f} events"
        entries.append(Line2D([], [], color=SIDES["preprocess"], linestyle=":", label=label))
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_ylim(0, 1.05 * span[(n > min(ends) / 4) & (n < max(ends) * 4)].max())
    ax.set_xlabel("events in a chunk")
    ax.set_ylabel("expected time of all chunks [s]")
    return entries


@plot("Which dataset costs most?", group="Chunks", height=3.0, grid="x")
def datasets(run: RunFile, ax: Axes) -> Any:
    """Seconds of opening and process() of each dataset, on CPU and not; beside the bars what an event costs in process().

    Source: ``chunks``, ``summary/per_dataset``.
    """
    need_sealed(run)
    rows = run.rows("summary/per_dataset")
    if not rows:
        raise NothingToDrawError("no chunk was recorded")
    chunks = counted(run, "dataset_id", "wall_s", "open_s")
    known = chunks["dataset_id"] < len(rows)
    took_s = np.nan_to_num(chunks["wall_s"]) + np.nan_to_num(chunks["open_s"])
    took = np.bincount(chunks["dataset_id"][known], took_s[known], len(rows))
    rows = sorted(rows, key=lambda r: -took[r.dataset_id])[:24]
    cpu = np.nan_to_num([r.cpu_s for r in rows])
    wall = np.maximum(cpu, [took[r.dataset_id] for r in rows])
    ax.barh(range(len(rows)), wall, height=0.62, color="#8fb3d1")
    ax.barh(range(len(rows)), cpu, height=0.62, color=SIDES["processor"])
    for y, row in enumerate(rows):
        text = f"  {readable(1e6 * row.s_per_event)} µs per event in process()"
        ax.text(wall[y], y, text, va="center", fontsize="small", color=FAINT)
    ax.set_yticks(range(len(rows)), [short(r.dataset) for r in rows])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_xlim(0, 1.4 * max([*wall, 1e-12]))
    ax.set_xlabel("opening and process() [s]")
    return [swatch(SIDES["processor"], "on CPU"), swatch("#8fb3d1", "not on CPU")]


@plot("Is a file slow?", group="Chunks", height=3.4, grid="x")
def files(run: RunFile, ax: Axes) -> Any:
    """Time in process() per event of each file; the 24 with the highest. Source: ``chunks``, ``dict/file``."""
    rows = counted(run, "file_id", "wall_s", "n_events", "quality")
    rows["wall_s"] = _process_s(rows)
    names = run.names("file")
    known = (rows["file_id"] < len(names)) & (rows["n_events"] > 0) & np.isfinite(rows["wall_s"])
    if not known.any():
        raise NothingToDrawError("no chunk has a file and a known time in process()")
    seconds = np.bincount(rows["file_id"][known], rows["wall_s"][known], len(names))
    events = np.bincount(rows["file_id"][known], rows["n_events"][known], len(names))
    cost = np.where(events > 0, 1e6 * seconds / np.maximum(events, 1), np.nan)
    order = np.argsort(np.nan_to_num(-cost, nan=np.inf))[: min(24, int((events > 0).sum()))]
    ax.barh(range(len(order)), cost[order], height=0.62, color=SIDES["processor"])
    median = float(np.nanmedian(cost))
    ax.axvline(median, color=INK, linestyle=(0, (4, 2)), linewidth=1.2)
    ax.set_yticks(range(len(order)), [_end_of(names[i]) for i in order], fontsize="small")
    ax.set_ylim(len(order) - 0.4, -0.6)
    ax.set_xlabel("process() per event [µs]")
    return [Line2D([], [], color=INK, linestyle=(0, (4, 2)), label=f"median {readable(median)} µs")]


@plot(
    "How many branches does a chunk touch?",
    group="Data",
    height=2.6,
    also=("branch_access_per_chunk",),
)
def branches(run: RunFile, ax: Axes) -> Any:
    """Branches touched by each counted attempt. Source: ``chunks.n_branches``."""
    values = counted(run, "n_branches")["n_branches"].astype(float)
    values[values < 0] = np.nan
    why_empty = "no chunk recorded which branches it touched"
    return _histogram(ax, values, "branches", why_empty, whole=True)


@plot("How much does a chunk read?", group="Data", height=2.6, also=("bytes_accessed_per_chunk",))
def bytes_accessed(run: RunFile, ax: Axes) -> Any:
    """Compressed size of the branches that each counted attempt touched. Source: ``chunks.bytes_accessed_b``."""
    values = 1e-6 * counted(run, "bytes_accessed_b")["bytes_accessed_b"]
    values[values < 0] = np.nan
    return _histogram(ax, values, "bytes accessed [MB]", "sizes of the branches are not known")


@plot(
    "How well is the input compressed?",
    group="Data",
    height=2.6,
    also=("compression_ratio_distribution",),
)
def compression_ratio(run: RunFile, ax: Axes) -> Any:
    """Uncompressed over compressed size of the branches touched. Source: ``chunks``."""
    rows = counted(run, "bytes_accessed_b", "bytes_uncompressed_b")
    good = (rows["bytes_accessed_b"] > 0) & (rows["bytes_uncompressed_b"] >= 0)
    ratio = rows["bytes_uncompressed_b"][good] / rows["bytes_accessed_b"][good]
    return _histogram(ax, ratio, "uncompressed / compressed", "sizes of the branches are not known")


@plot(
    "How much of its files does the analysis touch?",
    group="Data",
    height=2.6,
    grid="x",
    also=("data_access_percentage",),
)
def data_access(run: RunFile, ax: Axes) -> Any:
    """Share of the trees of each dataset that its chunks touched: in compressed bytes, and in branches.

    The whole is what the chunks' files hold, in the tree that was read; where the size of the tree is unknown (RNTuple, Parquet, files
    of earlier versions), the size of the file. Source: ``chunks``, ``dict/file``.
    """
    rows, trees = counted(run, *access.NEEDED), access.trees(run)
    shares = {
        "bytes": access.bytes_percent(rows, trees, trees["dataset"]),
        "branches": access.branches_percent(rows, trees, trees["dataset"]),
    }
    names = run.names("dataset")
    ids = [i for i in sorted({*shares["bytes"], *shares["branches"]}) if i < len(names)]
    if not ids:
        raise NothingToDrawError("the sizes of trees and files are not known, nor their branches")
    for offset, (what, colour) in zip((-0.2, 0.2), _TOUCHED.items(), strict=True):
        for y, i in enumerate(ids):
            share = shares[what].get(i, np.nan)
            ax.barh(y + offset, share, height=0.36, color=colour)
            text = f"  {share:.3g} %" if np.isfinite(share) else "  unknown"
            end = np.nan_to_num(share)
            ax.text(end, y + offset, text, va="center", fontsize="small", color=FAINT)
    ax.set_yticks(range(len(ids)), [short(names[i]) for i in ids])
    ax.set_ylim(len(ids) - 0.4, -0.6)
    ax.set_xlim(0, 1.15 * max(max(of.values(), default=0) for of in shares.values()) or 1.0)
    ax.set_xlabel("touched, of the whole tree [%]")
    return [swatch(colour, what) for what, colour in _TOUCHED.items()]


_TOUCHED = {"bytes": SIDES["processor"], "branches": SIDES["foreign"]}


def _end_of(path: str, length: int = 40) -> str:
    """The part of a path that distinguishes it from others."""
    return short(path if len(path) <= length else "…" + path[1 - length :], length)


def _histogram(
    ax: Axes, values: Any, label: str, why_empty: str, *, whole: bool = False
) -> list[Any]:
    values = values[np.isfinite(values)]
    if not len(values):
        raise NothingToDrawError(why_empty)
    bins: Any = min(60, max(8, int(np.sqrt(len(values)))))
    if whole and np.ptp(values) < bins:  # a bar for each
        bins = np.arange(values.min() - 1.5, values.max() + 2)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.hist(values, bins=bins, color=SIDES["processor"], rwidth=0.94)
    p50, p95 = np.quantile(values, [0.5, 0.95])
    ax.axvline(p50, color=INK, linestyle=(0, (4, 2)), linewidth=1.2)
    ax.axvline(p95, color=SIDES["overhead"], linestyle=":", linewidth=2)
    ax.set_xlabel(label)
    ax.set_ylabel("chunks")
    return [
        Line2D([], [], color=INK, linestyle=(0, (4, 2)), label=f"median {readable(p50, 4)}"),
        Line2D([], [], color=SIDES["overhead"], linestyle=":", label=f"95 %: {readable(p95, 4)}"),
    ]


def _straggler_rows(run: RunFile, n_chunks: int) -> Any:
    """Rows of ``chunks`` that are stragglers."""
    rows = run.arrays("summary/stragglers", ["chunk_row"])["chunk_row"]
    return rows[(rows >= 0) & (rows < n_chunks)]


def _sealed(run: RunFile) -> bool:
    return "summary/workflow" in run.file
