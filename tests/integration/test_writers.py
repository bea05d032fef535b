"""The end of a run is told by its writers: what one of them recorded and nobody delivered is never COMPLETE.

The workers write into a spool of an operator (CREMA_SPOOL), whose agent begins when some segments have been taken out of its sight.
"""

from __future__ import annotations

import concurrent.futures
import json
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import uuid

import h5py
import pytest
from distributed import Client

import crema
from children import Child
from clusters import LocalCluster, work
from crema.hook import _spool, chunks
from kept_records import PROGRAMS, wait_for

pytestmark = pytest.mark.timeout(200)
AGENT_OPTIONS = ("--heartbeat-interval", "200ms", "--poll-interval", "20ms")


class Scene:
    """A cluster whose workers write into one spool, and a pipeline that does not see it yet."""

    def __init__(self, pipeline, spool: pathlib.Path, hidden: pathlib.Path):
        self.pipeline, self.spool, self.hidden = pipeline, spool, hidden

    def stream_of(self, client: Client, address: str) -> str:
        found = client.run(lambda dask_worker: list(dask_worker.plugins.values())[-1].status())
        return found[address]["stream_id"]

    def hide(self, *streams: str) -> None:
        """Take the segments of streams away; their writers go on writing into them."""
        for stream in streams:
            for segment in self.spool.glob(f"sp-{stream}-*"):
                segment.rename(self.hidden / segment.name)

    def bring_back(self) -> None:
        for segment in self.hidden.iterdir():
            segment.rename(self.spool / segment.name)

    def serve(self) -> None:
        self.pipeline.agents.append(self.pipeline.start_agent(self.spool))


@pytest.fixture
def scene(pipelines, tmp_path, monkeypatch):
    pipeline = pipelines(spools=0, agent_options=AGENT_OPTIONS)
    spool, hidden = tmp_path / "spool", tmp_path / "hidden"
    spool.mkdir(mode=0o700)
    hidden.mkdir()
    monkeypatch.setenv("CREMA_AGGREGATOR", pipeline.endpoint)
    monkeypatch.setenv("CREMA_SPOOL", str(spool))
    return Scene(pipeline, spool, hidden)


@pytest.fixture
def client():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client


def reasons(collector, code: str) -> list[dict]:
    return [reason for reason in collector.reasons if reason["code"] == code]


def scheduler_stream(scene: Scene, *others: str) -> str:
    """The stream in the spool that is none of the others."""
    (stream,) = {path.name.split("-")[1] for path in scene.spool.glob("sp-*")} - set(others)
    return stream


def test_streams_that_an_agent_cannot_see_are_named_and_the_same_when_made_again(
    short_minute, scene, client
):
    """The scheduler's segment and one worker's: nothing but the list of writers knows of them."""
    with crema.MetricsCollector(client, quiet=True) as mc:
        first, second = client.nthreads()
        streams = [scene.stream_of(client, address) for address in (first, second)]
        work(client)
        scene.hide(streams[0], scheduler_stream(scene, *streams))
        scene.serve()
    assert mc.verdict == "PARTIAL"
    missing = {reason["subject"]: reason for reason in reasons(mc, "records_missing")}
    assert len(missing) == 2
    lost = missing[str(uuid.UUID(streams[0]))]
    assert first in lost["text"]
    assert lost["count"] > 20
    again = scene.pipeline.work / "again.h5"
    journal = scene.pipeline.store / str(uuid.UUID(mc.run_id))
    command = [str(PROGRAMS / "crema-sink"), "rebuild", str(journal), "--output", str(again)]
    subprocess.run(command, check=True, capture_output=True)
    with h5py.File(mc.path) as sealed, h5py.File(again) as rebuilt:
        assert sealed.attrs["verdict"] == rebuilt.attrs["verdict"]
        assert sealed.attrs["verdict_reasons"] == rebuilt.attrs["verdict_reasons"]


def test_streams_that_become_readable_before_the_window_closes_are_complete(scene, client):
    with crema.MetricsCollector(client, quiet=True) as mc:
        first, second = client.nthreads()
        streams = [scene.stream_of(client, address) for address in (first, second)]
        work(client)
        scene.hide(streams[0], scheduler_stream(scene, *streams))
        scene.serve()
        later = threading.Timer(2.0, scene.bring_back)
        later.start()
    later.join()
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
    assert not list(scene.hidden.iterdir())


