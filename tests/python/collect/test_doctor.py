"""`crema.doctor`: each thing that may be wrong is made wrong, and is said with its place and its remedy."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import uuid

import pytest
from click.testing import CliRunner

import crema
import missing
from children import Child
from crema.collect import _installed, _places, _reach, _undelivered, _workers
from crema.collect._finding import OK, PROBLEM, WARNING
from crema.collect._service import LocalService
from crema.hook import _agent, _config, _records, _spool
from crema.hook._programs import program
from crema.read.command import main
from small_disks import disk
from waiting import wait_for

NOBODY = 65534


def only(findings, where=None):
    """The one finding, of those about `where` if that is given."""
    found = [f for f in findings if where is None or f.where == str(where)]
    assert len(found) == 1, found
    assert found[0].status == OK or found[0].remedy
    return found[0]


@pytest.fixture(autouse=True)
def fresh():
    """What is remembered of directories for temporary files is of this test."""
    _config._temporary.cache_clear()
    yield
    _config._temporary.cache_clear()


# -------------------------------------------------------------- what is installed


def test_the_programs_of_this_installation_are_sound():
    found = list(_installed.programs())
    assert [f.status for f in found] == [OK] * 3
    assert found[2].what == f"crema-sink {crema.__version__}"
    assert found[2].where == program("crema-sink")


def test_programs_that_are_missing_broken_or_of_another_version_are_named(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    for name, text in {
        "crema-agent": "#!/bin/sh\necho crema-agent 9.9\n",
        "crema-aggregator": "#!/bin/sh\necho no libzmq.so.5 >&2; exit 127\n",
    }.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setattr(crema, "__path__", [str(tmp_path)])
    monkeypatch.setenv("PATH", str(tmp_path))
    agent, aggregator, sink = _installed.programs()
    assert [f.status for f in (agent, aggregator, sink)] == [PROBLEM] * 3
    assert f"has version 9.9, the package {crema.__version__}" in agent.what
    assert agent.where == str(tmp_path / "bin" / "crema-agent")
    assert "does not run: no libzmq.so.5" in aggregator.what
    assert "crema-sink is missing" in sink.what and "pip install" in sink.remedy


def test_packages_outside_the_tested_versions_are_named(tmp_path, monkeypatch):
    for name, version in (("dask", "2024.12.1"), ("coffea", "2099.1.0")):
        info = tmp_path / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    found = {f.what.split()[0]: f for f in _installed.packages()}
    assert found["dask"].status == PROBLEM and "2024.12.1 is too old" in found["dask"].what
    assert found["coffea"].status == WARNING and "newer than what" in found["coffea"].what
    assert found["h5py"].status == OK
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert only(_installed.packages(), "h5py").what == "h5py is not installed"


def test_a_missing_package_that_crema_requires_is_said_with_the_rest():
    code = "import sys; sys.modules['google.protobuf'] = None; import crema; print(crema.doctor())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "crema-sink" in done.stdout
    assert "problem  package: nothing else can be checked" in done.stdout.splitlines()[-1]


# -------------------------------------------------------------- room


def test_room_is_compared_with_what_a_run_may_need(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert {f.status for f in _places.room(tmp_path / "runs")} == {OK}
    assert not (tmp_path / "runs").exists()
    monkeypatch.setenv("CREMA_SPOOL_LIMIT", "900T")
    found = only(_places.room(tmp_path), _places.spool_directory())
    assert found.status == WARNING and "free" in found.what


def test_a_full_disk_and_one_without_inodes_are_named(tmp_path):
    with disk(tmp_path / "small", "size=1m") as small:
        found = only(_places.room(small), small)
        assert found.status == PROBLEM and "1.0 MiB free" in found.what
        assert found.remedy == "free at least 7.0 MiB"
    with disk(tmp_path / "crowded", "size=64m,nr_inodes=100") as crowded:
        found = only(_places.room(crowded), crowded)
        assert found.status == WARNING and "more files fit" in found.what


def test_a_directory_that_takes_no_file_is_named():
    found = only(_places.room(pathlib.Path("/proc/runs")), "/proc/runs")
    assert found.status == PROBLEM and "no file can be made" in found.what


# -------------------------------------------------------------- the spool directory


def test_spools_go_where_flock_works(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert only(_places.spool(), tmp_path).status in (OK, WARNING)  # a tmpfs, perhaps
    monkeypatch.setattr(tempfile, "tempdir", "/proc")
    _config._temporary.cache_clear()
    assert "flock does not work in /proc" in next(_places.spool()).what
    monkeypatch.setattr(_config, "ELSEWHERE", ("/sys",))
    _config._temporary.cache_clear()
    found = only(_places.spool(), "/proc")
    assert found.status == PROBLEM and "TMPDIR" in found.remedy


def test_a_spool_in_memory_is_named(tmp_path, monkeypatch):
    with disk(tmp_path / "memory", "size=16m") as memory:
        monkeypatch.setattr(tempfile, "tempdir", str(memory))
        found = only(_places.spool(), memory)
        assert found.status == WARNING and "kept in memory" in found.what


def test_an_operators_spool_needs_its_agent(tmp_path, monkeypatch, agent):
    directory = tmp_path / "spool"
    monkeypatch.setenv("CREMA_SPOOL", str(directory))
    assert "does not exist" in only(_places.spool()).what
    directory.mkdir()
    found = next(_places.spool())
    assert found.status == PROBLEM and "no agent serves" in found.what
    assert found.remedy.endswith(f"crema-agent --spool {directory}")
    agent(directory)
    assert not [f for f in _places.spool() if f.status == PROBLEM]


# -------------------------------------------------------------- what is undelivered


@pytest.fixture
def agent():
    """Starts real agents of an aggregator that is not there, and ends them."""
    started = []

    def start(directory):
        command = [program("crema-agent"), "--spool", str(directory)]
        command += ["--aggregator", "tcp://127.0.0.1:9", "--insecure"]
        started.append(Child(command, stderr=subprocess.DEVNULL))
        wait_for(lambda: _agent.lock_is_held(directory / "agent.lock"), 30, "no agent")
        wait_for(lambda: (directory / "agent.lock").read_text().strip(), 30, "no process id")
        return started[-1]

    yield start
    for process in started:
        process.send_signal(signal.SIGKILL)
        process.wait()


@pytest.fixture
def private(tmp_path, monkeypatch):
    """Where crema makes its directories on this host."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    directory = tmp_path / f"crema-{os.getuid()}"
    directory.mkdir(mode=0o700)
    return directory


