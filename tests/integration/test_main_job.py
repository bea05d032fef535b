"""A real coffea run becomes a run file whose numbers equal Dask's and coffea's own."""

from __future__ import annotations

import pathlib
import subprocess
import threading
import time

import distributed
import h5py
import pandas as pd
import pytest
from coffea import processor
from distributed import Client

import clusters
import crema
import measured_runs
import workloads

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def client():
    with (
        clusters.as_dask_starts_workers(),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(
    scope="module", params=["nano_files", pytest.param("wide_files", marks=pytest.mark.slow)]
)
def measured(request, client, tmp_path_factory):
    fileset = request.getfixturevalue(request.param)
    return measured_runs.measure(
        client, fileset, workloads.JetCounter(), tmp_path_factory.mktemp("clean")
    )


def test_a_clean_run_is_complete(measured):
    assert (measured.verdict, measured.reasons) == ("COMPLETE", [])
    with h5py.File(measured.path) as f:
        assert f.attrs["verdict"] == "COMPLETE"
        assert f.attrs["complete"] == 1
        assert f.attrs["loss_total"] == 0
        assert f.attrs["state"] == "sealed"


def test_totals_equal_dasks_span(measured):
    ours = measured_runs.execute_totals(measured.path, measured.span_id)
    assert measured.dask, "Dask kept no metrics of the span"
    theirs = {(p, str(a), u): v for (p, a, u), v in measured.dask.items() if p != "N/A"}
    assert set(ours) == set(theirs)
    for key, value in theirs.items():
        assert ours[key] == pytest.approx(value, rel=1e-9, abs=1e-9), key


def test_chunks_equal_coffeas_processed(measured):
    assert measured_runs.chunk_identities(measured.path) == measured_runs.processed_identities(
        measured.result
    )
    assert len(measured_runs.counted_chunks(measured.path)) == len(measured.result["processed"])


def test_events_and_bytes_equal_coffeas_report(measured):
    chunks = measured_runs.counted_chunks(measured.path)
    report = measured.result["metrics"]
    assert chunks.n_events.sum() == report["entries"]
    assert chunks.bytes_read_b.sum() == report["bytesread"]
    besides_s = chunks.wall_s.sum() - report["processtime"]  # coffea's own metrics
    assert 0 < besides_s < 0.5 * report["processtime"]
    metrics = measured_runs.workflow(measured.path)
    assert metrics["total_events"] == report["entries"]
    assert metrics["num_chunks"] == report["chunks"]


def test_every_way_of_loading_works(measured):
    path = measured.path
    assert len(pd.read_hdf(path, "chunks")) > 0
    assert {"name", "value", "units", "status"} <= set(pd.read_hdf(path, "summary/workflow"))
    with h5py.File(path) as f:
        assert len(pd.DataFrame(f["chunks"].fields(["wall_s", "n_events"])[:])) > 0
    dump = subprocess.run(["h5dump", "-n", str(path)], capture_output=True, text=True, check=True)
    for name in ("/chunks", "/activities", "/dict/worker", "/summary/waterfall", "/gaps"):
        assert name in dump.stdout
    run = crema.open(path)
    assert run.verdict == "COMPLETE"


def test_waterfall_sums_to_capacity(measured):
    rows = (
        measured_runs.table(measured.path, "summary/waterfall").set_index("category").thread_seconds
    )
    capacity = measured_runs.table(measured.path, "summary/efficiency").cap_s[0]
    assert rows.sum() == pytest.approx(capacity, rel=1e-9)
    assert rows["processor_cpu"] > 0
    assert rows["preprocess"] > 0


@pytest.mark.slow
def test_opening_a_wide_file_costs_more_than_processing(client, wide_file, tmp_path):
    fileset = {"wide": {"files": {wide_file: "Events"}}}
    run = measured_runs.measure(client, fileset, workloads.JetCounter(), tmp_path, chunksize=10)
    chunks = measured_runs.counted_chunks(run.path)
    assert (chunks.open_s > 0).all()
    assert chunks.open_s.sum() > chunks.wall_s.sum()


CLASS = (workloads.JetCounter(), "JetCounter")
UNDERSCORE = (workloads._HiddenCounter(), "HiddenCounter")
FUNCTION = (workloads.count_muons, "function")


@pytest.mark.parametrize(
    ("instance", "compressed_prefix", "compression"),
    [
        (*CLASS, 1),
        (*CLASS, None),
        *(
            pytest.param(*of, compression, marks=pytest.mark.slow)
            for of in (UNDERSCORE, FUNCTION)
            for compression in (1, None)
        ),
    ],
)
def test_processor_side_holds_the_processors_prefix(
    client, nano_files, tmp_path, instance, compressed_prefix, compression
):
    fileset = {"dimuon": nano_files["dimuon"]}
    run = measured_runs.measure(client, fileset, instance, tmp_path, compression=compression)
    assert run.verdict == "COMPLETE"
    prefix = compressed_prefix if compression else "automatic_retries"
    rows = measured_runs.table(run.path, "activities")
    prefixes = measured_runs.names(run.path, "task_prefix")
    side = rows.side.map(measured_runs.enum_labels(run.path, "activities", "side"))
    cpu = rows.activity_id.map(measured_runs.names(run.path, "activity")) == "thread-cpu"
    by_side = rows[cpu].value.groupby([rows.task_prefix_id.map(prefixes), side]).sum()
    processor_side = by_side[by_side > 0].xs("processor", level=1)  # earlier runs left totals of 0
    assert list(processor_side.index) == [prefix]
    assert processor_side[prefix] > 0
    if compression is None:  # chunks and preprocessing share the prefix: both sides hold their own
        assert by_side["automatic_retries", "preprocess"] > 0
    whole = {(p, str(a), u): v for (p, a, u), v in run.dask.items()}
    ours = measured_runs.execute_totals(run.path, run.span_id)
    assert ours[prefix, "thread-cpu", "seconds"] == pytest.approx(
        whole[prefix, "thread-cpu", "seconds"], rel=1e-9
    )


def test_the_live_file_reads_while_the_run_goes_on(client, nano_files, tmp_path):
    seen = []

    def watch(mc):
        def look():
            live = pathlib.Path(tmp_path) / f"{mc.run_id}.live.h5"
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and not seen:
                if live.exists():
                    try:
                        with h5py.File(live, "r", libver="latest", swmr=True) as f:
                            rows = f["chunks"][:]
                    except OSError:
                        rows = []
                    if len(rows):
                        seen.append(len(rows))
                time.sleep(0.2)

        threading.Thread(target=look, daemon=True).start()

    run = measured_runs.measure(
        client, nano_files, workloads.SlowCounter(0.2), tmp_path, chunksize=10, during=watch
    )
    assert run.verdict == "COMPLETE"
    assert seen, "no chunk was visible in the live file during the run"


def test_killing_each_program_changes_no_total(client, nano_files, tmp_path):
    killed = []

    def hurt(mc):
        def kill():
            for program in ("crema-agent", "crema-aggregator", "crema-sink"):
                time.sleep(1)
                killed.append(measured_runs.kill_one(program, mc.run_id))

        threading.Thread(target=kill, daemon=True).start()

    run = measured_runs.measure(
        client, nano_files, workloads.SlowCounter(0.6), tmp_path, chunksize=5, during=hurt
    )
    assert len(killed) == 3, "the run was over before"
    assert (run.verdict, run.reasons) == ("COMPLETE", [])
    test_totals_equal_dasks_span(run)
    test_chunks_equal_coffeas_processed(run)
    test_events_and_bytes_equal_coffeas_report(run)


def test_a_killed_worker_leaves_its_chunks_and_a_verdict_that_says_so(nano_files, tmp_path):
    name = "dy"
    instance = workloads.KillsItsWorkerOnce(0.4, str(tmp_path / "killed"), entry_start=20)
    with (
        clusters.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        run = measured_runs.measure(
            client, {name: nano_files[name]}, instance, tmp_path, chunksize=10
        )
    assert run.verdict == "PARTIAL"
    assert "writer_killed" in {reason["code"] for reason in run.reasons}
    chunks = measured_runs.table(run.path, "chunks")
    status = chunks.status.map(measured_runs.enum_labels(run.path, "chunks", "status"))
    assert (status == "lost").sum() == 1
    lost = chunks[status == "lost"].iloc[0]
    workers = measured_runs.table(run.path, "dict/worker").set_index("id")
    samples = measured_runs.table(run.path, "worker_samples")
    samples = samples[(samples.worker_id == lost.worker_id)]
    assert samples.t_ns.max() > lost.t_start_ns, "its last sample is missing"
    assert len(workers) in (2, 3)  # the nanny's next one, if the run went on until then
    assert measured_runs.chunk_identities(run.path) == measured_runs.processed_identities(
        run.result
    )
    assert measured_runs.counted_chunks(run.path).n_events.sum() == run.result["metrics"]["entries"]


def test_a_processor_that_raises_keeps_its_records(client, nano_files, tmp_path):
    instance = workloads.Broken()
    fileset = {"dimuon": nano_files["dimuon"]}
    with pytest.raises(Exception, match="no such jet collection"):  # noqa: SIM117
        with crema.MetricsCollector(client, processor_instance=instance, output=tmp_path) as mc:
            executor = processor.DaskExecutor(client=client, retries=0, status=False)
            measured_runs.runner(executor, mc, 20).run(
                fileset, processor_instance=instance, treename="Events"
            )
    chunks = measured_runs.table(mc.path, "chunks")
    status = chunks.status.map(measured_runs.enum_labels(mc.path, "chunks", "status"))
    assert (status == "error").sum() > 0
    assert set(status) <= {"error", "cancelled"}  # a chunk that still ran when the first one failed
    with h5py.File(mc.path) as f:
        assert "no such jet collection" in f.attrs["exception"]


def test_a_measured_run_leaves_no_process_and_no_temporary_file(measured, client):
    run_id = measured.path.name.removesuffix(".h5")
    assert not measured_runs.processes("crema-agent", run_id)
    assert not measured_runs.processes("crema-aggregator", run_id)
    assert not measured_runs.processes("crema-sink", run_id)
    assert not list(measured.path.parent.glob("*.live.h5"))
    assert not list(measured.path.parent.glob("*.tmp"))
