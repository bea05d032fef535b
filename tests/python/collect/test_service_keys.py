"""What a collector made for its run goes with it, however it ends: keys at once, the rest when the run file is there."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import uuid
import venv

import pytest
import zmq.auth

import crema
from children import Child
from crema.collect import _keys, _killed
from crema.collect._dialogue import Dialogue
from crema.collect._service import LocalService
from crema.hook._programs import program
from run_traces import running
from waiting import wait_for

SERVICE = """
import pathlib, sys, uuid
from crema.collect._service import LocalService
service = LocalService(uuid.UUID(sys.argv[1]), pathlib.Path(sys.argv[2]))
service.start()
service.start_agent(1.0)
print(service.run_dir, flush=True)
sys.stdin.read()
"""

NOTEBOOK = """
import pathlib, sys
import crema
with crema.MetricsCollector(output=sys.argv[1], quiet=True) as mc:
    for i in range(100):
        crema.record_metric("crumbs", i)
    print(mc._service.run_dir, flush=True)
    sys.stdin.read()
"""


CLUSTER = """
import pathlib, sys, time
import crema
from distributed import Client, LocalCluster
def work(i, directory):
    crema.record_metric("crumbs", i)
    if i >= 40:
        (directory / f"begun-{i}").touch()
        time.sleep(600)
    crema.record_metric("crumbs", i)
if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        with crema.MetricsCollector(client, output=sys.argv[1], quiet=True) as mc:
            print(mc._service.run_dir, flush=True)
            futures = client.map(work, range(42), directory=pathlib.Path(sys.argv[1]))
            sys.stdin.read()
"""


def start(script, *arguments, python=sys.executable):
    """A collector, and its run's private directory."""
    collector = Child(
        [python, "-c", script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"CREMA_AGENT_DRAIN_TIMEOUT": "2s"},  # for the one that nothing answers
    )
    return collector, pathlib.Path(collector.stdout.readline().strip())


def kill(collector):
    collector.send_signal(signal.SIGKILL)
    collector.communicate()


def test_keys_go_when_the_collector_is_killed(tmp_path):
    collector, run_dir = start(SERVICE, uuid.uuid4(), tmp_path)
    held = [run_dir / "keys", run_dir / "agent-keys"]
    try:
        assert all(path.is_dir() for path in held)
    finally:
        kill(collector)
    wait_for(lambda: not any(path.exists() for path in held), 30, "the keys stay")
    wait_for(lambda: not run_dir.exists(), 60, "the directory stays")
    assert not list(tmp_path.iterdir())


def test_a_file_that_holds_less_is_replaced(tmp_path):
    """As after a verdict, if records came late and the notebook was killed then."""
    with crema.MetricsCollector(output=tmp_path, quiet=True) as mc:
        store = mc._service.store
        shutil.copytree(store, tmp_path / "early")
        for i in range(100):
            crema.record_metric("crumbs", i)
        (journal,) = store.glob("*/*.journal")
        size = journal.stat().st_size
        wait_for(lambda: journal.stat().st_size > size + 1500, 20, "nothing is delivered")
        shutil.copytree(store, tmp_path / "late")
    (early,), (late,) = ((tmp_path / name).glob("*/") for name in ("early", "late"))
    file = tmp_path / "run.h5"
    _killed._rebuild(early, file)
    before = _killed._records(file)
    _killed._rebuild(late, file)
    assert _killed._records(file) > before


# An agent that is preempted between taking the lock and writing its process id into it.
LATE = """
import fcntl, os, signal, sys, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
lock = open(sys.argv[2] + "/agent.lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(0.5)
print(os.getpid(), file=lock, flush=True)
signal.sigwait([signal.SIGUSR1])
"""


