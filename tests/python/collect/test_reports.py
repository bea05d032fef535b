"""What is given as coffea's report is taken, or a line says why not; what was not through when the block ended is a note."""

from __future__ import annotations

import importlib.util
import time

import awkward as ak
import pytest

import crema
import missing


def partition(start, stop, read_b, exception=None):
    """A row as `uproot._dask` makes it."""
    good = exception is None
    return {
        "call_time": None if good else 1,
        "duration": 0.5 if good else None,
        "performance_counters": {"num_requested_bytes": read_b, "num_requests": 1}
        if good
        else None,
        "args": ["<TTree 'Events'>", str(start), str(stop)],
        "kwargs": [],
        "exception": exception,
        "message": exception,
    }


def custom(path):
    with crema.open(path) as run:
        names, units = run.names("metric"), run["custom"]
        return {names[row.metric_id]: row.value for row in units.itertuples()}


@pytest.mark.parametrize("by_dataset", [False, True])
def test_uproots_report_by_partition_is_taken(tmp_path, by_dataset):
    report = ak.Array(
        [partition(0, 100, 7000), partition(100, 150, 3000), partition(150, 300, 0, "OSError")]
    )
    with crema.MetricsCollector(output=tmp_path, quiet=True) as mc:
        mc.set_coffea_report({"a": report, "b": report} if by_dataset else report)
    times = 1 + by_dataset
    found = custom(mc.path)
    assert found["coffea.entries"] == 150 * times
    assert found["coffea.bytesread"] == 10_000 * times
    assert found["coffea.partitions"] == 3 * times
    assert found["coffea.failed_partitions"] == times
    assert found["coffea.partition_read_s"] == times
    assert mc.verdict == "COMPLETE"


@pytest.mark.skipif(importlib.util.find_spec("dask_awkward") is None, reason=missing.DASK_AWKWARD)
def test_a_report_is_what_uproot_makes(tmp_path, capsys):
    import dask
    from coffea import dataset_tools
    from coffea.nanoevents import BaseSchema

    from hook_support import EVENTS, make_files

    fileset = make_files(tmp_path, 2)
    for dataset in fileset.values():
        for file, tree in dataset["files"].items():
            dataset["files"][file] = {"object_path": tree, "steps": [[0, EVENTS]]}
    with crema.MetricsCollector(output=tmp_path) as mc:
        todo, report = dataset_tools.apply_to_fileset(
            lambda events: ak.sum(events.x, axis=0),
            fileset,
            BaseSchema,
            uproot_options={"allow_read_errors_with_report": True},
        )
        mc.set_coffea_report(report)
        assert "not computed yet" in capsys.readouterr().err
        _, report = dask.compute(todo, report, scheduler="sync")
        mc.set_coffea_report(report)
    found = custom(mc.path)
    assert found["coffea.partitions"] == 2 and found["coffea.entries"] == 2 * EVENTS
    assert found["coffea.bytesread"] > 0


@pytest.mark.parametrize(
    "report", [{"no": [1, 2]}, ak.Array([1, 2]), "a text", 7], ids=["lists", "array", "text", "int"]
)
def test_a_report_that_is_none_is_said(tmp_path, capsys, report):
    with crema.MetricsCollector(output=tmp_path) as mc:
        mc.set_coffea_report(report)
        assert "coffea's report is not recorded" in capsys.readouterr().err
        mc.set_coffea_report(None)  # a Runner without savemetrics
        assert not capsys.readouterr().err
    assert mc.verdict == "COMPLETE"


def test_a_report_after_the_block_is_said(tmp_path, capsys):
    with crema.MetricsCollector(output=tmp_path) as mc:
        pass
    capsys.readouterr()
    mc.set_coffea_report({"entries": 5})
    assert "the block has ended; give it inside" in capsys.readouterr().err


@pytest.mark.slow
def test_tasks_that_were_not_through_are_a_note(client, tmp_path, capsys):
    """As those of a Runner with `use_dataframes`, whose result is computed later."""
    with crema.MetricsCollector(client, output=tmp_path) as mc:
        client.gather(client.map(lambda i: i, range(3), pure=False))
        later = client.map(time.sleep, [20.0] * 6, pure=False)
    assert "tasks of the run were still running" in " ".join(capsys.readouterr().err.split())
    (note,) = [note for note in mc.notes if note["code"] == "still_running"]
    assert note["count"] == 6
    with crema.open(mc.path) as run:
        assert note in run.notes
    client.cancel(later)
    with crema.MetricsCollector(client, output=tmp_path, quiet=True) as mc:
        client.gather(client.map(lambda i: i, range(3), pure=False))
    assert not [note for note in mc.notes if note["code"] == "still_running"]
