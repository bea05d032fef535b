"""The worker plugin against Dask's own truth, on a real cluster with a real analysis."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time

import numpy as np
import pytest
import uproot
from coffea import processor
from distributed import Client, get_worker, span, wait

import hook_support as support
import missing
import spool_reader
from clusters import LocalCluster
from crema.collect import _marking
from crema.hook import _records, worker
from crema.hook.chunks import ChunkHook
from crema.hook.worker import WorkerHook
from paths import SAMPLES
from waiting import wait_for

KIND_WORKER = _records.KIND_WORKER


@pytest.fixture(scope="module")
def cluster_client():
    with (
        LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.run(support.watch_tasks)
        yield client


@pytest.fixture
def client(cluster_client):
    """Of a cluster on which no test leaves anything that still runs."""
    yield cluster_client
    deadline = time.monotonic() + 60
    while any(cluster_client.run(threads_at_work).values()):
        assert time.monotonic() < deadline, "a test left a task that never ends"
        time.sleep(0.05)


def threads_at_work(dask_worker):
    return len(dask_worker.active_threads)


@pytest.fixture
def fileset(tmp_path):
    """Files that coffea has not seen yet: each run preprocesses them."""
    (tmp_path / "files").mkdir()
    return support.make_files(tmp_path / "files")


def analyse(client, fileset, tmp_path, instance, compression=1, **options):
    """One measured run: streams, totals per worker before and after, seconds per task, the span's totals, the result."""
    settings = support.config(tmp_path)
    client.run(support.watch_tasks)
    before = client.run(support.digests)
    with support.recording(client, settings) as streams, span("measured") as span_id:
        result = support.run(
            support.dask(client, compression), ChunkHook(settings), fileset, instance, **options
        )
    after = client.run(support.digests)
    return streams, before, after, client.run(support.tasks), span_id, result


def check_totals(streams, before, after):
    """Both sides of each key add up to Dask's own total, on each worker."""
    assert len(streams) == 2
    for stream in streams:
        address = stream.info.worker_name
        ours: dict = {}
        for (context, span_id, prefix, activity, unit, _side), value in stream.totals().items():
            if context == "execute":
                key = (span_id, prefix, activity, unit)
                ours[key] = ours.get(key, 0.0) + value
        theirs = {
            (k[1], k[2], support.text(k[3]), k[4]): v - before[address].get(k, 0.0)
            for k, v in after[address].items()
            if k[0] == "execute"
        }
        for key in ours.keys() | theirs.keys():
            assert ours.get(key, 0.0) == pytest.approx(theirs[key], rel=1e-12, abs=1e-12), key


def check_split(streams, tasks):
    """The processor's side holds the seconds of the tasks that ran a chunk, and no other."""
    assert len(spool_reader.chunks(streams)), "no chunk ran: the test shows nothing"
    for stream in streams:
        chunks = set(stream.chunks().task_key)
        truth: dict = {}
        for key, names in tasks[stream.info.worker_name].items():
            if _records.hash64(key) in chunks:
                for name, values in names.items():
                    at = (name[1], name[2], support.text(name[3]), name[4])
                    truth[at] = truth.get(at, 0.0) + sum(values)
        ours = {
            key[1:5]: value
            for key, value in stream.totals().items()
            if key[0] == "execute" and key[5] == "processor"
        }
        for at in ours.keys() | truth.keys():
            assert ours.get(at, 0.0) == pytest.approx(truth.get(at, 0.0), rel=1e-9, abs=1e-9), at


@pytest.mark.parametrize("compression", [1, None])
@pytest.mark.parametrize("name", ["Counter", "_Under", "function", "Metered"])
def test_totals_and_split_are_dasks(client, fileset, tmp_path, name, compression):
    instance = getattr(support, name)
    instance = instance if name == "function" else instance()
    streams, before, after, tasks, span_id, result = analyse(
        client, fileset, tmp_path, instance, compression
    )
    check_totals(streams, before, after)
    check_split(streams, tasks)
    truth = support.span_truth(client, span_id)
    ours: dict = {}
    for stream in streams:
        for (context, of_span, prefix, activity, unit, _), value in stream.totals().items():
            if context == "execute" and of_span == span_id:
                key = (prefix, activity, unit)
                ours[key] = ours.get(key, 0.0) + value
    theirs = {(p, support.text(a), u): v for (p, a, u), v in truth.items()}
    assert theirs.keys() == ours.keys()
    for key, value in theirs.items():
        assert ours[key] == pytest.approx(value, rel=1e-9, abs=1e-9), key
    chunks = spool_reader.chunks(streams)
    assert (chunks.status == "ok").all() and len(chunks) == 9
    assert chunks.n_events.sum() == result["metrics"]["entries"] == 3 * support.EVENTS
    assert chunks.bytes_read_b.sum() == result["metrics"]["bytesread"]
    besides_s = chunks.wall_s.sum() - result["metrics"]["processtime"]  # coffea's own metrics
    assert 0 < besides_s < 0.5 * result["metrics"]["processtime"]


