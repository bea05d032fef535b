"""Measuring never hurts: what cannot be recorded is named, and the analysis runs."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

import crema
from children import Child
from crema.collect import _cluster, _dialogue, _pipeline, collector
from crema.collect._plugins import Plugins
from crema.hook._config import HookConfig
from crema.hook.chunks import ChunkHook
from crema.hook.nanny import NannyHook
from crema.hook.scheduler import SchedulerHook
from crema.hook.worker import WorkerHook
from run_traces import assert_nothing_left, run_dir
from small_disks import disk

NO_CREMA = "import sys\nsys.modules['crema'] = None\n"
OTHER_CREMA = """
import sys, types
sys.modules["crema"] = crema = types.ModuleType("crema")
crema.__version__ = "9.9"
"""

# -------------------------------------------------------------- what travels


def arrives(thing, preamble):
    """What `thing` is in a process that runs `preamble` first: its class, and the name that Dask would know it by."""
    code = preamble + (
        "import pickle\n"
        f"thing = pickle.loads({pickle.dumps(thing)!r})\n"
        "print(type(thing).__module__, type(thing).__name__, getattr(thing, 'name', ''))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def config():
    return HookConfig("01a20000000070008000000000000001", server_key="k", agent_options=("--x",))


def test_hooks_unpickle_where_crema_is_not():
    settings = config()
    name = f"crema-{settings.run_id}"
    plugin = "distributed.diagnostics.plugin"
    for preamble in (NO_CREMA, OTHER_CREMA):
        assert arrives(ChunkHook(settings), preamble) == ["builtins", "NoneType"]
        assert arrives(WorkerHook(settings), preamble) == [plugin, "WorkerPlugin", name]
        assert arrives(SchedulerHook(settings), preamble) == [plugin, "SchedulerPlugin", name]
        assert arrives(NannyHook(settings), preamble) == [plugin, "NannyPlugin", name]


def test_an_earlier_version_that_has_no_plugin_for_nannies_starts_its_workers():
    preamble = "from crema.hook import _travel\ndel _travel._KINDS['nanny']\n"
    assert arrives(NannyHook(config()), preamble)[1] == "NannyPlugin"


def test_hooks_arrive_whole_where_crema_is():
    for hook in (ChunkHook, WorkerHook, SchedulerHook, NannyHook):
        thing = hook(config())
        found = arrives(thing, "")
        assert found[:2] == [type(thing).__module__, type(thing).__name__]
        assert pickle.loads(pickle.dumps(thing)).config == config()


def test_the_users_own_checkpointer_arrives_without_crema():
    own = ChunkHook(config(), checkpointer={"any": "object"})
    assert arrives(own, NO_CREMA) == ["builtins", "dict"]
    assert pickle.loads(pickle.dumps(own)).checkpointer == {"any": "object"}


def test_another_protocol_records_nothing_and_other_settings_are_left_out():
    call, (expression, names) = ChunkHook(config()).__reduce__()
    state = names["state"] | {"config": names["state"]["config"] | {"of_tomorrow": 1}}
    assert call(expression, names | {"state": state}).config == config()
    state = state | {"wire": state["wire"] + 1}
    assert call(expression, names | {"state": state}) is None


# -------------------------------------------------------------- a run that cannot be recorded


def test_a_temporary_directory_without_room_is_named(tmp_path):
    code = (
        "import crema\nwith crema.MetricsCollector(None) as mc:\n    print('analysed', mc.verdict)"
    )
    with disk(tmp_path / "small", "size=16k") as small:
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env=os.environ | {"TMPDIR": str(small)},
            cwd=tmp_path,
        )
    assert done.returncode == 0
    assert done.stdout.startswith("analysed")
    line = done.stderr.splitlines()[0]
    assert f"{small}/" in line
    assert line.endswith("no space left; set TMPDIR to a directory with room")


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """A sink that does not start."""
    program = tmp_path / "broken"
    program.write_text("#!/bin/sh\necho the disk is made of cheese >&2\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setattr(_pipeline, "program", lambda name: str(program))


def test_the_analysis_runs_unrecorded_and_one_line_says_why(broken, tmp_path, capfd, recwarn):
    done = []
    with crema.MetricsCollector(output=tmp_path) as mc:
        assert mc.checkpointer is None
        assert mc.checkpointer_around("own") == "own"
        mc.set_coffea_report({"entries": 1})
        mc.set_coffea_report(None)
        done.append(1)
    assert done and mc.verdict == "UNKNOWN" and mc.path is None
    assert [reason["code"] for reason in mc.reasons] == ["not_recorded"]
    lines = [line for line in capfd.readouterr().err.splitlines() if "cheese" in line]
    assert len(lines) == 1
    assert lines[0].startswith("crema: the analysis runs unrecorded: ")
    assert not recwarn.list
    assert_nothing_left(mc)


@pytest.mark.parametrize("error", [RuntimeError("boom"), MemoryError(), KeyError("x")])
def test_exceptions_of_crema_do_not_pass(error, tmp_path, monkeypatch, capfd):
    def fail(*args, **kwargs):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(collector, "LocalService", fail)
        with crema.MetricsCollector(output=tmp_path) as mc:
            pass
    assert mc.verdict == "UNKNOWN"
    assert capfd.readouterr().err.count("crema: the analysis runs unrecorded") == 1
    with monkeypatch.context() as patch:
        patch.setattr(collector, "LocalService", fail)
        with pytest.raises(type(error)), crema.MetricsCollector(output=tmp_path, on_error="raise"):
            pytest.fail("the analysis ran")


@pytest.mark.parametrize("n", range(9))
def test_analysis_runs_where_threads_or_processes_are_used_up(n, tmp_path, monkeypatch, capfd):
    """From the n-th thread on none can be started."""
    start, left = threading.Thread.start, [n]

    def start_or_fail(thread):
        if not left[0] and thread.name.startswith("crema"):
            raise RuntimeError("can't start new thread")
        left[0] -= thread.name.startswith("crema")
        start(thread)

    done = []
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start_or_fail)
        with crema.MetricsCollector(output=tmp_path, timeout=5) as mc:
            gc.collect()  # nothing of it waits
            done.append(1)
    told = capfd.readouterr().err
    assert done and mc.verdict == "UNKNOWN"
    assert told.count("the analysis runs unrecorded: ") == 1 and "thread" in told
    assert "could be ended" not in told
    assert_nothing_left(mc)


def test_the_analysis_has_room_for_threads_of_its_own(tmp_path, monkeypatch, capfd):
    """Where the run's threads take the last ones, uproot waits without end for a thread that could not be started."""
    start, most = threading.Thread.start, threading.active_count() + 8

    def start_or_fail(thread):
        if threading.active_count() >= most:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_or_fail)
    with crema.MetricsCollector(output=tmp_path, timeout=5) as mc:
        assert mc.verdict == "UNKNOWN"
    assert "the analysis runs unrecorded: this process can start no more threads" in (
        capfd.readouterr().err
    )
    assert_nothing_left(mc)


