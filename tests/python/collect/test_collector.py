"""What a collector promises: everything is up before the analysis starts, and gone when the file is there."""

from __future__ import annotations

import functools
import gc
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import types
import uuid
import weakref

import numpy as np
import pytest
from dask.utils import key_split

import crema
from children import Child
from coffea_runs import run_coffea
from crema.collect import _attributes, _client, _cluster, _dialogue, _pipeline, _service
from run_traces import assert_nothing_left, run_dir, running
from synthetic_runs import make_run
from waiting import wait_for
from workloads import DijetProcessor

# -------------------------------------------------------------- identity and attributes


def test_run_ids_are_uuid7_and_sort_by_time():
    ids = []
    for _ in range(3):
        ids.append(_attributes.new_run_id())
        time.sleep(0.002)
    assert {(i.version, i.variant) for i in ids} == {(7, uuid.RFC_4122)}
    assert ids == sorted(ids)
    age_ms = time.time() * 1000 - (ids[-1].int >> 80)
    assert 0 <= age_ms < 5000


class _Hidden:
    pass


LongName = type("L" * 60, (), {})


@pytest.mark.parametrize("instance", [DijetProcessor(), _Hidden(), LongName(), run_coffea])
def test_prefixes_are_those_that_dask_gives(client, instance):
    from coffea.processor.executor import _compression_wrapper

    wrapped = _compression_wrapper(1, len, name=type(instance).__name__)
    (future,) = client.map(wrapped, ["ab"])
    assert _attributes.processor_prefixes(instance)[-1] == key_split(future.key)


@pytest.mark.parametrize("function", [run_coffea, len, functools.partial(len)])
def test_the_prefix_of_a_function_is_that_of_its_tasks(client, function):
    (future,) = client.map(function, [[]], pure=False)
    assert _attributes.processor_prefixes(function)[0] == key_split(future.key)
    future.cancel()


def test_prefixes_are_none_without_a_processor():
    assert _attributes.processor_prefixes(None) == []


def test_long_attributes_are_cut_at_a_character():
    text = _attributes.text("ä" * 5000)
    assert len(text.encode()) <= _attributes.TEXT_BYTES_MAX
    assert text.endswith("ä ...")


def test_attributes_of_any_kind_become_texts():
    around: list = []
    around.append(around)
    bins = np.array([1, 2])
    given = {
        "bins": bins,
        "bad \ud800": "\udc00",
        5: {(1, 2): 3},
        "self": around,
        "": 1,
        "no": None,
    }
    found = _attributes.of_client(given)
    assert found["bins"] == '"[1 2]"' and found["5"] == "{(1, 2): 3}" and found["self"] == "[[...]]"
    assert found["bad ?"] == "?" and "no" not in found


def test_names_that_only_the_sink_writes_are_refused_at_once():
    wanted = {"format": "NanoAODv9", "chunksize": 100, "verdict": "COMPLETE"}
    with pytest.raises(ValueError, match="attributes format, verdict: only crema writes these"):
        crema.MetricsCollector(attributes=wanted)
    crema.MetricsCollector(attributes={"chunksize": 100, "nanoaod": "v9"})


# -------------------------------------------------------------- wire


def test_messages_survive_the_envelope():
    assert _client.decode(_client.encode(_client.RUN_QUERY, b"body")) == (
        _client.RUN_QUERY,
        b"body",
    )


def test_every_damaged_byte_is_noticed():
    message = _client.encode(_client.RUN_STATE, b"some body")
    for i in range(len(message)):
        damaged = bytearray(message)
        damaged[i] ^= 0x40
        with pytest.raises(_client.WireError):
            _client.decode(bytes(damaged))
    for n in range(len(message)):
        with pytest.raises(_client.WireError):
            _client.decode(message[:n])


# -------------------------------------------------------------- programs


@pytest.fixture
def service(tmp_path):
    service = _service.LocalService(_attributes.new_run_id(), tmp_path)
    service.start()
    yield service
    service.close(sealed=True)


@pytest.mark.parametrize("name", ["crema-sink", "crema-aggregator"])
def test_a_killed_program_comes_back_on_its_port(service, name):
    daemon = service.supervisor._daemons[name]
    before, endpoint = daemon.process.pid, daemon.ready["endpoint"]
    os.kill(before, signal.SIGKILL)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and service.supervisor.restarts.get(name) != 1:
        time.sleep(0.05)
    while time.monotonic() < deadline and not service.supervisor.alive(name):
        time.sleep(0.05)
    assert daemon.process.pid != before
    assert daemon.ready["endpoint"] == endpoint
    assert service.trouble() == ""


