"""dask-awkward's graphs have no task that is the processor: all is recorded, nothing is called what nobody knows it to be."""

from __future__ import annotations

import importlib.util

import dask
import pytest
from coffea import dataset_tools
from coffea.nanoevents import BaseSchema
from distributed import Client, span

import crema
import measured_runs
import missing
import workloads
from clusters import LocalCluster
from crema._demo_data import make_fileset
from crema.read.html.sentences import findings

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.skipif(
        importlib.util.find_spec("dask_awkward") is None,
        reason=missing.DASK_AWKWARD,
    ),
]
EVENTS, STEP = 2000, 250


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    directory = tmp_path_factory.mktemp("awkward")
    fileset = make_fileset(directory / "files", EVENTS, lambda n: None)
    per_file = EVENTS // sum(len(dataset["files"]) for dataset in fileset.values())
    steps = [[start, start + STEP] for start in range(0, per_file, STEP)]
    for dataset in fileset.values():
        for file, tree in dataset["files"].items():
            dataset["files"][file] = {"object_path": tree, "steps": steps}
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        with (
            crema.MetricsCollector(client, output=directory, quiet=True) as mc,
            span("measured") as span_id,
        ):
            todo = dataset_tools.apply_to_fileset(workloads.total_met, fileset, BaseSchema)
            (result,) = dask.compute(todo)
        known = measured_runs.span_metrics(client, span_id)
    return measured_runs.Measured(mc.path, mc.verdict, mc.reasons, result, known, span_id)


def test_the_run_is_complete_and_its_totals_are_dasks(measured):
    assert (measured.verdict, measured.reasons) == ("COMPLETE", [])
    assert all(value > 0 for value in measured.result.values())
    ours = measured_runs.execute_totals(measured.path, measured.span_id)
    theirs = {(p, str(a), u): v for (p, a, u), v in measured.dask.items() if p != "N/A"}
    assert theirs and set(ours) == set(theirs)
    for key, value in theirs.items():
        assert ours[key] == pytest.approx(value, rel=1e-9, abs=1e-9), key


def test_sides_are_those_that_are_known(measured):
    with crema.open(measured.path) as file:
        activities = file["activities"]
        prefixes = file["dict/task_prefix"]
        split = file["summary/split"].set_index("side")
        workflow = file["summary/workflow"].set_index("name")
    execute = activities[activities.context == "execute"]
    assert set(execute.side) <= {"runtime", "unattributed"}
    assert set(prefixes.side) == {"unattributed"} and set(prefixes.rule) == {"no_processor"}
    assert split.cpu_s["unattributed"] > 0
    assert split.cpu_s["processor"] == split.cpu_s["overhead"] == 0
    for name in ("num_chunks", "total_events", "processor_cpu_percentage"):
        assert workflow.status[name] == "unavailable", name


def test_the_waterfall_closes(measured):
    with crema.open(measured.path) as file:
        waterfall = file["summary/waterfall"].set_index("category").thread_seconds
        capacity = file["summary/efficiency"].cap_s[0]
    assert waterfall.sum() == pytest.approx(capacity, rel=1e-9)
    assert waterfall["unattributed"] > 0 == waterfall["overhead"]
    assert abs(waterfall["residual"]) < 0.02 * capacity


def test_sentences_do_not_call_the_analysis_a_loss(measured):
    """What looks saw of its tasks is said by cause; of the rest nothing is known."""
    with crema.open(measured.path) as file:
        found = findings(file, shown=99)
        seen_s = file["looks"].seconds.sum()
    others = [f for f in found if f.name == "other_tasks"]
    assert others or seen_s > 0
    for each in others:
        assert each.finding.endswith("whether they are the analysis itself.")
        assert each.saving == ""
    assert not [f for f in found if "overhead" in f.finding]