def record(directory, run, records=50):
    """A stream of a run in a spool directory."""
    directory.mkdir(exist_ok=True)
    info = _records.stream_info({}, run_id=run.bytes, kind=_records.KIND_CLIENT, host="h")
    writer = _spool.StreamWriter(directory, info)
    for i in range(records):
        batch = _records.HEARTBEATS.batch([_records.HEARTBEATS.row(t_ns=i, sent=i)])
        assert writer.append(_records.BATCH, batch)
    return writer


def of(directory):
    return [f for f in _undelivered.undelivered() if f.where == str(directory)]


def test_records_that_nobody_delivers_are_a_problem_and_with_an_agent_none(private, agent):
    run, other = uuid.uuid4(), uuid.uuid4()
    spool = _config.HookConfig(run.hex).spool_dir()
    assert spool.parent == private
    writers = record(spool, run), record(spool, other)
    first, second = sorted(of(spool), key=lambda f: str(other) in f.what)
    assert first.status == second.status == PROBLEM
    size = _spool.held_bytes(spool, os.geteuid()) / 2 / 1024
    assert f"{size:.1f} KiB of run {run} in 1 stream, no agent, still being written" in first.what
    assert f"run {other}" in second.what
    assert f"crema-agent --spool {spool}" in first.remedy
    pid = agent(spool).pid
    found = [f for f in of(spool) if str(run) in f.what]
    assert found[0].status == OK, found
    assert f"agent {pid} delivers to tcp://127.0.0.1:9" in found[0].what
    for writer in writers:
        writer.close()


def test_an_agent_that_delivers_nothing_is_named(private, agent):
    run = uuid.uuid4()
    record(private / "spool", run).close()
    agent(private / "spool")
    old = time.time() - 600
    for path in (private / "spool").glob("sp-*"):
        os.utime(path, (old, old))
    found = only(f for f in of(private / "spool") if str(run) in f.what)
    assert found.status == WARNING and "nothing was delivered for 10 minutes" in found.what