def test_programs_end_when_their_client_is_killed(tmp_path):
    code = (
        "import pathlib, sys, time; from crema.collect import _attributes, _service\n"
        "s = _service.LocalService(_attributes.new_run_id(), pathlib.Path(sys.argv[1]))\n"
        "s.start(); print(s.run_id, flush=True); time.sleep(60)"
    )
    with Child(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as child:
        run_id = child.stdout.readline().strip()
        assert len([line for line in running(run_id) if "--keys" in line]) == 2
        child.kill()
    deadline = time.monotonic() + 10
    while running(run_id) and time.monotonic() < deadline:
        time.sleep(0.1)  # also for what clears up after it
    assert not running(run_id)


def test_a_program_that_fails_is_quoted(tmp_path, monkeypatch):
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho the disk is made of cheese >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setattr(_pipeline, "program", lambda name: str(broken))
    mc = crema.MetricsCollector(output=tmp_path, on_error="raise")
    with pytest.raises(crema.CremaError, match=r"(?s)status 3.*made of cheese"), mc:
        pytest.fail("the analysis ran")
    assert_nothing_left(mc)


def test_a_notebook_with_many_open_files_records(tmp_path, many_open_files):
    with crema.MetricsCollector(output=tmp_path, quiet=True, on_error="raise") as mc:
        pass
    assert mc.verdict == "COMPLETE"
    assert_nothing_left(mc)


def test_a_program_that_stays_silent_is_not_waited_for(tmp_path, monkeypatch):
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\nexec sleep 60\n")
    silent.chmod(0o755)
    monkeypatch.setattr(_pipeline, "program", lambda name: str(silent))
    supervisor = _pipeline.Supervisor(tmp_path)
    with pytest.raises(_pipeline.PipelineError, match="was not ready within"):
        supervisor.start("crema-sink", lambda ready: [], timeout_s=0.5)
    supervisor.close()


# -------------------------------------------------------------- runs


def test_a_clean_run_is_complete_and_leaves_nothing(measured):
    mc = measured.collector
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
    assert mc.path.name == f"{mc.run_id}.h5"
    assert_nothing_left(mc)


def test_metrics_are_those_of_the_file(measured):
    metrics = measured.collector.get_metrics()
    assert metrics["total_events"] == measured.report["entries"]
    assert metrics["num_chunks"] == measured.report["chunks"]


def test_the_file_knows_where_it_comes_from(measured):
    with crema.open(measured.path) as run:
        found = run.attributes
        custom = run["custom"].set_index("metric").value
    assert found["run_id"] == measured.collector.run_id
    assert found["run_label"] == "a label"
    assert found["processor_name"] == "DijetProcessor"
    assert found["crema_version"] == crema.__version__
    assert str(found["chunksize"]) == "500"
    assert custom["coffea.entries"] == measured.report["entries"]


def test_executors_of_this_machine_need_no_client(fileset, tmp_path):
    from coffea import processor

    instance = DijetProcessor()
    with crema.MetricsCollector(
        processor_instance=instance, output=tmp_path / "new" / "dir", quiet=True
    ) as mc:
        _, report = run_coffea(mc, processor.IterativeExecutor(status=False), fileset, instance)
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
    assert mc.get_metrics()["total_events"] == report["entries"]
    assert_nothing_left(mc)


@pytest.mark.parametrize("answers", [True, False])
def test_a_slow_git_is_not_waited_for(answers, tmp_path, monkeypatch):
    git, asked = tmp_path / "git", tmp_path / "asked"
    git.write_text(f"#!/bin/sh\nuntil [ -e {asked} ]; do sleep 0.05; done\necho c0ffee\n")
    git.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with crema.MetricsCollector(output=tmp_path, quiet=True) as mc:
        assert mc._git is not None, "it was waited for"
        process = mc._git._process
        if answers:
            asked.touch()
            wait_for(lambda: process.poll() is not None, 30, "git did not end")
    with crema.open(mc.path) as run:
        assert run.attributes.get("git_commit", "") == ("c0ffee" if answers else "")
    assert process.poll() is not None, "it goes on"


def test_the_commit_is_that_of_the_processors_directory(tmp_path, monkeypatch):
    code, elsewhere = tmp_path / "code", tmp_path / "elsewhere"
    code.mkdir()
    elsewhere.mkdir()
    (code / "its_analysis.py").write_text(
        "from workloads import DijetProcessor\n\n\nclass Mine(DijetProcessor):\n    pass\n"
    )

    def git(*arguments):
        who = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
        done = subprocess.run(["git", *who, *arguments], cwd=code, check=True, capture_output=True)
        return done.stdout.decode().strip()

    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "-m", "mine")
    monkeypatch.syspath_prepend(code)
    monkeypatch.chdir(elsewhere)
    from its_analysis import Mine

    with crema.MetricsCollector(processor_instance=Mine(), output=tmp_path, quiet=True) as mc:
        wait_for(lambda: mc._git is None or mc._git._process.poll() is not None, 30, "git")
    with crema.open(mc.path) as run:
        assert run.attributes["git_commit"] == git("rev-parse", "HEAD")


