"""Watching runs that go on: from their live files, on a terminal and in a notebook whose kernel is busy."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import subprocess
import sys
import time

import nbclient
import nbformat
import pytest
from click.testing import CliRunner

import crema
from children import Child
from coffea_runs import run_coffea
from crema.read.command import main
from crema.read.live import Watch, newest_live
from paths import ROOT


def look_until(watch, done, patience_s=90.0):
    """Looks, a second apart, until one is as wanted; all of them."""
    looks, deadline = [], time.monotonic() + patience_s
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):  # not there yet, or just being written anew
            looks.append(watch.look())
        if looks and done(looks[-1]):
            return looks
        time.sleep(0.2)
    raise AssertionError(looks[-1] if looks else "no look at all")


def test_a_run_is_watched_while_it_goes_on(fileset, tmp_path):
    from coffea import processor

    from crema._demo_processor import DijetProcessor

    instance, executor = DijetProcessor(), processor.IterativeExecutor(status=False)
    with crema.MetricsCollector(processor_instance=instance, output=tmp_path, quiet=True) as mc:
        out, _ = run_coffea(mc, executor, fileset, instance, chunksize=1000)
        watch = Watch(tmp_path / f"{mc.run_id}.live.h5", n_events=2 * out["events"])
        look = look_until(watch, lambda look: look.n_events >= out["events"])[-1]
        assert (look.run_id, look.n_events, look.n_failed) == (mc.run_id, out["events"], 0)
        assert (look.n_gaps, look.n_lost, look.n_agents) == (0, 0, 1)
        assert look.left_s > 0
        assert len(look.slowest) == min(5, look.n_chunks)
        assert look.slowest[0][0] >= look.slowest[-1][0] > 0
        assert look.slowest[0][2] in {name for d in fileset.values() for name in d["files"]}

        assert newest_live(tmp_path) == watch.path
        seen = CliRunner(env={"COLUMNS": "120"}).invoke(main, ["top", str(tmp_path), "--once"])
        assert seen.exit_code == 0, seen.stderr
        assert f"{out['events']:,} events in {look.n_chunks:,} chunks" in seen.stdout
        assert "on the way" not in seen.stdout  # no writer knows how many records are
        seen = CliRunner().invoke(main, ["top", str(watch.path), "--once", "--json"])
        assert json.loads(seen.stdout)["n_events"] == out["events"]

        run_coffea(mc, executor, fileset, instance, chunksize=500)
        later = look_until(watch, lambda look: look.n_events >= 2 * out["events"])[-1]
        assert later.n_chunks > look.n_chunks
        assert later.left_s == 0
        a_second_watch = Watch(watch.path)  # comes later, sees all of it
        assert look_until(a_second_watch, lambda look: True)[-1].n_events == later.n_events
    assert mc.verdict == "COMPLETE"
    for each in (watch, a_second_watch):
        with pytest.raises(FileNotFoundError):
            each.look()


def test_threads_and_split_come_from_the_workers_of_a_cluster(client, fileset, tmp_path):
    from coffea import processor

    from crema._demo_processor import DijetProcessor

    instance, executor = DijetProcessor(), processor.DaskExecutor(client=client, status=False)
    with crema.MetricsCollector(
        client, processor_instance=instance, output=tmp_path, quiet=True, sample_interval=0.2
    ) as mc:
        run_coffea(mc, executor, fileset, instance, chunksize=1000)
        watch = Watch(tmp_path / f"{mc.run_id}.live.h5")
        look = look_until(watch, lambda look: look.split_s.get("processor", 0) > 0)[-1]
        assert look.threads == 2
        assert 0 <= look.busy <= 2
        assert look.n_workers == 2
    assert mc.verdict == "COMPLETE"


def test_in_a_pipe_the_run_is_shown_when_there_is_something_new(tmp_path):
    """A copy of a live file does not change: it is shown once."""
    with crema.MetricsCollector(output=tmp_path, quiet=True) as mc:
        watch = Watch(tmp_path / f"{mc.run_id}.live.h5")
        look_until(watch, lambda look: look.n_agents == 1)
        shutil.copy(watch.path, tmp_path / "copy.live.h5")
        code = (
            "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
            "from crema.read.command import main; main(sys.argv[1:])"
        )  # which it lacks below a shell's background job
        shown = Child(
            [sys.executable, "-c", code, "top", tmp_path / "copy.live.h5"],
            stdout=subprocess.PIPE,
            text=True,
        )
        with shown:
            first = shown.stdout.readline()
            time.sleep(2.5)  # two more looks
            shown.send_signal(signal.SIGINT)
            rest = shown.stdout.read()
    assert mc.run_id in first
    assert mc.run_id not in rest


def test_where_nothing_goes_on_it_is_said(tmp_path):
    seen = CliRunner().invoke(main, ["top", str(tmp_path)])
    assert seen.exit_code == 1
    assert "no run is in progress" in seen.stderr
    assert "Traceback" not in seen.stderr


def test_what_cannot_be_watched_is_said_and_raises_only_where_that_is_wanted(
    tmp_path, monkeypatch, capsys
):
    with pytest.raises(crema.CremaError, match="inside the with block"):
        crema.MetricsCollector(output=tmp_path, quiet=True, on_error="raise").live()

    early = crema.MetricsCollector(output=tmp_path, quiet=True).live()
    assert (
        "shows nothing: a run can only be watched inside the with block" in capsys.readouterr().err
    )
    early.stop()
    assert early.n_looks == 0

    taken = tmp_path / "taken"
    taken.write_text("not a directory")
    with crema.MetricsCollector(output=taken, quiet=True) as mc:
        mc.live().stop()
    told = capsys.readouterr().err
    assert "the analysis runs unrecorded" in told
    assert "shows nothing: the run is not recorded" in told

    monkeypatch.setitem(sys.modules, "IPython.display", None)
    with crema.MetricsCollector(output=tmp_path, quiet=True) as mc:
        mc.live().stop()
    assert "mc.live() is for notebooks" in capsys.readouterr().err
    assert mc.verdict == "COMPLETE"


def test_a_notebook_shows_the_run_while_its_kernel_is_busy(fileset, tmp_path):
    cell = f"""
import sys, time
sys.path.insert(0, {str(ROOT / "tests" / "lib")!r})
import crema
from coffea_runs import run_coffea
from coffea import processor
from crema._demo_processor import DijetProcessor

instance = DijetProcessor()
with crema.MetricsCollector(processor_instance=instance, output={str(tmp_path)!r}, quiet=True) as mc:
    shown = mc.live()
    run_coffea(mc, processor.IterativeExecutor(status=False), {fileset!r}, instance, chunksize=1000)
    deadline = time.monotonic() + 150
    while shown.n_looks < 3 and time.monotonic() < deadline:
        sum(range(100_000))  # the kernel does nothing else
print(shown.n_looks >= 3, mc.verdict)
"""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    outputs = notebook.cells[0].outputs
    assert "True COMPLETE" in "".join(o.get("text", "") for o in outputs)
    shown = [o["data"] for o in outputs if o.output_type == "display_data"]
    assert "events/s" in shown[0]["text/plain"]
    assert "text/html" in shown[0]