def test_a_worker_that_retired_is_known_by_its_own_end(scene, client):
    with crema.MetricsCollector(client, quiet=True) as mc:
        scene.serve()
        work(client)
        first, _ = client.nthreads()
        client.retire_workers([first])
        wait_for(lambda: first not in client.nthreads(), what="retirement")
        work(client)
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])


def test_a_worker_that_retired_and_whose_stream_is_gone_is_missed(short_minute, scene, client):
    with crema.MetricsCollector(client, quiet=True) as mc:
        first, _ = client.nthreads()
        stream = scene.stream_of(client, first)
        work(client)
        client.retire_workers([first])
        wait_for(lambda: first not in client.nthreads(), what="retirement")
        scene.hide(stream)
        scene.serve()
    assert mc.verdict == "PARTIAL"
    (missing,) = reasons(mc, "records_missing")
    assert missing["subject"] == str(uuid.UUID(stream))
    assert first in missing["text"]


def test_a_killed_worker_is_not_complete(short_minute, scene, client):
    with crema.MetricsCollector(client, quiet=True) as mc:
        scene.serve()
        work(client)
        first, _ = client.nthreads()
        pids = client.run(os.getpid)
        os.kill(pids[first], signal.SIGKILL)
        wait_for(lambda: first not in client.nthreads(), what="the loss of a worker")
        work(client)
    assert mc.verdict == "PARTIAL"
    assert [reason["subject"] for reason in reasons(mc, "writer_killed")] == [first]
    assert not reasons(mc, "writer_unknown")


def test_a_worker_whose_plugin_is_gone_is_named(short_minute, scene, client):
    """As one with another version of crema, or none, that came when the run had begun."""
    with crema.MetricsCollector(client, quiet=True) as mc:
        scene.serve()
        first, _ = client.nthreads()

        def lose(dask_worker):
            name = next(name for name in dask_worker.plugins if name.startswith("crema-"))
            dask_worker.plugins[name].finish()
            del dask_worker.plugins[name]

        client.run(lose, workers=[first])
    assert mc.verdict == "PARTIAL"
    assert [reason["subject"] for reason in reasons(mc, "worker_without_stream")] == [first]


# ---------------------------------------------------------------- a scheduler that has no crema