def test_own_checkpointer_keeps_working(fileset, tmp_path):
    from coffea import processor
    from coffea.nanoevents import NanoAODSchema
    from coffea.processor import SimpleCheckpointer

    instance = DijetProcessor()
    kept = tmp_path / "checkpoints"
    counts = []
    for _ in range(2):
        with crema.MetricsCollector(processor_instance=instance, output=tmp_path, quiet=True) as mc:
            own = mc.checkpointer_around(SimpleCheckpointer(str(kept), verbose=False))
            processor.Runner(
                executor=processor.IterativeExecutor(status=False),
                schema=NanoAODSchema,
                chunksize=500,
                checkpointer=own,
            )(fileset, processor_instance=instance, treename="Events")
        with crema.open(mc.path) as run:
            counts.append(len(run["chunks"]))
    assert counts[0] > 0
    assert counts[1] == 0, "a chunk that was loaded is no attempt"
    assert len(list(kept.rglob("*.coffea"))) == counts[0]


def test_an_exception_of_the_analysis_passes_and_is_noted(client, tmp_path):
    class OwnError(Exception):
        pass

    with pytest.raises(OwnError), crema.MetricsCollector(client, output=tmp_path, quiet=True) as mc:
        raise OwnError("the jets are upside down")
    assert mc.verdict == "COMPLETE"
    with crema.open(mc.path) as run:
        assert "OwnError: the jets are upside down" in run.attributes["exception"]
    assert_nothing_left(mc)


def test_a_keyboard_interrupt_of_the_analysis_still_gives_a_file(client, tmp_path):
    with (
        pytest.raises(KeyboardInterrupt),
        crema.MetricsCollector(client, output=tmp_path, quiet=True) as mc,
    ):
        raise KeyboardInterrupt
    assert mc.verdict == "COMPLETE"
    assert mc.path.is_file()
    assert_nothing_left(mc)


def test_an_operators_pipeline_is_used(fileset, service, tmp_path, monkeypatch):
    from coffea import processor

    monkeypatch.setenv("CREMA_AGGREGATOR", service.endpoint)
    monkeypatch.setenv("CREMA_KEYS", str(service.keys))
    instance = DijetProcessor()
    with crema.MetricsCollector(processor_instance=instance, quiet=True) as mc:
        run_coffea(mc, processor.IterativeExecutor(status=False), fileset, instance)
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
    assert mc.path.parent == tmp_path, "the file goes where the operator's sink was told"
    assert_nothing_left(mc)
    assert service.supervisor.alive("crema-sink")
    assert service.supervisor.alive("crema-aggregator")


_SLOW_CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *t)
{
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(id, t);
    if (status == 0 && id == CLOCK_REALTIME)
        t->tv_sec -= 1000;
    return status;
}
"""
_SHORT_RUN = """
import time, crema
with crema.MetricsCollector(quiet=True) as mc:
    time.sleep(4)
    crema.record_metric("here", time.time_ns())