def test_an_agent_that_has_just_taken_its_spool_is_told_to_deliver(tmp_path):
    agent = Child(
        [sys.executable, "-c", LATE, "--spool", str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert agent.stdout.readline() == "held\n"
    _killed.signal_agent(tmp_path, signal.SIGUSR1, time.monotonic() + 20)
    assert agent.wait(10) == 0


def test_a_killed_notebook_leaves_its_run_file_and_nothing_else(tmp_path):
    collector, run_dir = start(NOTEBOOK, tmp_path)
    kill(collector)
    wait_for(lambda: not run_dir.exists(), 120, "the directory stays")
    wait_for(lambda: not running(run_dir.name), 30, "a program stays")
    (path,) = tmp_path.iterdir()
    with crema.open(path) as run:
        assert path.name == f"{run_dir.name}.h5" and not run.live
        assert run.verdict == "PARTIAL"
        assert "run_not_ended" in {reason["code"] for reason in run.reasons}
        assert len(run["custom"]) == 100, "what lay in the spool is in the file"


# Changed after this process has looked where temporary files go, or without its children's knowledge.
OTHER_TMP = {
    "variable": "import os, tempfile; tempfile.gettempdir(); os.environ['TMPDIR'] = {!r}\n",
    "module": "import tempfile; tempfile.tempdir = {!r}\n",
}


@pytest.mark.parametrize("how", ["variable", pytest.param("module", marks=pytest.mark.slow)])
def test_a_killed_notebook_that_had_changed_its_temporary_directory_leaves_its_file(how, tmp_path):
    places = [tmp_path / "tmp", tmp_path / "out"]
    for place in places:
        place.mkdir()
    collector, run_dir = start(OTHER_TMP[how].format(str(places[0])) + NOTEBOOK, places[1])
    assert run_dir.is_relative_to(places[0]) == (how == "module")
    kill(collector)
    wait_for(lambda: not run_dir.exists(), 120, "the directory stays")
    (path,) = places[1].iterdir()
    with crema.open(path) as run:
        assert path.name == f"{run_dir.name}.h5" and len(run["custom"]) == 100
    assert not list(places[0].rglob("*"))


@pytest.mark.parametrize(
    "how", ["", *(pytest.param(how, marks=pytest.mark.slow) for how in OTHER_TMP)]
)
def test_records_of_workers_of_a_killed_notebook_are_in_its_file(how, tmp_path, monkeypatch):
    """They end with it, and their agent finds no aggregator any more."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    for name in ("tmp", "other", "out"):
        (tmp_path / name).mkdir()
    script, main = CLUSTER, 'if __name__ == "__main__":\n'
    if how:
        script = script.replace(main, f"{main}    {OTHER_TMP[how].format(str(tmp_path / 'other'))}")
    collector, run_dir = start(script, tmp_path / "out")
    try:
        last = [tmp_path / "out" / f"begun-{i}" for i in (40, 41)]
        wait_for(lambda: all(path.exists() for path in last), 60, "the last tasks did not run")
        kill(collector)
        wait_for(lambda: not run_dir.exists(), 120, "the directory stays")
        wait_for(lambda: not running(run_dir.name), 30, "a program stays")
        (path,) = (tmp_path / "out").glob("*.h5")
        with crema.open(path) as run:
            assert run.verdict == "PARTIAL"
            ended = run["summary/completeness"]
            assert (ended.received == ended.expected).all(), ended
            assert len(run["custom"]) == 82
        for name in ("tmp", "other"):
            assert not list((tmp_path / name).glob("crema-*/*")), "a spool stays"
        assert not list((tmp_path / "out").glob("*.txt"))
    finally:
        collector.kill()


def test_a_killed_notebook_is_cleaned_up_by_a_python_that_finds_the_package_by_itself_no_more(
    tmp_path,
):
    """As after ``pip install --target``, and ``sys.path.insert`` in the notebook."""
    venv.create(tmp_path / "bare")
    for part in crema.__path__:  # two when the installation is editable
        shutil.copytree(part, tmp_path / "packages" / "crema", dirs_exist_ok=True)
    packages = [str(tmp_path / "packages"), *filter(None, sys.path)]
    (tmp_path / "out").mkdir()
    collector, run_dir = start(
        f"import sys; sys.path[:0] = {packages!r}" + NOTEBOOK,
        tmp_path / "out",
        python=tmp_path / "bare" / "bin" / "python",
    )
    kill(collector)
    wait_for(lambda: not run_dir.exists(), 120, "the directory stays")
    (path,) = (tmp_path / "out").iterdir()
    with crema.open(path) as run:
        assert run.verdict == "PARTIAL"


def test_a_child_that_outlives_a_killed_notebook_delays_nothing(tmp_path):
    child = "import os, time\nif (child := os.fork()) == 0:\n    os.close(1)\n    time.sleep(600)\n"
    lines = NOTEBOOK.splitlines()
    at = lines.index("    for i in range(100):")
    forks = [f"    {line}" for line in child.splitlines()]
    forks.append("    print(child, file=open(sys.argv[2], 'w'), flush=True)")
    (tmp_path / "out").mkdir()
    collector, run_dir = start(
        "\n".join(lines[:at] + forks + lines[at:]), tmp_path / "out", tmp_path / "child"
    )
    try:
        kill(collector)
        wait_for(lambda: not run_dir.exists(), 60, "the directory stays")
        assert [path.name for path in (tmp_path / "out").iterdir()] == [f"{run_dir.name}.h5"]
        wait_for(lambda: not running(run_dir.name), 30, "a program stays")
    finally:
        os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


def test_a_spool_with_a_long_name_is_delivered_too(tmp_path, monkeypatch):
    """A socket has no longer path than 107 bytes."""
    long, output = tmp_path / ("long" * 20), tmp_path / "out"
    long.mkdir()
    output.mkdir()
    monkeypatch.setenv("TMPDIR", str(long))
    collector, run_dir = start(NOTEBOOK, output)
    assert run_dir.is_relative_to(long)
    kill(collector)
    wait_for(lambda: not run_dir.exists(), 120, "the directory stays")
    (path,) = output.iterdir()
    with crema.open(path) as run:
        assert len(run["custom"]) == 100


def test_a_file_that_holds_more_stays(tmp_path):
    with crema.MetricsCollector(output=tmp_path, quiet=True) as mc:
        journals = mc._service.store.glob
        journal = wait_for(lambda: next(journals("*/*.journal"), None), what="a journal").parent
        early = shutil.copytree(journal, tmp_path / "early" / journal.name)
        for i in range(100):
            crema.record_metric("crumbs", i)
    whole = mc.path.read_bytes()
    _killed._rebuild(early, mc.path)
    assert mc.path.read_bytes() == whole
    less = tmp_path / "less.h5"
    _killed._rebuild(early, less)
    assert 0 <= _killed._records(less) < _killed._records(mc.path)
    assert "run_not_ended" in {reason["code"] for reason in crema.open(less).reasons}


def test_a_file_that_cannot_be_made_is_named(tmp_path):
    collector, run_dir = start(NOTEBOOK, tmp_path)
    blocker = tmp_path / f"{run_dir.name}.h5"
    blocker.mkdir()  # no file can take its name
    try:
        kill(collector)
        told = tmp_path / f"{run_dir.name}.left.txt"
        wait_for(told.exists, 120, "nothing is said")
        time.sleep(0.2)
        assert str(run_dir / "store") in told.read_text()
        assert list((run_dir / "store").glob("*/*.journal"))
        assert not (run_dir / "keys").exists()
    finally:
        shutil.rmtree(run_dir, ignore_errors=True)


def test_keys_go_though_the_journal_stays(tmp_path):
    service = LocalService(uuid.uuid4(), tmp_path)
    service.start()
    (service.store / "run").mkdir()
    (service.store / "run" / "000001.journal").touch()
    assert str(service.store) in service.close(sealed=False)
    assert not (service.run_dir / "keys").exists()
    shutil.rmtree(service.run_dir)


def layout(directory):
    """Which key each file holds, by the first file with the same public key; and whether it holds a secret."""
    names, found = {}, {}
    for path in sorted(directory.rglob("*.key*")):
        public, secret = zmq.auth.load_certificate(path)
        name = str(path.relative_to(directory))
        found[name] = names.setdefault(public, name), secret is not None
        assert (path.stat().st_mode & 0o077 == 0) or secret is None
    return found


def test_the_keys_of_a_run_lie_as_the_aggregator_would_lay_them(tmp_path):
    _keys.make_for_run(tmp_path / "own")
    made = [program("crema-aggregator"), "--make-keys", tmp_path / "made"]
    subprocess.run(made, check=True, capture_output=True)
    for others in (
        "agent",
        "monitor",
    ):  # a run's agents make their own, and nobody listens to its tap
        shutil.rmtree(tmp_path / "made" / others)
        (tmp_path / "made" / "server" / f"{others}.default.key").unlink()
    assert layout(tmp_path / "own") == layout(tmp_path / "made")


def test_an_aggregator_is_ready_to_open_a_run_at_once(tmp_path):
    """It asked the sink for its streams before it was connected, and again after half a second."""
    took = []
    for _ in range(12):
        run_id = uuid.uuid4()
        service = LocalService(run_id, tmp_path)
        service.start()
        began = time.monotonic()
        dialogue = Dialogue(run_id, service, print)
        try:
            dialogue.open({"run_id": run_id.bytes, "t_start_ns": time.time_ns()})
            took.append(time.monotonic() - began)
        finally:
            dialogue.close()
            service.close(sealed=True)
    assert max(took) < 0.9, took