def _start(module: str, *options: str, before: str = "", **environment: str) -> subprocess.Popen:
    code = f"import sys\n{before}\nfrom distributed.cli.{module} import main\nmain()"
    return Child(
        [sys.executable, "-c", code, "--host", "127.0.0.1", *options],
        env=os.environ | environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.fixture(params=[1000, 2])
def bare_scheduler(request, tmp_path):
    """Three workers and a scheduler that cannot import crema, whose log of events has so many entries per topic."""
    file = tmp_path / "scheduler.json"
    scheduler = _start(
        "dask_scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(file),
        before="sys.modules['crema'] = None",
        DASK_DISTRIBUTED__ADMIN__LOW_LEVEL_LOG_LENGTH=str(request.param),
    )  # fmt: skip
    wait_for(file.exists, 60, "the scheduler")
    options = ("--scheduler-file", str(file), "--nthreads", "1", "--no-dashboard", "--no-nanny")
    started = [scheduler, *(_start("dask_worker", *options) for _ in range(2))]
    with Client(scheduler_file=str(file)) as client:
        client.wait_for_workers(2, timeout=60)
        yield client, lambda: started.append(_start("dask_worker", *options)), request.param
    for process in reversed(started):
        process.terminate()
        process.wait(30)


def test_writers_are_known_where_the_scheduler_has_no_crema(short_minute, scene, bare_scheduler):
    """By its own log of events, as far as that reaches."""
    client, start_worker, events = bare_scheduler
    with crema.MetricsCollector(client, quiet=True) as mc:
        scene.serve()
        client.gather(client.map(time.sleep, [0.002] * 20, pure=False))
        start_worker()
        client.wait_for_workers(3, timeout=60)
        client.gather(client.map(time.sleep, [0.002] * 20, pure=False))
        first = next(iter(client.nthreads()))
        client.retire_workers([first])
        wait_for(lambda: first not in client.nthreads(), what="retirement")
        client.gather(client.map(time.sleep, [0.002] * 20, pure=False))
    unknown = reasons(mc, "writer_unknown")
    if events == 1000:
        assert not unknown, unknown
    else:
        (reason,) = unknown
        assert "log of events does not reach back" in reason["text"]


# ---------------------------------------------------------------- without Dask


def _record(hook: chunks.ChunkHook, number: int) -> int:
    metadata = {
        "dataset": "data", "filename": "file.root", "treename": "Events", "fileuuid": "u",
        "entrystart": 10 * number, "entrystop": 10 * number + 10,
    }  # fmt: skip
    hook.load(metadata, _record)
    hook.save({"metrics": {"entries": 10}}, metadata, _record)
    return os.getpid()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_of_a_pool_are_in_the_list(tmp_path, method):
    context = multiprocessing.get_context(method)
    with crema.MetricsCollector(output=tmp_path, quiet=True) as mc:
        hook = mc.checkpointer
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
            pids = set(pool.map(_record, [hook] * 8, range(8)))
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
    listed = {writer["name"].split(":")[1] for writer in mc._parts[0]["writers"]}
    assert {str(pid) for pid in pids} <= listed
    assert all(writer["last"] > 0 for writer in mc._parts[0]["writers"])
    assert not mc._config.spool_dir().exists()


def test_a_pool_process_whose_stream_is_gone_is_missed(short_minute, scene):
    with crema.MetricsCollector(quiet=True) as mc:
        hook = mc.checkpointer
        with concurrent.futures.ProcessPoolExecutor(1) as pool:
            pid = pool.submit(_record, hook, 0).result()
        (stream,) = (
            writer["stream_id"].hex()
            for writer in _registered(mc)
            if writer["name"].endswith(f":{pid}")
        )
        scene.hide(stream)
        scene.serve()
    assert mc.verdict == "PARTIAL"
    assert str(uuid.UUID(stream)) in {r["subject"] for r in reasons(mc, "records_missing")}
    assert not list(scene.spool.glob("writers-*"))


def _record_on_a_full_disk(hook: chunks.ChunkHook) -> int:
    """RLIMIT_FSIZE stands in for the disk: nothing more fits this process's stream, its END neither."""
    import resource

    from crema.hook import _spool

    _record(hook, 0)
    (writer,) = (writer for writer in _spool._writers if writer.alive)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (writer._size, hard))
    for number in range(1, 6):
        _record(hook, number)
    return writer.dropped


def test_records_that_a_process_could_not_keep_are_counted_though_its_end_could_not_be_written(
    tmp_path,
):
    with crema.MetricsCollector(output=tmp_path, quiet=True) as mc:
        hook = mc.checkpointer
        context = multiprocessing.get_context("spawn")
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
            dropped = pool.submit(_record_on_a_full_disk, hook).result()
    assert dropped > 0 and mc.verdict == "PARTIAL"
    (reason,) = reasons(mc, "records_lost")
    assert reason["count"] >= dropped
    run = crema.open(mc.path)
    assert reason in json.loads(run.attributes["verdict_reasons"])


def _registered(mc) -> list[dict]:
    from crema.hook import _writers

    found = _writers.registered(mc._config.spool_dir(), mc._config.run_id)
    return _writers.parts(b"", found)[0]["writers"]


def test_a_process_without_a_register_records_nothing(tmp_path, monkeypatch):
    """What nobody could miss must not be there to be lost."""
    from crema.hook import _recorder
    from crema.hook._config import HookConfig

    monkeypatch.setenv("CREMA_SPOOL", str(tmp_path))
    config = HookConfig(uuid.uuid4().hex)
    (tmp_path / f"writers-{config.run_id}").mkdir()  # it cannot be written to
    with pytest.raises(OSError):
        _recorder.process_recorder(config)
    assert not list(tmp_path.glob("sp-*"))
    assert not any(writer.alive for writer in _spool._writers)