def test_preprocessing_with_the_chunks_prefix_is_not_the_processors(client, fileset, tmp_path):
    streams, _, _, tasks, _, _ = analyse(client, fileset, tmp_path, support.Counter(), None)
    check_split(streams, tasks)
    of_preprocessing_s = sum(
        value
        for stream in streams
        for (context, _, prefix, activity, _, side), value in stream.totals().items()
        if (context, prefix, activity) == ("execute", "automatic_retries", "thread-cpu")
        and side == "unattributed"
    )
    assert of_preprocessing_s > 0


def test_retries_are_attempts(client, fileset, tmp_path):
    marks = tmp_path / "marks"
    marks.mkdir()
    streams, before, after, tasks, _, _ = analyse(
        client, fileset, tmp_path, support.Flaky(marks), None
    )
    check_totals(streams, before, after)
    check_split(streams, tasks)
    chunks = spool_reader.chunks(streams)
    assert chunks.status.value_counts().to_dict() == {"ok": 9, "error": 3}
    failed = chunks[chunks.status == "error"]
    assert set(failed.chunk_id) <= set(chunks[chunks.status == "ok"].chunk_id)
    assert (failed.wall_s > 0).all() and (failed.open_s > 0).all()
    assert (failed.cpu_s > failed.open_cpu_s + 0.003).all()  # of which it spins so long
    assert (failed.quality == 0b110100).all()
    events = spool_reader.table(streams, "task_events")
    computed = events[events.action == "compute"]
    assert (computed.status == "error").sum() == 3
    assert (computed.side == "processor").sum() == 12


def test_a_bad_file_that_coffea_skips_is_a_failed_attempt(client, fileset, tmp_path):
    marks = tmp_path / "marks"
    marks.mkdir()
    streams, *_, result = analyse(
        client,
        fileset,
        tmp_path,
        support.Flaky(marks, OSError, always="f1.root"),
        skipbadfiles=True,
    )
    chunks = spool_reader.chunks(streams)
    assert chunks.status.value_counts().to_dict() == {"ok": 8, "error": 1}
    assert result["metrics"]["entries"] == chunks[chunks.status == "ok"].n_events.sum()


def test_cancelled_tasks_upset_nothing(client, fileset, tmp_path):
    settings = support.config(tmp_path)
    client.run(support.watch_tasks)
    before = client.run(support.digests)
    with support.recording(client, settings) as streams:
        slow = client.map(lambda n: time.sleep(0.3), range(8), pure=False)
        time.sleep(0.35)
        client.cancel(slow)
        futures = client.map(lambda n: support.spin(0.01), range(20), pure=False)
        support.run(support.dask(client), ChunkHook(settings), fileset, support.Counter())
        wait(futures)
        time.sleep(0.5)
    check_totals(streams, before, client.run(support.digests))
    check_split(streams, client.run(support.tasks))
    assert "cancelled" in set(spool_reader.table(streams, "task_events").status)


@pytest.mark.parametrize("when", ["while it is recorded", "before"])
def test_a_cancelled_task_took_the_slot_that_it_ran_on(client, tmp_path, when):
    settings, let_go = support.config(tmp_path), tmp_path / "let go"

    def cancel():
        slow = client.submit(support.wait_for_file, str(let_go), pure=False)
        while not any(client.run(executing_keys).values()):
            time.sleep(0.02)
        client.cancel([slow])
        while not any(client.run(executing_keys, state="cancelled").values()):
            time.sleep(0.02)

    if when == "before":
        cancel()
    with support.recording(client, settings) as streams:
        if when != "before":
            cancel()
        let_go.touch()
        while any(client.run(executing_keys, state="cancelled").values()):
            time.sleep(0.05)
    (event,) = spool_reader.table(streams, "task_events").itertuples()
    assert (event.action, event.status, event.thread) == ("compute", "cancelled", 0)
    assert event.side == ("foreign" if when == "before" else "unattributed")


