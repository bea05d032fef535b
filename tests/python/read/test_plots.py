"""The pictures of `crema.plots`, held against what the run file says: every bar, dot and red mark."""

from __future__ import annotations

import itertools
import json
import pathlib
import re
import shutil
import tempfile

import h5py
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb
from matplotlib.testing.compare import compare_images

import crema
from crema.read import plots
from crema.read.plots import _style
from synthetic_runs import make_run

S = 1_000_000_000


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("plots")


@pytest.fixture(scope="module")
def toy(directory):
    with crema.open(make_run(directory, "toy")) as run:
        yield run


@pytest.fixture(scope="module")
def busy(directory):
    with crema.open(make_run(directory, "busy", 300)) as run:
        yield run


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def legend_of(ax) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_the_bars_of_the_waterfall_follow_each_other_and_reach_the_capacity(toy):
    ax = plots.waterfall(toy)
    bars = {
        label.get_text(): (bar.get_x(), bar.get_width())
        for label, bar in zip(ax.get_yticklabels(), ax.patches, strict=True)
    }
    want = {
        "processor, on CPU": 8.2,
        "processor, not on CPU": 3.1,
        "wasted": 2.0,
        "idle startup": 1.0,
        "idle drained": 0.2,
        "idle join": 0.5,
        "idle starved": 1.0,
        "absent": 4.0,
        "residual": 0.0,
    }
    assert {name: width for name, (_, width) in bars.items()} == pytest.approx(want)
    ends = np.cumsum(list(want.values()))
    assert [x for x, _ in bars.values()] == pytest.approx([0, *ends[:-1]])
    assert ends[-1] == pytest.approx(20)
    assert ax.get_xlabel().startswith("thread-seconds [s]")
    small = (
        "user metered",
        "runtime",
        "preprocess",
        "merge",
        "overhead",
        "unattributed",
        "idle tail",
    )
    assert all(name in ax.get_xlabel() for name in small)


def test_labels_of_bars_stay_within_the_axes(toy, tmp_path):
    path = tmp_path / "wide.h5"
    shutil.copy(toy.path, path)
    with h5py.File(path, "r+") as f:
        rows = f["summary/waterfall"][:]
        rows["thread_seconds"][1] = 60  # from the left to the right
        rows["fraction"] = rows["thread_seconds"] / rows["thread_seconds"].sum()
        f["summary/waterfall"][:] = rows
    with crema.open(path) as run:
        ax = plots.waterfall(run)
    ax.figure.canvas.draw()
    inside = ax.get_window_extent()
    for text in ax.texts:
        extent = text.get_window_extent()
        assert inside.x0 <= extent.x0 < extent.x1 <= inside.x1, text


def test_shares_that_round_to_zero_are_not_negative(toy, tmp_path):
    path = shutil.copy(toy.path, tmp_path)
    with h5py.File(path, "r+") as f:
        rows = f["summary/waterfall"][:]
        rows["thread_seconds"][rows["category"] == b"residual"] = -0.001
        rows["fraction"][rows["category"] == b"residual"] = -1e-9
        f["summary/waterfall"][:] = rows
    with crema.open(path) as run:
        labels = [text.get_text().strip() for text in plots.waterfall(run).texts]
    assert labels[-1] == "0.00 s · 0.0 %"


def test_a_side_has_one_colour_everywhere(toy):
    ax = plots.waterfall(toy)
    colours = {
        label.get_text(): to_hex(bar.get_facecolor())
        for label, bar in zip(ax.get_yticklabels(), ax.patches, strict=True)
    }
    assert colours["processor, on CPU"] == plots.SIDES["processor"]
    assert colours["wasted"] == plots.LOST
    assert {colours[name] for name in colours if name.startswith("idle")} == {plots.SIDES["idle"]}
    filled = {to_hex(c.get_facecolor()[0]) for c in plots.timeline(toy).collections}
    assert filled == {plots.SIDES["processor"], plots.SIDES["idle"]}


# Machado, Oliveira and Fernandes 2009, of linear RGB, for sight without one kind of cone.
SIGHT = {
    "all cones": np.eye(3),
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
}
TO_XYZ = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]


