"""Chunks that fail, a worker that is killed, workers that come and go: each chunk counts once, the rest is waste with a name."""

from __future__ import annotations

import h5py
import pytest
from coffea import processor
from distributed import Client, span

import crema
import measured_runs
import workloads
from clusters import LocalCluster
from crema._demo_data import make_fileset
from crema._demo_processor import Schema
from waiting import wait_for

pytestmark = pytest.mark.timeout(240)
SUPERSEDED = 1 << 3  # of chunks.quality
CHUNK = 200


def close_a_worker_between_heartbeats(cluster, client):
    """As on a large cluster, where heartbeats are seconds apart: of its last task the scheduler never hears."""
    cluster.adapt(minimum=0, maximum=3, wait_count=1000)
    (address,) = client.nthreads()
    client.run(lambda dask_worker: dask_worker.periodic_callbacks["heartbeat"].stop())
    client.submit(workloads.burn, 0.3).result()
    client.retire_workers([address])


@pytest.fixture(scope="module")
def hurt(tmp_path_factory):
    """The run, and how often a chunk was made to fail."""
    directory = tmp_path_factory.mktemp("elastic")
    fileset = make_fileset(directory / "files", 4800, lambda n: None)
    marks = directory / "marks"
    marks.mkdir()
    instance = workloads.Troubled(0.25, str(marks), kill_at=2 * CHUNK, fail_at=[0, 4 * CHUNK])
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
        crema.MetricsCollector(client, processor_instance=instance, output=directory) as mc,
    ):
        cluster.adapt(minimum=1, maximum=3, interval="300ms", target_duration="1s", wait_count=2)
        runner = processor.Runner(
            executor=processor.DaskExecutor(client=client, status=False),
            schema=Schema,
            chunksize=CHUNK,
            savemetrics=True,
            checkpointer=mc.checkpointer,
        )
        with span("measured") as span_id:
            result = runner.run(fileset, processor_instance=instance, treename="Events")
            # The others had nothing left to do, and no worker that was requested earlier is still starting.
            wait_for(
                lambda: cluster.plan == cluster.observed and len(cluster.plan) == 1,
                60,
                "one worker, and none that is starting",
            )
            close_a_worker_between_heartbeats(cluster, client)
        mc.set_coffea_report(result["metrics"])
        dask = measured_runs.span_metrics(
            client, span_id, settled=False
        )  # the last worker's heartbeats were stopped
    run = measured_runs.Measured(mc.path, mc.verdict, mc.reasons, result, dask, span_id)
    return run, len(list(marks.glob("failed-*")))


def test_each_chunk_counts_once(hurt):
    run, _ = hurt
    assert measured_runs.chunk_identities(run.path) == measured_runs.processed_identities(
        run.result
    )
    counted = measured_runs.counted_chunks(run.path)
    assert len(counted) == len(run.result["processed"]) == 24
    metrics = measured_runs.workflow(run.path)
    assert metrics["total_events"] == run.result["metrics"]["entries"] == 4800
    assert metrics["num_chunks"] == 24
    assert counted.bytes_read_b.sum() == run.result["metrics"]["bytesread"]


def test_work_in_vain_is_waste_with_a_worker_and_a_reason(hurt):
    run, n_failed = hurt
    with crema.open(run.path) as file:
        chunks = file["chunks"]
        workers = file["summary/per_worker"].set_index("worker")
        waterfall = file["summary/waterfall"].set_index("category").thread_seconds
        capacity = file["summary/efficiency"].cap_s[0]
    superseded = (chunks.status == "ok") & ((chunks.quality & SUPERSEDED) > 0)
    reason = chunks.status.astype(str).mask(superseded, "recomputed")
    waste = chunks.assign(reason=reason)[(chunks.status != "ok") | superseded]
    assert len(chunks) == 24 + len(waste)
    assert n_failed == 8, "not every failure was injected"
    assert (waste.reason == "error").sum() == n_failed
    assert (waste.reason == "lost").sum() == 1
    assert set(waste.reason) <= {"error", "lost", "recomputed"}
    assert waste.worker.str.startswith("tcp://").all() and (waste.attempt >= 1).all()
    (killed,) = waste[waste.reason == "lost"].worker
    assert set(waste[waste.reason == "recomputed"].worker) <= {killed}
    assert workers.wasted_s[killed] > 1  # it slept before it died
    assert (workers.wasted_s[waste.worker.unique()] > 0).all()
    assert waterfall["wasted"] > 1
    assert waterfall.sum() == pytest.approx(capacity, rel=1e-9)
    print(f"waste {waste.reason.value_counts().to_dict()}, {waterfall['wasted']:.1f} thread-s;")
    print(f"residual {waterfall['residual'] / capacity:.4f} of {capacity:.0f} thread-s")


def test_workers_came_and_went(hurt):
    run, _ = hurt
    with crema.open(run.path) as file:
        membership = file["membership"]
        count = file["worker_count"].n_workers
        gaps = file["gaps"]
        custom = file["custom"]
    dropped = custom[custom.metric.str.startswith("crema.dropped.")]
    assert ((membership.event == "join") & (membership.evidence == "explicit")).sum() >= 2
    assert count.max() >= 2 and count.iloc[-1] <= 1
    # The kernel may end a write between two pages when its process is killed: one record is torn then.
    assert list(gaps.cause) in ([], ["torn"]), f"{gaps.to_string()}\n{dropped.to_string()}"
    known = {"writer_killed"} | ({"records_lost"} if len(gaps) else set())
    assert run.verdict == "PARTIAL" and {r["code"] for r in run.reasons} == known, run.reasons
    with h5py.File(run.path) as file:
        assert file.attrs["loss_total"] == len(gaps)


def test_totals_are_at_least_dasks(hurt):
    run, _ = hurt
    ours = measured_runs.execute_totals(run.path, run.span_id)
    theirs = {(p, str(a), u): v for (p, a, u), v in run.dask.items() if p != "N/A"}
    assert theirs and set(theirs) <= set(ours)
    surplus = {key: ours[key] - value for key, value in theirs.items()}
    for key, more in surplus.items():
        assert more >= -1e-9 * abs(theirs[key]) - 1e-9, key
    tail = sum(v for (prefix, _, unit), v in ours.items() if (prefix, unit) == ("burn", "seconds"))
    known = sum(
        v for (prefix, _, unit), v in theirs.items() if (prefix, unit) == ("burn", "seconds")
    )
    assert tail >= 0.3 and known < tail - 0.2
    seconds = sum(v for key, v in surplus.items() if key[2] == "seconds") + tail - known
    print(f"{seconds:.3f} s more than the scheduler knows")
    assert ours["Troubled", "failed", "seconds"] > 0