@pytest.mark.parametrize("waits", [True, False], ids=["until it is through", "not"])
def test_a_chunk_whose_result_nobody_wants_is_cancelled(client, tmp_path, waits):
    """coffea gives up when a chunk fails: Dask cancels those that run, whose threads run on; perhaps longer than the run."""
    settings = support.config(tmp_path)
    path = tmp_path / "f.root"
    with uproot.recreate(path) as file:
        file.mktree("Events", {"x": "float64"}).extend({"x": np.zeros(2 * support.CHUNK)})
    let_go = tmp_path / "let go"
    instance = support.FailsBesideAnother(tmp_path / "mark", let_go)
    with support.recording(client, settings) as streams:
        executor = processor.DaskExecutor(client=client, retries=0, status=False)
        fileset = {"ds": {"files": {str(path): "Events"}}}
        with pytest.raises(Exception, match="beside another"):
            support.run(executor, ChunkHook(settings), fileset, instance)
        while not any(client.run(executing_keys, state="cancelled").values()):
            time.sleep(0.05)
        if waits:
            let_go.touch()
        while waits and any(client.run(threads_at_work).values()):
            time.sleep(0.1)
    let_go.touch()
    rows = spool_reader.chunks(streams).set_index("entry_start")
    assert rows.status.to_dict() == {0: "error", support.CHUNK: "cancelled"}
    assert rows.n_events[support.CHUNK] == -1
    assert rows.cpu_s.notna().all()
    assert (rows.quality[support.CHUNK] & 1 << 4 == 0) == waits  # else it was still running


def test_a_stream_says_who_wrote_it_and_how_it_was(client, tmp_path):
    settings = support.config(tmp_path, sample_interval_s=0.1)
    with support.recording(client, settings) as streams:
        client.gather(client.map(lambda n: support.spin(0.2), range(8), pure=False))
        state = client.run(worker.status, settings.run_id)
    ids = client.run(lambda dask_worker: (dask_worker.id, os.getpid()))
    for stream in streams:
        info = stream.info
        assert info.kind == KIND_WORKER and info.run_id == settings.run_bytes
        assert (info.worker_uuid, info.pid) == ids[info.worker_name]
        assert info.nthreads == 2 and info.memory_limit_b > 0
        keys = dict(zip(info.attribute_keys, info.attribute_values, strict=True))
        assert {"python_version", "dask_version", "coffea_version"} <= keys.keys()
        assert stream.end.reason == 0 and stream.end.dropped == 0 and not stream.locked
        assert state[info.worker_name]["stream_id"] == stream.stream_id
        samples = stream.table("worker_samples")
        assert len(samples) >= 2 and set(samples.source) == {"worker"}
        assert (samples.rss_b > 50e6).all() and (samples.nthreads == 2).all()
        assert samples.cpu_pct.max() > 0 and set(samples.worker) == {info.worker_name}
        assert samples.executing.max() >= 1
        heartbeats = stream.table("heartbeats")
        assert heartbeats.sent.is_monotonic_increasing and (heartbeats.dropped == 0).all()
        busy = [v for k, v in stream.totals().items() if k[3] == "executing"]
        assert sum(busy) >= 0.2
        events = stream.table("task_events")
        seen = events[events.t_submit_ns > 0]  # 0: it was there before the recording began
        assert len(seen) >= len(events) - 1
        assert (seen.t_stop_ns - seen.t_start_ns).min() > 0.19e9
        assert (seen.t_ready_ns >= seen.t_submit_ns).all()
        assert abs(events.t_start_ns.min() / 1e9 - time.time()) < 60
        assert set(events.thread) <= {0, 1}


def test_samples_can_be_left_out(client, tmp_path):
    settings = support.config(tmp_path, track_workers=False)
    with support.recording(client, settings) as streams:
        client.gather(client.map(lambda n: support.spin(0.01), range(4), pure=False))
    assert len(spool_reader.table(streams, "worker_samples")) == 0
    assert len(spool_reader.table(streams, "task_events")) == 4


def seconds(streams, context="execute"):
    """Seconds that a run's activities hold."""
    totals = [item for stream in streams for item in stream.totals().items()]
    return sum(value for key, value in totals if key[0] == context and key[4] == "seconds")


