"""`run.chunks` and its like, `crema.runs`, and the mapping that a run file is."""

from __future__ import annotations

import inspect
import shutil
import subprocess
import sys

import h5py
import numpy as np
import pandas as pd
import pytest

import crema
from crema.read.plots.tasks import _ranks
from crema.read.reader import RunFile

VIEWS = [
    name
    for name, value in inspect.getmembers(RunFile, lambda value: isinstance(value, property))
    if value.fget.__annotations__.get("return") == "pd.DataFrame"
]


@pytest.fixture
def run(measured):
    with crema.open(measured.path) as run:
        yield run


def test_views_have_units_and_descriptions(run):
    assert len(VIEWS) >= 12
    for name in VIEWS:
        frame = getattr(run, name)
        assert isinstance(frame, pd.DataFrame), name
        assert not [c for c in frame.columns if c.startswith("t_") and c.endswith("_ns")], name
        assert (
            set(frame.attrs["units"]) >= set(frame.columns) - {"worker", "dataset", "file"} or name
        )
        assert frame.attrs["description"], name


def test_chunks_have_real_times_names_and_units(run, fileset):
    chunks = run.chunks
    assert isinstance(chunks.t_start.dtype, pd.DatetimeTZDtype)
    assert str(chunks.t_start.dt.tz) == "UTC"
    ns = run.table("chunks", names=False).t_start_ns
    assert (chunks.t_start.astype("int64") == ns).all()
    for name in ("dataset", "worker", "file", "task_prefix", "status"):
        assert isinstance(chunks[name].dtype, pd.CategoricalDtype), name
    assert set(chunks.dataset) == set(fileset)
    assert chunks.attrs["units"]["t_start"] == "UTC"
    assert chunks.attrs["units"]["wall_s"] == "s"
    assert chunks.groupby("dataset", observed=True).n_events.sum().sum() == 4000


def test_a_sealed_table_is_read_once_and_only_when_asked_for(run):
    assert run._frames == {}
    assert run.chunks is run.chunks
    assert set(run._frames) == {"chunks"}


def test_workers_have_their_share_of_the_work(run):
    workers = run.workers
    assert len(workers) == 2
    assert workers.n_chunks.sum() == len(run.chunks)
    assert workers.attrs["units"]["cpu_s"] == "s"


def test_metrics_have_their_units_and_status(run):
    metrics = run.metrics
    assert metrics.loc["total_events", "value"] == 4000
    assert metrics.loc["wall_time", "units"] == "s"
    assert run.waterfall.fraction.sum() == pytest.approx(1)
    assert run.bottlenecks.index.is_monotonic_increasing


def test_a_run_is_a_mapping(run):
    assert "chunks" in run
    assert "/chunks" in run
    assert "chunk" not in run
    assert "grid" not in run
    assert "grid/cpu_pct" not in run
    assert 3 not in run
    assert run.get("chunk") is None
    assert len(run.get("chunks")) == len(run.chunks)
    assert len(dict(run.items())) == len(run) == len(run.keys())
    assert run == run
    assert {run: 1}[run] == 1


def test_arrays_are_the_columns_of_the_file(run):
    with h5py.File(run.path) as file:
        for name in ("wall_s", "status", "worker_id"):
            mine = run.arrays("chunks", [name])[name]
            assert mine.dtype == file["chunks"].dtype[name]
            np.testing.assert_array_equal(mine, file["chunks"][name])
    with pytest.raises(KeyError, match="no column 'nope'"):
        run.arrays("chunks", ["nope"])


def test_a_table_that_is_asked_for_again_is_read_to_its_last_column(run):
    """Rows are compressed whole: column by column, a report would inflate a large table ten times."""
    with crema.open(run.path) as fresh:
        one = fresh.arrays("chunks", ["wall_s"])["wall_s"]
        assert set(fresh._arrays["chunks"]) == {"wall_s"}
        fresh.arrays("chunks", ["cpu_s"])
        columns = list(fresh.file["chunks"].dtype.names)
        found = fresh.arrays("chunks", columns)
        assert set(fresh._arrays["chunks"]) == set(columns)
        assert found["wall_s"] is one
        for name in columns:
            np.testing.assert_array_equal(found[name], fresh.file["chunks"][name])


@pytest.mark.parametrize("top", [3, 400, 2**40])
def test_ranks_are_those_of_the_different_values(top):
    values = np.random.default_rng(1).integers(0, top, 1000)
    np.testing.assert_array_equal(_ranks(values), np.unique(values, return_inverse=True)[1])


def test_a_file_says_what_state_it_is_in(run, tmp_path):
    assert run.state == "sealed"
    assert "sealed, COMPLETE, 8 chunks" in repr(run)
    partial = shutil.copy(run.path, tmp_path / "partial.h5")
    with h5py.File(partial, "a") as file:
        file.attrs["verdict"] = "PARTIAL"
        file.attrs["verdict_reasons"] = '[{"code": "records_lost", "count": 3}]'
    with crema.open(partial) as other:
        assert other.state == "partial"
        assert "PARTIAL (1 reason)" in repr(other)


def test_the_runs_of_a_directory_are_a_table(run, tmp_path):
    shutil.copy(run.path, tmp_path / "a.h5")
    shutil.copy(run.path, tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5", "a") as file:
        file.attrs["run_id"], file.attrs["t_run_start_ns"] = "earlier", np.int64(10**18)
    (tmp_path / "text.h5").write_text("hello")
    with pytest.warns(UserWarning, match=r"text\.h5 is not an HDF5 file"):
        runs = crema.runs(tmp_path)
    assert list(runs.index) == ["earlier", run.run_id]
    assert list(runs.file) == ["b.h5", "a.h5"]
    assert runs.t_run_start.iloc[0] == pd.Timestamp("2001-09-09 01:46:40", tz="UTC")
    assert runs.total_events.tolist() == [4000, 4000]
    assert runs.verdict.tolist() == ["COMPLETE", "COMPLETE"]
    assert runs.attrs["units"]["wall_time"] == "s"


def test_a_directory_without_runs_is_an_empty_table(tmp_path):
    runs = crema.runs(tmp_path)
    assert len(runs) == 0
    assert "verdict" in runs.columns
    with pytest.raises(FileNotFoundError, match="no directory"):
        crema.runs(tmp_path / "nothing")


def test_the_package_is_typed_and_completes(run):
    assert "waterfall" in dir(run.plot)
    with pytest.raises(AttributeError, match="there is no plot 'water'"):
        run.plot.water()
    code = (
        "import crema, pathlib; assert (pathlib.Path(crema.__file__).parent / 'py.typed').exists()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert set(crema.__all__) <= set(dir(crema))