def lab(colour, sight):
    """CIE L*a*b* of what this sight makes of a colour; distances below 10 are hard to see in small areas."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = TO_XYZ @ np.clip(SIGHT[sight] @ linear, 0, 1) / [0.95047, 1, 1.08883]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("which", ["SIDES", "STATES", "DATASETS"])
def test_colours_are_told_apart_by_the_colour_blind_too(which, sight):
    colours = getattr(_style, which)
    named = colours.items() if isinstance(colours, dict) else zip(colours, colours, strict=True)
    for (one, first), (other, second) in itertools.combinations(named, 2):
        distance = np.linalg.norm(lab(first, sight) - lab(second, sight))
        assert distance > 12, f"{one} and {other}: {distance:.1f}"


def test_the_page_has_the_colours_of_the_figures():
    script = (pathlib.Path(_style.__file__).parents[1] / "html/page.js").read_text()
    assert f"const palette = {json.dumps(_style.DATASETS)};" in script


def test_the_timeline_steps_where_workers_came_and_were_lost(toy):
    ax = plots.timeline(toy)
    threads = next(line for line in ax.lines if line.get_drawstyle() == "steps-post")
    assert threads.get_xydata().tolist() == [[0, 1], [2, 2], [8, 1], [10, 1]]
    (lost,) = (line for line in ax.lines if line.get_color() == plots.LOST)
    assert list(lost.get_xdata()) == [8, 8]
    assert "worker lost (1)" in legend_of(ax)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time since the run began [s]", "threads")


def test_the_busy_area_is_the_files_busy_time(toy):
    ax = plots.timeline(toy)
    busy = next(
        c for c in ax.collections if to_hex(c.get_facecolor()[0]) == plots.SIDES["processor"]
    )
    x, y = busy.get_paths()[0].vertices.T
    area = abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1))) / 2
    assert area == pytest.approx(8.2 + 3.1 + 2.0, rel=1e-6)


def test_gaps_are_red_and_counted(toy, tmp_path):
    path = tmp_path / "gap.h5"
    shutil.copy(toy.path, path)
    with h5py.File(path, "r+") as f:
        row = np.zeros(1, f["gaps"].dtype)
        t0 = int(f.attrs["t_run_start_ns"])
        row["t_from_ns"], row["t_to_ns"], row["n_lost"] = t0 + 3 * S, t0 + 5 * S, 40
        del f["gaps"]
        f.create_dataset("gaps", data=row)
    with crema.open(path) as run:
        ax = plots.timeline(run)
    (span,) = (p for p in ax.patches if to_hex(p.get_facecolor()) == plots.LOST)
    assert (span.get_x(), span.get_width()) == pytest.approx((3, 2))
    assert "gap: 40 records lost" in legend_of(ax)


def test_chunks_are_dots_on_the_files_line(toy):
    ax = plots.chunk_wall(toy)
    dots = sorted(ax.collections[0].get_offsets().tolist())
    assert np.allclose(dots, [(50, 0.8), (300, 3), (300, 3), (450, 4.5)])
    line = ax.lines[0]
    assert np.allclose(line.get_xydata(), [(0, 0.28125), (450, 0.28125 + 450 * 0.00925)])
    assert "toy: 0.28 s + 9,250 µs per event" in legend_of(ax)
    assert "not drawn, events unknown: 1" in legend_of(ax)
    assert (ax.get_xlabel(), ax.get_ylabel()) == (
        "events in the chunk",
        "opening and process() [s]",
    )


def test_dots_and_line_are_of_the_same_time(busy):
    """The file's line a + b n explains opening and process() together."""
    ax = plots.chunk_wall(busy)
    chunks = busy["chunks"]
    assert chunks.open_s.max() > 0
    took = chunks.wall_s + chunks.open_s.fillna(0)
    good = (chunks.status == "ok") & (chunks.n_events >= 0) & np.isfinite(took)
    dots = np.concatenate([c.get_offsets() for c in ax.collections[: chunks.dataset.nunique()]])
    assert np.allclose(np.sort(dots[:, 1]), np.sort(took[good]))


