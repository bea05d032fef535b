"""The scaling study on the test cluster: short, but all of it."""

from __future__ import annotations

import csv
import os
import pathlib
import subprocess

import h5py
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
EVENTS = 40_000

pytestmark = pytest.mark.timeout(420)


@pytest.fixture(scope="module")
def study(images, project, tmp_path_factory) -> pathlib.Path:
    """Folder of a study with one and with two workers."""
    output = tmp_path_factory.mktemp("study")
    options = {"workers": "1,2", "timeout": 150, "events": EVENTS, "chunksize": 5000}
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    subprocess.run(
        [
            "timeout",
            "--kill-after=60",
            "360",
            ROOT / "compose/study.sh",
            *words,
            "--output",
            output,
        ],
        env=os.environ | {"CREMA_STUDY_PROJECT": f"{project}-study"},
        check=True,
    )
    return output


def test_a_study_leaves_a_run_file_for_each_number_of_workers(study):
    files = [path for path in study.glob("*.h5") if not path.name.endswith(".live.h5")]
    assert len(files) == 2
    requested = []
    for path in files:
        with h5py.File(path) as f:
            requested.append(int(f.attrs["requested_workers"]))
            assert f.attrs["verdict"] == "COMPLETE"
    assert sorted(requested) == [1, 2]


def test_table_of_the_study_is_that_of_the_files(study):
    with (study / "scaling.csv").open() as f:
        rows = list(csv.DictReader(f))
    assert [row["verdict"] for row in rows] == ["COMPLETE"] * 2
    assert [float(row["threads"]) for row in rows] == pytest.approx([1, 2], rel=0.1)
    assert [float(row["events"]) for row in rows] == [EVENTS] * 2
    for row in rows:
        with h5py.File(study / row["file"]) as f:
            metrics = {r["name"].decode(): float(r["value"]) for r in f["summary/workflow"][:]}
        assert float(row["wall_s"]) == metrics["wall_time"]
        assert float(row["throughput_hz"]) == pytest.approx(EVENTS / metrics["wall_time"])
    one, two = rows
    work = [float(row["wall_s"]) * float(row["threads"]) for row in rows]
    assert float(one["efficiency"]) == 1
    assert float(two["efficiency"]) == pytest.approx(work[0] / work[1])
    assert "Strong scaling" in (study / "scaling.txt").read_text()
