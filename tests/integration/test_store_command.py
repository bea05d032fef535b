"""`crema-sink store`: what a store holds, beside the sink that serves it; and a copy of a run's journal."""

from __future__ import annotations

import json
import shutil
import uuid

import h5py
import pytest

import crema
from kept_records import wait_for
from service_kit import ANY, Service, run

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def serve(tmp_path, monkeypatch):
    """Starts a sink and an aggregator, which collectors then use; the same store each time."""
    (tmp_path / "out").mkdir()
    running = []

    def stop():
        while running:
            running.pop().stop()

    def start(*options):
        stop()
        paths = "--store", tmp_path / "store", "--output", tmp_path / "out"
        running.append(Service("crema-sink", "--bind", ANY, *paths, *options))
        endpoint = running[0].endpoint
        running.append(Service("crema-aggregator", "--bind", ANY, "--sink", endpoint))
        monkeypatch.setenv("CREMA_AGGREGATOR", running[1].endpoint)
        return stop

    yield start
    stop()


def told(*arguments, status=0):
    done = run("crema-sink", "store", *arguments, "--json")
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout)


def only(store, run_id):
    (found,) = [r for r in told(store) if r["run_id"] == str(run_id)]
    return found


def refused(*arguments, status=1):
    done = run("crema-sink", "store", *arguments)
    assert done.returncode == status
    assert done.stdout == ""
    assert done.stderr.startswith("crema-sink: ") and done.stderr.count("\n") == 1
    return done.stderr


def state_of(directory):
    """Everything that a look at a directory could have changed."""
    return {
        path: (info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino)
        for path in [directory, *sorted(directory.rglob("*"))]
        for info in [path.stat()]
    }


def record(output, **options):
    return crema.MetricsCollector(output=output, quiet=True, **options)


def test_runs_are_listed_beside_the_sink_in_each_phase(serve, tmp_path):
    store, out = tmp_path / "store", tmp_path / "out"
    stop = serve()
    assert told(store) == []
    assert run("crema-sink", "store", store).stdout == f"{store}: no run\n"
    with record(out, run_label="apple\ncrumble") as mc:
        crema.record_metric("crumbs", 1)
        wait_for(lambda: only(store, mc._run_id)["streams"] >= 2, what="streams in the journal")
        found = only(store, mc._run_id)
        assert found["phase"] == "open"
        assert (found["verdict"], found["path"], found["revision"]) == ("", "", 0)
        size = (store / str(mc._run_id) / "000001.journal").stat().st_size
        assert 0 < found["bytes"] <= size
    assert mc.verdict == "COMPLETE", mc.reasons
    wait_for(lambda: only(store, mc._run_id)["phase"] == "sealed", what="the SEALED frame")
    sealed = only(store, mc._run_id)
    with h5py.File(mc.path) as file:
        assert sealed["t_start_ns"] == file.attrs["t_run_start_ns"]
        assert (sealed["user"], sealed["label"]) == (file.attrs["user"], file.attrs["run_label"])
        assert sealed["revision"] == file.attrs["revision"]
        streams = len(file["summary/completeness"])
    assert (sealed["verdict"], sealed["path"]) == ("COMPLETE", str(mc.path))
    assert sealed["streams"] == streams
    line = run("crema-sink", "store", store).stdout.splitlines()[1].split()
    assert line[:2] == [str(mc._run_id), "sealed"] and line[7:] == ["COMPLETE", str(mc.path)]
    assert line[2:4] == [sealed["user"], r"apple\u000acrumble"]

    wait_for(lambda: not any(out.glob("*.live.h5")), what="the end of the live file")
    shutil.rmtree(out)  # a run that has ended cannot be sealed
    out.write_text("in the way")
    with record(tmp_path / "own", timeout=3) as late:
        crema.record_metric("crumbs", 1)
    wait_for(lambda: only(store, late._run_id)["phase"] == "ended", what="the end of the run")
    assert only(store, late._run_id)["path"] == ""
    stop()
    journals = sum(path.stat().st_size for path in store.glob("*/*.journal"))
    assert sum(found["bytes"] for found in told(store)) == journals


def test_a_freed_run_and_one_that_is_set_aside_are_named(serve, tmp_path):
    store = tmp_path / "store"
    stop = serve()
    with record(tmp_path / "out") as mc:
        crema.record_metric("crumbs", 1)
    stop()
    foreign = store / str(uuid.uuid4())
    shutil.copytree(store / str(mc._run_id), foreign)
    aside = only(store, foreign.name)
    assert aside["phase"] == "set aside"
    assert aside["why"] == f"{foreign} holds the journal of another store or run"
    shutil.rmtree(foreign)
    stop = serve("--retain", "1ms")
    wait_for(lambda: only(store, mc._run_id)["phase"] == "freed", 60, "freeing")
    freed = only(store, mc._run_id)
    assert (freed["bytes"], freed["streams"], freed["path"]) == (0, 0, "")


def test_a_look_changes_nothing_and_needs_no_lock(serve, tmp_path):
    store = tmp_path / "store"
    stop = serve()
    with record(tmp_path / "out"):
        crema.record_metric("crumbs", 1)
    stop()
    for name in ("lock", "generation"):  # not even these are made anew
        (store / name).unlink()
    (torn,) = store.glob("*/000001.journal")
    with torn.open("ab") as file:
        file.write(b"half a frame")  # of a sink that was killed: a start would cut it off
    before = state_of(tmp_path)
    (found,) = told(store)
    assert found["phase"] == "sealed"
    assert state_of(tmp_path) == before


def test_a_copy_of_a_journal_makes_the_same_file(serve, tmp_path):
    store, copy, again = tmp_path / "store", tmp_path / "copy", tmp_path / "again.h5"
    serve()
    with record(tmp_path / "out") as mc:
        crema.record_metric("crumbs", 1)
        wait_for(lambda: only(store, mc._run_id)["streams"] >= 2, what="streams in the journal")
        early, file = tmp_path / "early", tmp_path / "early.h5"
        shutil.copytree(store / str(mc._run_id), early)
        assert run("crema-sink", "rebuild", early, "--output", file).returncode == 0
        assert run("crema-sink", "check", file).returncode == 0
        with h5py.File(file) as opened:
            assert opened.attrs["run_id"] == str(mc._run_id)
            assert opened.attrs["verdict"] == "PARTIAL"  # nobody has judged it
    wait_for(lambda: only(store, mc._run_id)["phase"] == "sealed", what="the SEALED frame")

    def is_as_sealed() -> bool:
        shutil.rmtree(copy, ignore_errors=True)
        again.unlink(missing_ok=True)
        shutil.copytree(store / str(mc._run_id), copy)
        rebuilt = run("crema-sink", "rebuild", copy, "--output", again, "--json")
        with h5py.File(only(store, mc._run_id)["path"]) as file:
            return json.loads(rebuilt.stdout)["sha256"] == file.attrs["sha256_payload"]

    # Records that come after the verdict are in the journal first, and in the file from its next revision on.
    wait_for(is_as_sealed, 60, what="a file of all that is in the journal")


def test_commands_that_cannot_be_done_say_why(tmp_path):
    assert "is not there" in refused(tmp_path / "none")
    (tmp_path / "out").mkdir()
    assert 'has no file "store"; give the directory of its --store' in refused(tmp_path / "out")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "store").write_text("what is this")
    assert 'its file "store" holds something else' in refused(tmp_path / "odd")
    assert "store wants STORE" in refused(tmp_path / "odd", "export", uuid.uuid4(), status=2)
    assert "store wants STORE" in refused(status=2)
