"""`crema scaling` on run files whose numbers are known by hand."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
import shutil

import h5py
import pytest
from click.testing import CliRunner

from crema import scaling
from crema.read.command import main
from crema.read.fits import FitError
from crema.read.reader import RunFileError
from crema.read.series import MixedRunsError
from synthetic_runs import make_run


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


@dataclasses.dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


def run_command(*arguments, command="scaling"):
    """In this process: starting Python for each takes longer than all else here."""
    result = CliRunner(env={"COLUMNS": "120"}).invoke(main, [command, *map(str, arguments)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Done(result.exit_code, result.stdout, result.stderr)


def must_warn(done, changed):
    """It answers, and says that a file was changed."""
    assert done.returncode == 1 and done.stdout
    assert f"do not trust this: {changed} is damaged, or was changed" in done.stderr


def test_a_run_is_as_efficient_as_itself(toy):
    (point,) = scaling([toy]).points
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
    series = scaling([slow, half, toy])
    points = series.points
    assert series.kind == "strong"
    assert [p.threads for p in points] == pytest.approx([1.6, 3.2, 6.4])
    assert [p.efficiency for p in points] == pytest.approx([1, 1, 16 / 25.6])
    assert [p.throughput_hz for p in points] == pytest.approx([110, 220, 275])


def test_mean_of_repeated_references_counts(toy, tmp_path):
    again = variant(toy, tmp_path / "a.h5", metrics={"wall_time": 12.0, "total_cores": 1.61})
    points = scaling([toy, again]).points
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
    series = scaling([toy, other], mixed=True)
    assert (series.kind, len(series.points)) == ("mixed", 2)
    assert all(math.isnan(p.speedup) == (what == "events") for p in series.points)
    with pytest.raises(FitError, match="of a strong series; this one is mixed"):
        _ = series.amdahl
    done = run_command(toy, other)
    assert done.returncode == 1
    assert "--mixed" in done.stderr
    must_warn(run_command(toy, other, "--mixed"), other)


def settings(*runners):
    return {"runner_settings": json.dumps(runners)}


PLAIN = {
    "chunksize": 500, "maxchunks": None, "schema": "NanoAODSchema", "format": "root",
    "skipbadfiles": False, "executor": "dask",
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("chunksize", 250, "chunk size .500 there, 250 here"),
        ("maxchunks", 3, "maxchunks .none there, 3 here"),
        ("schema", "BaseSchema", "schema"),
        ("format", "parquet", "format"),
        ("skipbadfiles", True, "skipbadfiles .False there, True here"),
        ("executor", "futures", "executor .dask there, futures here"),
    ],
)
def test_runs_of_other_settings_are_refused(toy, tmp_path, name, value, what):
    one = variant(toy, tmp_path / "one.h5", attributes=settings(PLAIN))
    other = variant(toy, tmp_path / "other.h5", attributes=settings(PLAIN | {name: value}))
    assert scaling([one, one]).kind == "strong"
    with pytest.raises(MixedRunsError, match=what):
        scaling([one, other])
    both = variant(toy, tmp_path / "both.h5", attributes=settings(PLAIN, PLAIN | {name: value}))
    with pytest.raises(MixedRunsError, match=r"the Runners of both.h5 differ in "):
        scaling([both])
    assert scaling([one, both], mixed=True).kind == "mixed"


def test_another_commit_is_a_warning(toy, tmp_path):
    one = variant(toy, tmp_path / "one.h5", attributes={"git_commit": "aaaa"})
    other = variant(toy, tmp_path / "other.h5", attributes={"git_commit": "bbbb"})
    series = scaling([one, other])
    assert series.kind == "strong"
    (warning,) = series.warnings
    assert "they differ in git commit (aaaa there, bbbb here)" in warning
    assert "Warning: other.h5" in run_command(one, other).stdout
    assert json.loads(run_command(one, other, "--json").stdout)["warnings"] == [warning]


def test_averages_that_round_to_one_number_are_one_point(toy, tmp_path):
    runs = [
        variant(toy, tmp_path / f"{i}.h5", metrics={"wall_time": t, "total_cores": n})
        for i, (n, t) in enumerate([(3.9999999999999982, 10.0), (4.000000000000001, 6.0), (8, 5.0)])
    ]
    said = run_command(*runs).stdout
    assert (
        "Amdahl: refused: Amdahl's law needs runs on at least 3 different numbers of threads; there are 2."
        in said
    )
    runs.append(variant(toy, tmp_path / "1.6.h5", metrics={"wall_time": 4.0, "total_cores": 16}))
    said = " ".join(run_command(*runs).stdout.split())
    assert "; from 4 runs on 3 numbers of threads." in said


def test_runs_of_other_files_are_refused(toy, directory):
    with pytest.raises(MixedRunsError):
        scaling([toy, make_run(directory, "busy", 50)])


def test_the_table_and_the_csv_say_the_same(toy, tmp_path):
    half = variant(toy, tmp_path / "a.h5", metrics={"wall_time": 5.0, "total_cores": 3.2})
    done = run_command(half, toy, "--csv", tmp_path / "out.csv")
    must_warn(done, half)
    assert "220 Hz" in done.stdout
    assert "PARTIAL" in done.stdout
    with (tmp_path / "out.csv").open() as f:
        rows = list(csv.DictReader(f))
    assert [row["file"] for row in rows] == ["toy.h5", "a.h5"]
    assert float(rows[1]["throughput_hz"]) == pytest.approx(220)
    assert float(rows[1]["efficiency"]) == pytest.approx(1)


def test_work_that_grows_with_the_threads_is_a_weak_series(toy, tmp_path):
    files = [toy]
    for i, (factor, wall_s) in enumerate([(2, 10.5), (4, 11.8)]):
        metrics = {"total_events": 1100.0 * factor, "total_cores": 1.6 * factor}
        path = tmp_path / f"{i}.h5"
        files.append(variant(toy, path, metrics=metrics | {"wall_time": wall_s}))
    series = scaling(files)
    assert series.kind == "weak"
    assert [p.efficiency for p in series.points] == pytest.approx([1, 10 / 10.5, 10 / 11.8])
    assert series.gustafson.speedup(4) == pytest.approx(4 * 10 / 11.8, rel=0.02)
    with pytest.raises(FitError, match="Amdahl's law is of a strong series"):
        _ = series.amdahl
    odd = variant(toy, tmp_path / "odd.h5", metrics={"total_events": 2000.0, "total_cores": 6.4})
    with pytest.raises(MixedRunsError, match=r"differ in events .* do not grow with the threads"):
        scaling([*files, odd])


def test_runs_without_chunk_rows_are_a_series_too(toy, tmp_path):
    unseen = {"total_events": float("nan")}
    times = {1: 100.0, 2: 60.0, 4: 40.0, 8: 30.0}
    files = [
        variant(
            toy,
            tmp_path / f"{n}.h5",
            metrics=unseen | {"wall_time": wall_s, "total_cores": float(n)},
        )
        for n, wall_s in times.items()
    ]
    series = scaling(files)
    assert series.kind == "strong"
    assert series.amdahl.serial_fraction.value == pytest.approx(0.2)
    assert [p.karp_flatt for p in series.points[1:]] == pytest.approx([0.2] * 3)
    assert series.usl.alpha.value == pytest.approx(0.2, abs=1e-6)
    assert len(scaling([*files, toy]).points) == 5  # one that has chunks is no other work


def test_everything_is_there_as_json_and_what_cannot_be_says_why(toy, tmp_path):
    half = variant(toy, tmp_path / "a.h5", metrics={"wall_time": 5.0, "total_cores": 3.2})
    done = run_command(half, toy, "--json")
    must_warn(done, half)
    told = json.loads(done.stdout)
    assert told["kind"] == "strong"
    assert [row["threads"] for row in told["runs"]] == pytest.approx([1.6, 3.2])
    assert "at least 3 different" in told["amdahl"]["refused"]
    assert "at least 4 different" in told["usl"]["refused"]
    assert "at least 5 numbers of threads with 3 runs each" in told["parts"]["refused"]
    done = run_command(half, toy, "--extra-p", tmp_path / "x.txt")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_the_parts_of_the_budget_are_the_capacity(toy):
    (point,) = scaling([toy]).points
    inside = sum(value for name, value in point.parts.items() if name != "transfers")
    assert inside == pytest.approx(point.capacity_s)
    assert point.parts["process CPU"] == pytest.approx(8.2)


def test_command_what_if_answers(toy):
    done = run_command(toy, "--threads", 2, "--cores", 8, command="what-if")
    assert done.returncode == 0, done.stderr
    assert "2 threads, 4 chunks" in done.stdout
    done = run_command(toy, "--threads", 40, "--cores", 1, command="what-if")
    assert done.returncode == 1
    assert "oversubscribed" in done.stderr
    told = run_command(toy, "--input-speed", 2, "--json", command="what-if")
    assert json.loads(told.stdout)["n_chunks"] == 4


def test_a_file_that_is_no_sealed_run_is_named(toy, tmp_path):
    (tmp_path / "x.h5").write_text("nothing")
    with pytest.raises(RunFileError):
        scaling([tmp_path / "x.h5"])
    for bad in (tmp_path / "x.h5", tmp_path / "none.h5"):
        done = run_command(toy, bad)
        assert done.returncode == 1
        assert bad.name in done.stderr
        assert "Traceback" not in done.stderr