def test_the_seconds_of_a_dataset_include_those_of_opening(busy):
    """As its CPU does, which may be more than the seconds of process()."""
    bars = busy.plot.datasets().patches
    chunks = busy["chunks"]
    good = chunks[(chunks.status == "ok") & ((chunks.quality & 8) == 0)]
    took = (good.wall_s + good.open_s.fillna(0)).groupby(good.dataset, observed=True).sum()
    cpu = good.groupby("dataset", observed=True).cpu_s.sum()
    half = len(bars) // 2
    assert np.allclose(sorted(bar.get_width() for bar in bars[:half]), sorted(took))
    assert np.allclose(sorted(bar.get_width() for bar in bars[half:]), sorted(cpu))
    assert (took > good.groupby("dataset", observed=True).wall_s.sum()).all()


def test_chunks_of_one_size_are_held_against_their_median(busy, tmp_path):
    copy = shutil.copy(busy.path, tmp_path / "one_size.h5")
    with h5py.File(copy, "r+") as file:
        rows = file["summary/chunk_model"][:]
        rows["a_s"] = rows["b_s_per_event"] = np.nan
        file["summary/chunk_model"][:] = rows
    with crema.open(copy) as run:
        ratio = run.plot.straggler_ccdf().lines[0].get_xdata()
        chunks = run["chunks"]
    chunks = chunks[chunks.status == "ok"]
    took = chunks.wall_s + chunks.open_s.fillna(0)
    median = took.groupby(chunks.dataset, observed=True).transform("median")
    assert np.allclose(np.sort(ratio), np.sort(took / median))


def test_stragglers_are_circled_and_failures_crossed(busy):
    ax = plots.chunk_wall(busy)
    chunks = busy["chunks"]
    known = (chunks.n_events >= 0) & np.isfinite(chunks.wall_s)
    n_failed = int((known & (chunks.status != "ok")).sum())
    n_slow = len(busy["summary/stragglers"])
    assert n_failed > 0
    assert n_slow > 0
    assert f"failed or lost ({n_failed})" in legend_of(ax)
    assert f"straggler ({n_slow})" in legend_of(ax)
    n_dots = sum(len(c.get_offsets()) for c in ax.collections)
    assert n_dots == int(known.sum()) + n_slow


def test_pictures_go_where_they_are_told(toy):
    _, axes = plt.subplots(3)
    figures = plt.get_fignums()
    for draw, ax in zip((plots.waterfall, plots.timeline, plots.chunk_wall), axes, strict=True):
        assert draw(toy, ax) is ax
    assert plt.get_fignums() == figures


# ---------------------------------------------------------------- the registry

OF_ROASTCOFFEA = [
    "branch_access_per_chunk",
    "bytes_accessed_per_chunk",
    "compression_ratio_distribution",
    "data_access_percentage",
    "cpu_utilization_mean",
    "cpu_utilization_per_worker",
    "memory_utilization_mean",
    "memory_utilization_per_worker",
    "efficiency_summary",
    "resource_utilization",
    "per_task_bytes_read",
    "per_task_cpu_io",
    "per_task_overhead",
    "runtime_distribution",
    "runtime_vs_events",
    "executing_tasks_timeline",
    "occupancy_timeline",
    "throughput_timeline",
    "total_active_tasks_timeline",
    "worker_activity_timeline",
    "worker_count_timeline",
]
ITS_FUNCTIONS = [
    f"{name}_timeline" for name in OF_ROASTCOFFEA if name.endswith(("_mean", "_per_worker"))
]
OF_ONE_RUN = sorted({e.name: e for e in plots.REGISTRY.values() if not e.across})
IMAGES = pathlib.Path(__file__).parent / "images"
TOLERANCE = 6  # root mean square over pixels, of 255: fonts and hinting may differ, bars may not


def test_the_names_of_roastcoffea_are_there(toy):
    assert len(OF_ROASTCOFFEA) == 21
    for name in OF_ROASTCOFFEA + ITS_FUNCTIONS:
        assert name in dir(toy.plot)


