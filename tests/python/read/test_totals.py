"""Every figure and table whose parts are of a whole adds up to it; `test_recomputed.py` has runs with more trouble."""

from __future__ import annotations

import io
import subprocess

import h5py
import matplotlib.pyplot as plt
import pytest
from rich.console import Console

import crema
import totals
from crema.read.report import print_report
from paths import program
from synthetic_runs import make_run


@pytest.fixture(scope="module", params=["toy", "revoked", "busy", "dask"])
def run(request, tmp_path_factory):
    if request.param == "dask":
        path = request.getfixturevalue("measured").path
    else:
        path = make_run(tmp_path_factory.mktemp("totals"), request.param, 300)
    with crema.open(path) as run:
        yield run
    plt.close("all")


@pytest.mark.parametrize("check", totals.ALL, ids=lambda check: check.__name__)
def test_parts_add_up_to_their_total(run, check):
    check(run)


def test_cpu_time_of_opening_is_not_called_that_of_process(tmp_path):
    """`cpu_s` of a chunk is of both, `wall_s` of process() alone."""
    out = io.StringIO()
    print_report(make_run(tmp_path, "toy"), console=Console(file=out, width=150))
    assert "  opening and process(), CPU time" in out.getvalue()


def test_a_run_whose_key_was_revoked_lasts_as_long_as_its_work(tmp_path):
    with crema.open(make_run(tmp_path, "revoked")) as run:
        wall_s = 1e-9 * (run.attributes["t_run_end_ns"] - run.attributes["t_run_start_ns"])
    assert wall_s == pytest.approx(9.8)


def test_check_finds_a_budget_that_does_not_close(tmp_path):
    path = make_run(tmp_path, "toy")
    with h5py.File(path, "r+") as file:
        rows = file["summary/waterfall"][:]
        rows["thread_seconds"][rows["category"] == b"residual"] += 0.5
        rows["thread_seconds"][rows["category"] == b"processor_cpu"] -= 0.5
        file["summary/waterfall"][:] = rows
    checked = subprocess.run([program("crema-sink"), "check", path], capture_output=True, text=True)
    said = checked.stdout + checked.stderr
    assert "the time budget does not close: 0.5 s of 20 thread-seconds are left over" in said