def test_spools_of_other_hosts_and_damaged_ones(private):
    record(private / f"run-{uuid.uuid4().hex}-elsewhere-0123abcd", uuid.uuid4()).close()
    damaged = private / str(uuid.uuid4()) / "spool"
    damaged.mkdir(parents=True)
    record(damaged, uuid.uuid4()).close()
    (segment,) = damaged.glob("sp-*")
    segment.write_bytes(segment.read_bytes()[:40])
    found = [f for f in _undelivered.undelivered() if str(private) in f.where]
    assert "40 B of an unknown run in 1 stream, no agent" in only(found, damaged).what
    assert len(found) == 1


def test_records_that_were_delivered_are_not_found(private, tmp_path):
    with crema.MetricsCollector(output=tmp_path, quiet=True) as mc:
        crema.record_metric("crumbs", 1)
        spool = mc._service.spool
        wait_for(lambda: of(spool), 30, "no stream")
        wait_for(lambda: all(f.status == OK for f in of(spool)), 30, "no agent")
        assert f"run {mc._run_id}" in of(spool)[0].what
        assert mc._service.endpoint in of(spool)[0].what
    assert mc.verdict == "COMPLETE", mc.reasons
    assert not of(spool)


# -------------------------------------------------------------- keys


@pytest.fixture
def keys(tmp_path):
    directory = tmp_path / "keys"
    subprocess.run([program("crema-aggregator"), "--make-keys", directory], check=True)
    return directory


def test_keys_as_they_are_made_are_private(keys, monkeypatch):
    found = list(_places.keys(keys))
    assert {f.status for f in found} == {OK} and len(found) >= 5
    monkeypatch.setenv("CREMA_KEYS", str(keys / "client"))
    assert only(_places.keys(keys / "client")).status == OK


def test_keys_that_others_may_read_are_named(keys):
    secret = keys / "client" / "client.key_secret"
    secret.chmod(0o644)
    (keys / "agent").chmod(0o750)
    found = [f for f in _places.keys(keys) if f.status != OK]
    assert {f.where for f in found} == {str(secret), str(keys / "agent")}
    assert {f.status for f in found} == {PROBLEM}
    assert only(found, secret).what.startswith("mode 0644: open to others")
    for finding in found:
        subprocess.run(finding.remedy.split(), check=True)
    assert {f.status for f in _places.keys(keys)} == {OK}


def test_keys_of_nobody_of_somebody_else_and_of_another_role(keys, tmp_path, monkeypatch):
    assert "does not exist" in only(_places.keys(tmp_path / "none")).what
    (tmp_path / "empty").mkdir()
    assert "no secret key" in only(_places.keys(tmp_path / "empty")).what
    monkeypatch.setenv("CREMA_KEYS", str(keys / "agent"))
    bad = only(f for f in _places.keys(keys / "agent") if f.status != OK)
    assert bad.status == PROBLEM and "cannot be used by a client" in bad.what
    if os.getuid() == 0:
        os.chown(keys / "client" / "client.key_secret", NOBODY, NOBODY)
        found = only(f for f in _places.keys(keys / "client") if f.status != OK)
        assert f"belongs to uid {NOBODY}" in found.what


AS_NOBODY = """
import os, sys
import crema.collect._places as places, crema.collect._undelivered as undelivered
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
print(*places.keys(places.pathlib.Path(sys.argv[1])), *places.spool(), *undelivered.undelivered(), *places.room(
    places.pathlib.Path(sys.argv[1])), sep="\\n")
"""


@pytest.fixture
def open_directory():
    """One that every user may enter: those of pytest are private."""
    with tempfile.TemporaryDirectory(prefix="crema-test-") as name:
        directory = pathlib.Path(name)
        directory.chmod(0o755)
        yield directory