@pytest.mark.parametrize("name", OF_ONE_RUN)
def test_each_plot_asks_and_answers_with_units_and_looks_as_it_did(busy, name, tmp_path):
    """Against a picture that was looked at; `python tests/python/read/test_plots.py` makes them anew."""
    ax = save(busy, name, tmp_path / f"{name}.png")
    assert "?" in ax.get_title(loc="left")
    if reason := getattr(ax, "crema_empty", ""):
        assert len(reason.split()) > 3
        assert reason in [text.get_text() for text in ax.texts]
    else:
        labels = ax.get_xlabel() + ax.get_ylabel()
        assert ax.get_xlabel()
        assert re.search(
            r"\[.+\]|events|branches|count|threads|tasks|ideal|chunks|/|workers", labels
        )
    difference = compare_images(IMAGES / f"{name}.png", tmp_path / f"{name}.png", TOLERANCE)
    assert difference is None, difference


@pytest.fixture(scope="module")
def with_a_gap(toy, tmp_path_factory):
    """The run with a gap."""
    path = shutil.copy(toy.path, tmp_path_factory.mktemp("gap") / "gap.h5")
    with h5py.File(path, "r+") as f:
        row = np.zeros(1, f["gaps"].dtype)
        row["t_from_ns"] = int(f.attrs["t_run_start_ns"]) + 3 * S
        row["t_to_ns"], row["n_lost"] = row["t_from_ns"] + 2 * S, 40
        del f["gaps"]
        f.create_dataset("gaps", data=row)
        f.attrs["loss_total"] = 40
    with crema.open(path) as run:
        yield run


@pytest.fixture(scope="module")
def of_nothing(toy, tmp_path_factory):
    """The run with every table empty."""
    path = shutil.copy(toy.path, tmp_path_factory.mktemp("empty") / "empty.h5")
    with h5py.File(path, "r+") as f:
        for table in [n for n in toy if not n.startswith("schema")]:
            dtype, attributes = f[table].dtype, dict(f[table].attrs)
            del f[table]
            f.create_dataset(table, data=np.zeros(0, dtype)).attrs.update(attributes)
        for array in list(f["grid"]):
            values = f["grid"][array][:]
            if values.ndim == 2:
                del f["grid"][array]
                f["grid"].create_dataset(array, data=np.full((0, values.shape[1]), np.nan))
    with crema.open(path) as run:
        yield run


@pytest.mark.parametrize("name", OF_ONE_RUN)
def test_gaps_are_on_every_plot(with_a_gap, name):
    """A run with a gap: shaded over time, a red line elsewhere; the same of a complete run has neither."""
    ax = getattr(with_a_gap.plot, name)()
    if getattr(ax, "crema_empty", ""):
        return
    said = ax.get_title(loc="right") + " ".join(legend_of(ax) if ax.get_legend() else [])
    assert "40 records" in said
    assert ("gap: 40 records lost" in said) == (ax.get_xlabel() == "time since the run began [s]")


@pytest.mark.parametrize("name", OF_ONE_RUN)
def test_a_run_of_nothing_is_drawn_too(of_nothing, name):
    """Each plot says why it is empty, or draws what there is."""
    figure = getattr(of_nothing.plot, name)().figure
    figure.set_dpi(30)  # all of it is drawn, on few pixels
    figure.canvas.draw()


def test_a_live_file_has_plots_of_what_is_there(toy, tmp_path):
    path = shutil.copy(toy.path, tmp_path / "so_far.h5")
    with h5py.File(path, "r+") as f:
        for name in ("summary", "grid", "worker_count"):
            del f[name]
        f.attrs["state"], f.attrs["verdict"], f.attrs["t_run_end_ns"] = "live", "OPEN", np.int64(0)
    with crema.open(path) as run:
        for name in ("chunk_wall", "runtime_distribution", "task_stream", "memory", "occupancy"):
            getattr(run.plot, name)().figure.canvas.draw()
        for name in ("waterfall", "timeline", "savings", "chunk_size"):
            with pytest.raises(KeyError, match=r"not sealed|until its run has ended"):
                getattr(run.plot, name)()


def save(run, name, path):
    with plt.rc_context({"figure.dpi": 45, "savefig.dpi": 45}):
        ax = getattr(run.plot, name)()
        ax.figure.savefig(path, metadata={"Software": None})
        plt.close(ax.figure)
    return ax


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as directory,
        crema.open(make_run(pathlib.Path(directory), "busy", 300)) as run,
    ):
        for name in OF_ONE_RUN:
            save(run, name, IMAGES / f"{name}.png")