def test_an_error_while_ending_is_not_taken_for_records_that_stay(tmp_path, monkeypatch, capfd):
    close = collector.LocalService.close

    def fail(service, **how):
        close(service, **how)
        raise OSError("no such thing")

    monkeypatch.setattr(collector.LocalService, "close", fail)
    with crema.MetricsCollector(output=tmp_path, quiet=True) as mc:
        pass
    assert mc.verdict == "COMPLETE"
    said = capfd.readouterr().err
    assert "crema: not everything could be ended: OSError: no such thing" in said
    assert "records" not in said


def test_an_interrupt_passes_while_entering(tmp_path, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(_dialogue, "AggregatorClient", interrupt)
    mc = crema.MetricsCollector(output=tmp_path)
    with pytest.raises(KeyboardInterrupt), mc:
        pytest.fail("the analysis ran")
    assert_nothing_left(mc)


def test_wrong_arguments_raise_at_once(tmp_path):
    for wrong in ({"on_error": "ignore"}, {"sample_interval": 0}, {"timeout": -1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            crema.MetricsCollector(output=tmp_path, **wrong)


def test_a_closed_client_is_said_to_be_closed(tmp_path, capfd):
    from distributed import Client

    client = Client(processes=False, n_workers=1, dashboard_address=":0")
    client.close()
    with crema.MetricsCollector(client, output=tmp_path) as mc:
        pass
    assert mc.verdict == "UNKNOWN"
    assert "the client is closed" in capfd.readouterr().err


# -------------------------------------------------------------- workers that cannot record


def late_worker(address, preload, tmp_path, name):
    """A Dask worker with a nanny, whose process runs `preload` before anything else."""
    script = tmp_path / f"{name}.py"
    script.write_text(preload)
    command = [sys.executable, "-m", "dask", "worker"]
    options = ["--nthreads", "1", "--name", name, "--preload", str(script), "--no-dashboard"]
    return Child([*command, address, *options], cwd=tmp_path)


@pytest.mark.parametrize(
    "preload",
    [NO_CREMA, pytest.param(OTHER_CREMA, marks=pytest.mark.slow)],
    ids=["without", "another version"],
)
def test_a_late_worker_that_cannot_record_works_and_is_named(preload, fileset, tmp_path):
    from coffea import processor
    from coffea.nanoevents import BaseSchema
    from distributed import Client

    from clusters import LocalCluster

    def count(events):  # in here it travels by value
        return {"events": len(events)}

    def slow(item):
        time.sleep(0.05)
        return item

    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        late = None
        try:
            with crema.MetricsCollector(client, output=tmp_path, quiet=True, timeout=60) as mc:
                late = late_worker(client.scheduler.address, preload, tmp_path, "late")
                client.wait_for_workers(2, timeout=60)
                assert sum(client.gather(client.map(slow, range(100)))) == 4950
                (mine,) = {
                    address
                    for address, info in client.scheduler_info()["workers"].items()
                    if info["name"] == "late"
                }
                assert client.submit(slow, 7, workers=[mine]).result(timeout=30) == 7
                run = processor.Runner(
                    executor=processor.DaskExecutor(client=client),
                    schema=BaseSchema,
                    checkpointer=mc.checkpointer,
                    chunksize=100,
                )
                output = run(fileset, processor_instance=count)
        finally:
            if late is not None:
                late.terminate()
                late.wait(30)
    assert output["events"] == expected_events(fileset)
    assert mc.verdict == "PARTIAL"
    assert mine in {reason["subject"] for reason in mc.reasons}, mc.reasons
    assert_nothing_left(mc)


def expected_events(fileset):
    import uproot

    files = [file for dataset in fileset.values() for file in dataset["files"]]
    return sum(uproot.open(file)["Events"].num_entries for file in files)


def test_workers_without_it_are_named_before_the_analysis(tmp_path, capfd):
    from distributed import Client, LocalCluster

    from clusters import as_dask_starts_workers

    def slow(item):
        time.sleep(0.05)
        return item

    def forget():
        import sys

        sys.modules["crema"] = None

    with (
        as_dask_starts_workers(),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        bad, _good = sorted(client.scheduler_info()["workers"])
        client.run(forget, workers=[bad])
        with crema.MetricsCollector(client, output=tmp_path, quiet=True) as mc:
            assert sum(client.gather(client.map(slow, range(20), pure=False))) == 190
    said = capfd.readouterr().err
    assert f"crema: 1 processes work unrecorded: {bad} (" in said
    assert mc.verdict == "PARTIAL"
    assert {reason["subject"] for reason in mc.reasons} == {bad}


@pytest.mark.parametrize("lacking", [{}, {"scheduler": "no crema"}])
def test_a_missed_chunk_is_put_down_to_the_scheduler_that_has_no_crema(lacking):
    said, client = [], SimpleNamespace(scheduler=SimpleNamespace(address="tcp://x:1"))
    plugins = Plugins(client, None, None, said.append, None)
    plugins._lacking = lacking
    for _ in range(2):
        plugins._on_event({"prefix": "Counter"})
    (line,) = said
    assert ("the scheduler, which passes the checkpointer on" in line) == bool(lacking)


def test_long_lists_are_cut():
    lacking = {f"tcp://10.0.0.{i}:1": "no crema" for i in range(9)}
    assert _cluster.listed(lacking).endswith(" and 4 more")


@pytest.mark.parametrize("how", [OSError, KeyboardInterrupt])
@pytest.mark.parametrize("where", ["_record_client", "_begin_block"])
def test_a_block_that_never_began_leaves_nothing(where, how, tmp_path, monkeypatch, capfd):
    def fail(self):
        raise how("not today")

    monkeypatch.setattr(crema.MetricsCollector, where, fail)
    mc = crema.MetricsCollector(output=tmp_path)
    with pytest.raises(KeyboardInterrupt) if how is KeyboardInterrupt else contextlib.nullcontext():
        mc.__enter__()
    assert not run_dir(mc).exists()
    assert not list(tmp_path.iterdir())
    assert "kept in" not in capfd.readouterr().err


def test_messages_without_a_standard_error_are_printed_nowhere(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(sys, "stderr", None)
    with crema.MetricsCollector(output="/proc/nowhere") as mc:
        pass
    assert "run files cannot be written to /proc/nowhere" in mc.reasons[0]["text"]
    assert capfd.readouterr() == ("", "")


def test_a_working_directory_that_is_gone_is_named_and_raises_nothing(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with crema.MetricsCollector(quiet=True) as mc:
        pass
    monkeypatch.chdir(tmp_path)
    assert mc.verdict == "UNKNOWN"
    assert "run files cannot be written" in mc.reasons[0]["text"]