def executing_keys(dask_worker, state="executing"):
    """Tasks in this state that a thread is at work on."""
    tasks = dask_worker.state.tasks
    running = set(dask_worker.active_threads.values())
    return [key for key in running if key in tasks and tasks[key].state == state]


def seconds_executing(dask_worker):
    """Of tasks of whatever run, as Dask counts them."""
    elapsed = dask_worker.state.task_counter.cumulative_elapsed()
    return sum(value for (_, state), value in elapsed.items() if state == "executing")


@pytest.mark.parametrize("how", ["two clients", "one client"])
def test_two_runs_at_once_do_not_mix(client, fileset, tmp_path, how):
    """Each run holds the seconds of its own tasks, whatever the other one runs on the same threads meanwhile."""
    with Client(client.cluster) as second:
        clients = [client, second if how == "two clients" else client]
        settings = [support.config(tmp_path, client=c.id) for c in clients]
        results = {}

        def analyse_both(i):
            with contextlib.ExitStack() as stack:
                if how == "one client":
                    stack.enter_context(_marking.marked(settings[i].run_id))
                hook = ChunkHook(settings[i])
                executor = support.dask(clients[i])
                results[i] = support.run(executor, hook, fileset, support.Counter())

        client.run(support.watch_tasks)
        executing = [list(client.run(seconds_executing).values())]
        with (
            support.recording(client, settings[0], with_scheduler=True) as one,
            support.recording(client, settings[1], with_scheduler=True) as two,
        ):
            threads = [threading.Thread(target=analyse_both, args=(i,)) for i in (0, 1)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        tasks = client.run(support.tasks)
        executing.append(list(client.run(seconds_executing).values()))
    assert len(results) == 2
    truth = [{}, {}]
    events = [spool_reader.table(streams, "task_events") for streams in (one, two)]
    for i, rows in enumerate(events):
        assert set(rows.side) >= {"foreign"}
        own = set(rows[(rows.action == "compute") & (rows.side != "foreign")].task_key)
        assert len(own) >= 9
        truth[i] = sum(
            sum(values)
            for by_key in tasks.values()
            for key, names in by_key.items()
            if _records.hash64(key) in own
            for name, values in names.items()
            if name[4] == "seconds"
        )
    assert not set(events[0][events[0].side != "foreign"].task_key) & set(
        events[1][events[1].side != "foreign"].task_key
    )
    busy_s = sum(after - before for before, after in zip(*executing, strict=True))
    both = [s for streams in (one, two) for s in streams if s.info.kind == KIND_WORKER]
    # Once, not twice; an instant apart from Dask's own count, which is long where the event loop waits for a core.
    assert seconds(both, "busy") == pytest.approx(busy_s, rel=0.3)
    for i, streams in enumerate((one, two)):
        assert len(spool_reader.chunks(streams)) == 9
        workers = [s for s in streams if s.info.kind == KIND_WORKER]
        assert seconds(workers) == pytest.approx(truth[i], rel=1e-9)
        assert seconds(workers, "busy") > 0.1 * busy_s
        others = [key for s in workers for key in s.totals() if key[0] == "other"]
        assert others and not any(isinstance(key[2], str) for key in others)  # latency and such


def set_status(status, dask_worker):
    dask_worker.status = type(dask_worker.status)[status]


def test_a_task_with_which_a_recording_resumes_is_in_the_run(client, tmp_path):
    """Dask may change its mind about a worker that it retires."""
    settings = support.config(tmp_path)
    with support.recording(client, settings) as streams:
        client.run(set_status, "closing_gracefully")
        try:
            wait_for(
                lambda: not any(client.run(worker.status, settings.run_id).values()),
                what="the end of both recordings",
            )
        finally:
            client.run(set_status, "running")
        client.submit(support.spin, 0.05, pure=False).result()
    assert sum(s.info.kind == KIND_WORKER for s in streams) == 3
    (event,) = spool_reader.table(streams, "task_events").itertuples()
    assert (event.action, event.side) == ("compute", "unattributed")


def resume(run_id, dask_worker):
    """Dask adds all tasks that it is about to start to its state before it announces the first one.

    Returns how many tasks run, and how many seconds of tasks of other runs pass in a second after that.
    """
    hook = worker._find(run_id, dask_worker)
    running = [task.key for task in dask_worker.state.executing]
    hook.finish()
    hook._retired = dask_worker
    for key in running:
        hook.transition(key, "ready", "executing")
    busy, began = hook._follower.tasks.foreign_busy, time.monotonic()
    before = sum(busy.seconds().values())
    time.sleep(0.2)
    return len(running), (sum(busy.seconds().values()) - before) / (time.monotonic() - began)


def test_tasks_of_other_runs_count_once_when_a_recording_resumes(client, tmp_path):
    settings = support.config(tmp_path, client=client.id)
    with Client(client.cluster) as other, support.recording(client, settings, with_scheduler=True):
        theirs = other.map(support.wait_for_file, [str(tmp_path / "go")] * 4, pure=False)
        wait_for(lambda: sum(client.run(threads_at_work).values()) == 4, what="four tasks")
        rates = client.run(resume, settings.run_id).values()
        (tmp_path / "go").touch()
        wait(theirs)
    assert [n for n, _ in rates] == [2, 2]
    assert [rate for _, rate in rates] == pytest.approx([2, 2], rel=0.2)


def test_a_client_that_records_nothing_is_not_in_the_run(client, tmp_path):
    settings = support.config(tmp_path, client=client.id)
    with (
        Client(client.cluster) as other,
        support.recording(client, settings, with_scheduler=True) as streams,
    ):
        theirs = other.map(lambda n: support.spin(0.02), range(8), pure=False)
        ours = client.map(lambda n: support.spin(0.01), range(4), pure=False)
        wait(theirs)
        wait(ours)
        del theirs, ours
    events = spool_reader.table(streams, "task_events")
    assert sorted(events[events.action == "compute"].side) == ["foreign"] * 8 + ["unattributed"] * 4
    workers = [s for s in streams if s.info.kind == KIND_WORKER]
    cpu_s = sum(
        value for s in workers for key, value in s.totals().items() if key[3] == "thread-cpu"
    )
    assert cpu_s == pytest.approx(0.04, rel=0.5)


def test_tasks_queued_before_the_run_are_not_in_it(client, tmp_path):
    settings = support.config(tmp_path, client=client.id)
    with Client(client.cluster) as other:
        theirs = other.map(lambda n: support.spin(0.1), range(24), pure=False)  # on 4 threads
        with support.recording(client, settings, with_scheduler=True) as streams:
            ours = client.map(lambda n: support.spin(0.01), range(4), pure=False)
            wait(theirs)
            wait(ours)
        del theirs, ours
    events = spool_reader.table(streams, "task_events")
    sides = list(events[events.action == "compute"].side)
    assert sides.count("foreign") > 8 and sides.count("unattributed") == 4


def test_a_spool_that_cannot_be_written_stops_no_analysis(client, fileset, tmp_path):
    settings = support.config(tmp_path)
    (tmp_path / f"spool-{settings.run_id}").write_text("in the way")
    hook = WorkerHook(settings)
    client.register_plugin(hook)
    result = support.run(support.dask(client), ChunkHook(settings), fileset, support.Counter())
    assert result["metrics"]["entries"] == 3 * support.EVENTS
    assert set(map(str, client.run(worker.status, settings.run_id).values())) == {"{}"}
    client.unregister_worker_plugin(hook.name)


def test_workers_that_are_threads_have_a_stream_each(fileset, tmp_path):
    settings = support.config(tmp_path)
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
        support.recording(client, settings) as streams,
    ):
        support.run(support.dask(client), ChunkHook(settings), fileset, support.Counter())
    assert len(streams) == 2 and len({s.info.worker_uuid for s in streams}) == 2
    for stream in streams:
        chunks = stream.chunks()
        assert len(chunks) and set(chunks.worker) == {stream.info.worker_name}
    assert len(spool_reader.chunks(streams)) == 9