@pytest.mark.skipif(os.getuid() != 0, reason=missing.OTHER_USERS)
def test_keys_and_spool_of_somebody_else_are_named(open_directory, monkeypatch, agent):
    keys, spool = open_directory / "keys", open_directory / "spool"
    subprocess.run([program("crema-aggregator"), "--make-keys", keys], check=True)
    keys.chmod(0o755)
    client = keys / "client"
    record(spool, uuid.uuid4()).close()
    spool.chmod(0o700)
    monkeypatch.setenv("CREMA_SPOOL", str(spool))

    def look():
        command = [sys.executable, "-c", AS_NOBODY, client]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    said = look()
    assert f"problem  keys: this user cannot read it [{client}]" in said
    assert f"warning  undelivered: cannot be read: Permission denied [{spool}]" in said
    assert f"problem  room: run files: no file can be made: Permission denied [{client}]" in said
    client.chmod(0o755)
    said = look()
    assert "keys: belongs to uid 0, not to you" in said
    assert f"chmod 0700 {client}" in said

    # A spool that an operator's agent serves is for all users, its lock is not.
    spool.chmod(0o1777)
    assert f"no agent [{spool}]" in look()
    agent(spool)
    said = look()
    assert "agent of another container or user delivers" in said
    assert "of an unknown run" in said


# -------------------------------------------------------------- run files


def test_live_files_that_no_sink_writes_are_named(tmp_path):
    assert only(_places.run_files(tmp_path)).what == "none is abandoned"
    run = uuid.uuid4()
    service = LocalService(run, tmp_path)
    try:
        service.start()
        live = tmp_path / f"{run}.live.h5"
        live.touch()
        assert only(_places.run_files(tmp_path), live).status == OK
    finally:
        service.close(sealed=True)
    os.utime(live, (time.time() - 600,) * 2)
    found = only(_places.run_files(tmp_path))
    assert found.status == WARNING and "for 10 minutes" in found.what
    assert f"crema-sink rebuild STORE/{run}" in found.remedy
    (tmp_path / f"{run}.h5").touch()
    found = only(_places.run_files(tmp_path))
    assert f"its run is in {run}.h5" in found.what and found.remedy == f"remove it: rm {live}"
    live.unlink()
    (tmp_path / f"{run}.left.txt").touch()
    assert "were left behind" in only(_places.run_files(tmp_path)).what
    assert "does not exist" in only(_places.run_files(tmp_path / "none")).what


# -------------------------------------------------------------- the aggregator


@pytest.fixture
def pipeline(tmp_path, monkeypatch):
    """Sink and aggregator with keys, which the environment names."""
    service = LocalService(uuid.uuid4(), tmp_path)
    service.start()
    monkeypatch.setenv("CREMA_AGGREGATOR", service.endpoint)
    monkeypatch.setenv("CREMA_KEYS", str(service.keys))
    yield service
    service.close(sealed=True)


def test_an_aggregator_that_answers(pipeline):
    found = only(_workers.aggregator())
    assert found.status == OK and found.where == pipeline.endpoint


def test_an_aggregator_that_does_not_answer_or_refuses(pipeline, keys, monkeypatch):
    monkeypatch.setattr(_workers, "ANSWER_S", 1.0)
    monkeypatch.setenv("CREMA_KEYS", str(keys / "client"))  # of another pipeline
    found = only(_workers.aggregator())
    assert found.status == PROBLEM and "no answer within 1 s" in found.what
    monkeypatch.setenv("CREMA_KEYS", str(keys / "agent"))
    assert "is not a client's key directory" in only(_workers.aggregator()).what
    monkeypatch.setenv("CREMA_AGGREGATOR", "tcp://192.0.2.1:5700")
    monkeypatch.delenv("CREMA_KEYS")
    monkeypatch.delenv("CREMA_INSECURE", raising=False)
    assert "there are no keys" in only(_workers.aggregator()).what
    monkeypatch.delenv("CREMA_AGGREGATOR")
    assert not list(_workers.aggregator())


# -------------------------------------------------------------- a cluster


def test_a_sound_cluster(client):
    cluster, reach = _workers.examine(client)
    assert (cluster.status, reach.status) == (OK, OK)
    assert cluster.what == f"crema {crema.__version__} on 3 processes"
    assert cluster.where.endswith("scheduler")
    assert reach.what.startswith("1 host can connect to tcp://127.0.0.1:")


def test_processes_without_crema_or_with_another_are_named(tmp_path):
    from distributed import Client

    from clusters import LocalCluster

    def forget():
        import sys

        sys.modules["crema"] = None

    def grow_old():
        import crema

        crema.__version__ = "0.1.9"

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        bad, old = sorted(client.scheduler_info()["workers"])
        client.run(forget, workers=[bad])
        client.run(grow_old, workers=[old])
        found = list(_workers.examine(client))
        assert only(found, bad).status == PROBLEM
        assert only(found, bad).what == "1 process cannot record: no crema"
        assert only(found, bad).remedy == (
            f"install coffea-crema {crema.__version__} in their environment"
        )
        assert only(found, old).status == WARNING and "crema 0.1.9 on 1" in only(found, old).what