print(mc.path)
"""


def test_the_window_of_a_run_is_on_the_sinks_clock(service, tmp_path):
    """A notebook whose clock is a quarter of an hour slow, and so is that of the agent on its host."""
    source, shim = tmp_path / "slow.c", tmp_path / "slow.so"
    source.write_text(_SLOW_CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", shim, source, "-ldl"], check=True)
    environment = os.environ | {
        "CREMA_AGGREGATOR": service.endpoint,
        "CREMA_KEYS": str(service.keys),
        "LD_PRELOAD": str(shim),
    }
    began_ns = time.time_ns()
    found = subprocess.run(
        [sys.executable, "-c", _SHORT_RUN], env=environment, check=True, stdout=subprocess.PIPE
    )
    ended_ns = time.time_ns()
    run = crema.open(found.stdout.decode().strip())
    assert (run["clock"].offset_ns + 1000e9).abs().max() < 0.2e9
    start_ns, end_ns = run.attributes["t_run_start_ns"], run.attributes["t_run_end_ns"]
    assert began_ns < start_ns < end_ns < ended_ns
    metric = run["custom"].iloc[0]
    assert metric.value < began_ns - 900e9, "its clock was slow"
    # A bound of the correction is half a round trip, on a busy machine some milliseconds.
    assert start_ns < metric.t_ns < end_ns + 0.2e9
    assert run.summary()["wall_time"] == pytest.approx((end_ns - start_ns) * 1e-9)


# -------------------------------------------------------------- refusals, before the analysis starts


def test_the_name_of_a_file_is_not_a_directory(tmp_path):
    with pytest.raises(ValueError, match=r"run\.h5 is the name of a file: give "):
        crema.MetricsCollector(output=tmp_path / "run.h5")
    (tmp_path / "run.h5").mkdir()
    crema.MetricsCollector(output=tmp_path / "run.h5")


def test_an_unwritable_directory_is_refused(tmp_path):
    (tmp_path / "file").touch()
    mc = crema.MetricsCollector(output=tmp_path / "file" / "runs", on_error="raise")
    with pytest.raises(crema.CremaError, match="cannot be written"), mc:
        pytest.fail("the analysis ran")
    assert_nothing_left(mc)


def test_a_worker_without_the_package_is_named(tmp_path):
    from distributed import Client

    from clusters import LocalCluster

    def forget():
        sys.modules["crema"] = None

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        bad = sorted(client.scheduler_info()["workers"])[0]
        client.run(forget, workers=[bad])
        mc = crema.MetricsCollector(client, output=tmp_path, on_error="raise")
        with pytest.raises(crema.CremaError, match="no crema") as caught, mc:
            pytest.fail("the analysis ran")
        others = set(client.scheduler_info()["workers"]) - {bad}
    assert bad in str(caught.value)
    assert not any(name in str(caught.value) for name in others)
    assert_nothing_left(mc)


def test_a_silent_aggregator_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(_dialogue, "OPEN_S", 1.0)
    monkeypatch.setenv("CREMA_AGGREGATOR", "tcp://127.0.0.1:9")
    mc = crema.MetricsCollector(output=tmp_path, on_error="raise")
    with pytest.raises(crema.CremaError, match=r"no aggregator answered at tcp://127.0.0.1:9"), mc:
        pytest.fail("the analysis ran")
    assert_nothing_left(mc)


def test_a_collector_without_keys_sends_nothing_to_another_host(tmp_path, monkeypatch):
    monkeypatch.setenv("CREMA_AGGREGATOR", "tcp://192.0.2.1:5700")
    monkeypatch.setattr(_dialogue, "OPEN_S", 0.1)
    for insecure, why in (("", "in the clear"), ("1", "no aggregator answered")):
        monkeypatch.setenv("CREMA_INSECURE", insecure)
        with (
            pytest.raises(crema.CremaError, match=why),
            crema.MetricsCollector(output=tmp_path, quiet=True, on_error="raise"),
        ):
            pytest.fail("the analysis ran")


def test_missing_keys_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("CREMA_AGGREGATOR", "tcp://127.0.0.1:9")
    monkeypatch.setenv("CREMA_KEYS", str(tmp_path))
    with (
        pytest.raises(crema.CremaError, match="not a client's key directory"),
        crema.MetricsCollector(output=tmp_path, on_error="raise"),
    ):
        pytest.fail("the analysis ran")


def test_lines_about_a_run_are_wrapped_in_a_notebook(tmp_path, monkeypatch):
    shown = []
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("rich.jupyter.display", lambda segments, text: shown.append(text))
    crema.MetricsCollector()._show(make_run(tmp_path, "busy", 300))
    lines = re.sub(r"\x1b\[[0-9;]*m", "", "".join(shown)).splitlines()
    assert lines and "thread-seconds" in " ".join(lines)
    assert max(map(len, lines)) <= 115, "rich's width of a notebook"


class Heavy:
    """Stands for a processor with corrections of gigabytes."""


def test_a_processor_is_not_kept_after_its_run(tmp_path):
    heavy = Heavy()
    kept = weakref.ref(heavy)
    with crema.MetricsCollector(processor_instance=heavy, output=tmp_path, quiet=True) as mc:
        pass
    del heavy
    gc.collect()
    assert kept() is None and mc.verdict == "COMPLETE"
    with crema.open(mc.path) as run:
        assert run.attributes["processor_name"] == "Heavy"


@pytest.mark.parametrize("where", ["workers", "here"])
def test_keys_in_the_environment_are_not_for_the_programs_of_a_run(
    request, where, tmp_path, monkeypatch
):
    """They are of another pipeline, or of another role; an agent takes the key of a server or a directory of keys, not both."""
    for name in ("AGENT_KEYS", "AGENT_SERVER_KEY", "SINK_KEYS", "AGGREGATOR_KEYS", "KEYS"):
        monkeypatch.setenv(f"CREMA_{name}", "/nowhere")
    client = request.getfixturevalue("client_here") if where == "workers" else None
    with crema.MetricsCollector(client, output=tmp_path, quiet=True, timeout=10) as mc:
        if client is None:
            crema.record_metric("crumbs", 1)
        else:
            assert client.submit(sum, [1, 2]).result() == 3
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])


def test_a_collector_records_one_run(tmp_path):
    mc = crema.MetricsCollector(output=tmp_path, quiet=True, on_error="raise")
    with pytest.raises(crema.CremaError, match="inside the with block"):
        _ = mc.checkpointer
    with mc:
        pass
    with pytest.raises(crema.CremaError, match="the run is over"):
        mc.live()
    with pytest.raises(crema.CremaError, match="one run"), mc:
        pytest.fail("a second run")
    mc._on_error = "warn"
    with mc:
        pass
    assert (mc.verdict, mc.reasons[-1]["code"]) == ("UNKNOWN", "not_recorded")


@pytest.mark.slow
def test_a_block_of_a_collector_inside_its_own_ends_nothing(fileset, tmp_path):
    from coffea import processor

    instance = DijetProcessor()
    with crema.MetricsCollector(processor_instance=instance, output=tmp_path, quiet=True) as mc:
        with mc:
            pass
        assert mc.path is None and mc.verdict == "UNKNOWN"
        _, report = run_coffea(mc, processor.IterativeExecutor(status=False), fileset, instance)
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
    assert mc.get_metrics()["total_events"] == report["entries"]


def test_a_collector_without_a_run_file_raises_nothing_after_the_block(tmp_path, capsys):
    mc = crema.MetricsCollector("not a client", output=tmp_path)
    with mc:
        pass
    capsys.readouterr()
    assert mc.report() is None
    assert mc.save_measurement(tmp_path) is None
    assert capsys.readouterr().err.count("there is no run file of run") == 2
    assert "UNKNOWN" in repr(mc)
    mc._on_error = "raise"
    with pytest.raises(crema.CremaError, match="no run file"):
        mc.report()


# -------------------------------------------------------------- what happens to the pipeline later


def test_a_pipeline_that_dies_leaves_the_analysis_alone(client, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(_pipeline, "QUICK_DEATHS_MAX", 0)
    with crema.MetricsCollector(client, output=tmp_path, quiet=True, timeout=5) as mc:
        for daemon in mc._service.supervisor._daemons.values():
            daemon.quick_deaths = 1
            daemon.process.kill()
        assert client.submit(sum, [1, 2]).result() == 3
    assert mc.verdict == "UNKNOWN"
    assert mc.reasons[0]["code"] == "no_verdict"
    assert "no verdict" in capsys.readouterr().err
    deadline = time.monotonic() + 20
    while len(running(mc.run_id)) > 1 and time.monotonic() < deadline:
        time.sleep(0.05)  # an agent that found the spool taken is on its way out
    (line,) = running(mc.run_id)
    assert "crema-agent" in line, "only the agent stays, with what it could not deliver"
    forget(mc)


def forget(mc) -> None:
    """End the agent of a run that will never be delivered, and remove what it kept."""
    spool = mc._config.spool_dir()
    os.kill(int((spool / "agent.lock").read_text()), signal.SIGKILL)
    shutil.rmtree(spool)
    shutil.rmtree(run_dir(mc))


# -------------------------------------------------------------- where the cluster is


def test_a_client_that_is_none_is_refused(tmp_path):
    mc = crema.MetricsCollector("tcp://127.0.0.1:8786", output=tmp_path, on_error="raise")
    with pytest.raises(crema.CremaError, match="not a distributed"), mc:
        pytest.fail("the analysis ran")


def test_the_workers_threads_are_not_waited_for_without_end(monkeypatch):
    monkeypatch.setattr(_attributes, "bounded", functools.partial(_cluster.bounded, timeout_s=0.1))
    client = types.SimpleNamespace(nthreads=lambda: time.sleep(30))
    with pytest.raises(_cluster.ClusterError, match=r"did not answer within 0\.1 s"):
        _attributes.of_cluster(client)


def test_a_call_of_dask_that_never_returns_is_left_behind():
    with pytest.raises(_cluster.ClusterError, match=r"did not answer within 0\.1 s"):
        _cluster.bounded(lambda: time.sleep(30), "a call", timeout_s=0.1)