def test_closing_the_cluster_ends_the_streams(tmp_path):
    settings = support.config(tmp_path)
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.register_plugin(WorkerHook(settings))
        client.submit(support.spin, 0.2).result()
    (stream,) = spool_reader.read(settings.spool_dir())
    assert stream.end is not None
    busy = sum(v for k, v in stream.totals().items() if k[0] == "execute" and k[2] == "spin")
    assert busy >= 0.2  # though no heartbeat carried it


def test_a_killed_worker_leaves_its_chunk_and_the_next_one_records_on(fileset, tmp_path):
    settings = support.config(tmp_path)
    marks = tmp_path / "marks"
    marks.mkdir()
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
        support.recording(client, settings, with_scheduler=True) as streams,
    ):

        def kill():
            while not list(marks.iterdir()):
                time.sleep(0.02)
            time.sleep(1.2)  # a heartbeat tells the scheduler what runs
            os.kill(int(next(marks.iterdir()).name), signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        support.run(support.dask(client), ChunkHook(settings), fileset, support.Sleeper(marks))
        killer.join()
    killed, survivor = sorted(
        spool_reader.of_kind(streams, KIND_WORKER), key=lambda s: s.end is not None
    )
    assert killed.end is None and not killed.locked
    open_chunk = killed.chunks()[killed.chunks().provisional == 1]
    assert len(open_chunk) == 1 and set(open_chunk.status) == {"lost"}
    assert survivor.end is not None and survivor.info.pid != killed.info.pid
    assert open_chunk.chunk_id.item() in set(survivor.chunks().chunk_id)
    (scheduler,) = spool_reader.of_kind(streams, _records.KIND_SCHEDULER)
    membership = scheduler.table("membership")
    assert membership.event.tolist() == ["join", "lost", "join", "leave"]
    lost = scheduler.table("task_events")
    assert set(lost.status) == {"lost"} and open_chunk.task_key.item() in set(lost.task_key)
    began = lost[lost.task_key == open_chunk.task_key.item()].t_start_ns.item()
    # The task began by importing coffea, then it took up the chunk.
    assert -0.5e9 < open_chunk.t_start_ns.item() - began < 30e9


def test_times_of_tasks_are_on_the_workers_clock(client, tmp_path):
    """Dask adds the scheduler's delay at a task's start; by its end a heartbeat may have brought another one."""

    def task(n):
        began = time.time()
        time.sleep(0.1)
        get_worker().scheduler_delay = 7.0 + n
        return began, time.time()

    def let_heartbeats(action, dask_worker):
        getattr(dask_worker.periodic_callbacks["heartbeat"], action)()

    settings = support.config(tmp_path)
    # No real heartbeat and no other task may set the delay while Dask reads it.
    client.run(let_heartbeats, "stop")
    with support.recording(client, settings) as streams:
        stamps = {}
        for n in range(8):
            future = client.submit(task, n, pure=False)
            stamps[_records.hash64(future.key)] = future.result()
    client.run(let_heartbeats, "start")
    events = spool_reader.table(streams, "task_events")
    events = events[events.task_key.isin(stamps) & (events.action == "compute")]
    assert len(events) == 8
    for event in events.itertuples():
        began, ended = stamps[event.task_key]
        # Dask's own stamps lie around these; on a busy machine not close.
        assert -1 < event.t_start_ns * 1e-9 - began <= 0.001
        assert -0.001 <= event.t_stop_ns * 1e-9 - ended < 1


def test_real_files(client, tmp_path):
    samples = SAMPLES
    paths = [samples / "nano_dy.root", samples / "nano_dimuon.root"]
    if not all(path.is_file() for path in paths):
        pytest.skip(missing.SAMPLES)
    from coffea.nanoevents import NanoAODSchema

    settings = support.config(tmp_path)
    with support.recording(client, settings) as streams:
        runner = processor.Runner(
            executor=support.dask(client),
            schema=NanoAODSchema,
            savemetrics=True,
            chunksize=20,
            checkpointer=ChunkHook(settings),
        )
        result = runner.run(
            {path.stem: {"files": {str(path): "Events"}} for path in paths},
            processor_instance=lambda events: {"n": len(events), "mu": len(events.Muon.pt)},
        )
    chunks = spool_reader.chunks(streams)
    found = set(zip(chunks.file, chunks.entry_start, chunks.entry_stop, strict=True))
    done = {(w.filename, w.entrystart, w.entrystop) for w in result["processed"]}
    assert found == done and len(chunks) == len(done)
    assert chunks.n_events.sum() == result["metrics"]["entries"]
    assert chunks.bytes_read_b.sum() == result["metrics"]["bytesread"]
    assert (chunks.gc_s >= 0).all() and chunks.gc_s.sum() > 0
    assert (chunks.gc_s <= chunks.cpu_s).all()
    assert (chunks.cpu_s > 0).all() and (chunks.n_branches >= 1).all()