def test_hosts_that_reach_nothing_are_named(client, monkeypatch):
    nowhere = "tcp://192.0.2.1:9,tcp://127.0.0.1:9"
    monkeypatch.setattr(_reach.Plan, "endpoints", lambda plan, bound: nowhere)
    found = only(_workers.examine(client), "127.0.0.1")
    assert found.status == WARNING and "travel over Dask" in found.what
    assert "tcp://192.0.2.1:9" in found.what
    monkeypatch.setenv("CREMA_AGGREGATOR", "tcp://127.0.0.1:9")
    found = only(_workers.examine(client), "127.0.0.1")
    assert found.status == PROBLEM and "cannot connect to tcp://127.0.0.1:9" in found.what


def test_another_server_at_an_address_is_not_taken_for_the_aggregator(client, monkeypatch):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as somebody:
        port = somebody.getsockname()[1]
        monkeypatch.setattr(_reach.Plan, "endpoints", lambda plan, bound: f"tcp://127.0.0.1:{port}")
        assert only(_workers.examine(client), "127.0.0.1").status == WARNING


def test_workers_reach_the_configured_aggregator(client, pipeline):
    found = only(_workers.examine(client), "127.0.0.1")
    assert found.status == OK and pipeline.endpoint in found.what


def test_a_port_that_is_taken_is_named(client, monkeypatch):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setenv("CREMA_PORT", str(taken.getsockname()[1]))
        found = list(_workers.examine(client))[-1]
    assert found.status == PROBLEM and "is taken by another process" in found.what


def test_an_empty_cluster_a_closed_client_and_nobody(monkeypatch):
    from distributed import Client

    from clusters import LocalCluster

    with LocalCluster(n_workers=0, dashboard_address=None) as cluster:
        client = Client(cluster)
        assert "there are no workers" in list(_workers.examine(client))[-1].what
        client.close()
        assert "the client is closed" in only(_workers.examine(client)).what
    assert "not a distributed.Client" in only(_workers.examine(7)).what
    monkeypatch.setattr(_workers, "CONNECT_S", 0.5)
    found = only(_workers.at("tcp://127.0.0.1:9"))
    assert found.status == PROBLEM and "no scheduler answers" in found.what


# -------------------------------------------------------------- the command


@pytest.mark.parametrize("address", ["foo", "http://here", "tcp://", ""])
def test_an_address_that_is_none_is_said_in_a_line_and_at_once(tmp_path, address):
    """Dask's client complained of it when it was collected, after up to 20 s."""
    code = f"from crema.read.command import main\nmain(['doctor', '--scheduler', {address!r}])"
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert "no scheduler answers: " in done.stdout.splitlines()[-1]
    assert (done.returncode, done.stderr) == (1, "")
    assert time.monotonic() - began < 2 * _workers.CONNECT_S


def test_the_command_prints_a_line_per_finding_and_its_status_says_problems(client, tmp_path):
    address = client.scheduler.address
    ran = CliRunner().invoke(main, ["doctor", str(tmp_path), "--scheduler", address, "--json"])
    found = json.loads(ran.output)
    assert {
        "program",
        "package",
        "room",
        "spool",
        "undelivered",
        "run file",
        "cluster",
        "reach",
    } <= {f["topic"] for f in found}
    assert ran.exit_code == any(f["status"] == PROBLEM for f in found)
    missing = tmp_path / "none"
    ran = CliRunner().invoke(main, ["doctor", str(tmp_path), "--keys", str(missing)])
    assert ran.exit_code == 1
    (line,) = [line for line in ran.output.splitlines() if str(missing) in line]
    assert line.startswith(
        f"problem  keys: this key directory does not exist [{missing}]; make keys"
    )
    assert all(line.split()[0] in (OK, WARNING, PROBLEM) for line in ran.output.splitlines())


def test_findings_print_the_same_in_a_notebook(client, tmp_path):
    found = crema.doctor(client, output=tmp_path)
    assert repr(found).count("\n") == len(found) - 1
    assert found.problems == [f for f in found if f.status == PROBLEM]
