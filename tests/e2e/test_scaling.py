"""`crema scaling` on run files whose numbers are known by hand."""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys

import h5py
import pytest

from crema.reader import RunFileError
from crema.scaling import MixedRunsError, scaling
from test_run_file import make_run


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("scaling")


@pytest.fixture(scope="module")
def toy(directory):
    return make_run(directory, "toy")


def variant(source, path, *, metrics=None, attributes=None):
    """The same run with other numbers in its file."""
    shutil.copy(source, path)
    with h5py.File(path, "r+") as f:
        f.attrs.update(attributes or {})
        rows = f["summary/workflow"][:]
        for name, value in (metrics or {}).items():
            rows["value"][rows["name"] == name.encode()] = value
        f["summary/workflow"][:] = rows
    return path


def run_command(*arguments):
    code = "from crema.command import main; main()"
    command = [sys.executable, "-c", code, "scaling", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_a_run_is_as_efficient_as_itself(toy):
    (point,) = scaling([toy])
    assert point.threads == pytest.approx(1.6)
    assert point.wall_s == pytest.approx(10)
    assert point.throughput_hz == pytest.approx(110)
    assert point.steady_hz == pytest.approx(125)
    assert point.core_occupancy == pytest.approx(0.70625)
    assert point.cpu_efficiency == pytest.approx(0.5125)
    assert point.efficiency == pytest.approx(1)
    assert point.verdict == "PARTIAL"


def test_efficiency_is_against_the_fewest_threads(toy, tmp_path):
    half = variant(toy, tmp_path / "a.h5", metrics={"wall_time": 5.0, "total_cores": 3.2})
    slow = variant(toy, tmp_path / "b.h5", metrics={"wall_time": 4.0, "total_cores": 6.4})
    points = scaling([slow, half, toy])
    assert [p.threads for p in points] == pytest.approx([1.6, 3.2, 6.4])
    assert [p.efficiency for p in points] == pytest.approx([1, 1, 16 / 25.6])
    assert [p.throughput_hz for p in points] == pytest.approx([110, 220, 275])


def test_of_repeated_references_the_mean_counts(toy, tmp_path):
    again = variant(toy, tmp_path / "a.h5", metrics={"wall_time": 12.0, "total_cores": 1.61})
    points = scaling([toy, again])
    mean = (16 + 12 * 1.61) / 2
    assert [p.efficiency for p in points] == pytest.approx([mean / 16, mean / (12 * 1.61)])


@pytest.mark.parametrize(
    ("metrics", "attributes", "what"),
    [
        ({"total_events": 1000.0}, {}, "events"),
        ({}, {"chunksize": 77}, "chunk size"),
        ({}, {"processor_name": "Other"}, "processor"),
        ({}, {"coffea_version": "1"}, "coffea"),
    ],
)
def test_runs_of_other_work_are_refused(toy, tmp_path, metrics, attributes, what):
    other = variant(toy, tmp_path / "other.h5", metrics=metrics, attributes=attributes)
    with pytest.raises(MixedRunsError, match=what):
        scaling([toy, other])
    assert len(scaling([toy, other], mixed=True)) == 2
    done = run_command(toy, other)
    assert done.returncode == 1
    assert "--mixed" in done.stderr
    assert run_command(toy, other, "--mixed").returncode == 0


def test_runs_of_other_files_are_refused(toy, directory):
    with pytest.raises(MixedRunsError):
        scaling([toy, make_run(directory, "busy", 50)])


def test_the_table_and_the_csv_say_the_same(toy, tmp_path):
    half = variant(toy, tmp_path / "a.h5", metrics={"wall_time": 5.0, "total_cores": 3.2})
    done = run_command(half, toy, "--csv", tmp_path / "out.csv")
    assert done.returncode == 0, done.stderr
    assert "220 Hz" in done.stdout
    assert "PARTIAL" in done.stdout
    with (tmp_path / "out.csv").open() as f:
        rows = list(csv.DictReader(f))
    assert [row["file"] for row in rows] == ["toy.h5", "a.h5"]
    assert float(rows[1]["throughput_hz"]) == pytest.approx(220)
    assert float(rows[1]["efficiency"]) == pytest.approx(1)


def test_what_is_no_sealed_run_file_is_named(toy, tmp_path):
    (tmp_path / "x.h5").write_text("nothing")
    with pytest.raises(RunFileError):
        scaling([tmp_path / "x.h5"])
    for bad in (tmp_path / "x.h5", tmp_path / "none.h5"):
        done = run_command(toy, bad)
        assert done.returncode == 1
        assert bad.name in done.stderr
        assert "Traceback" not in done.stderr
