"""Watching runs that go on: from their live files, on a terminal and in a notebook whose kernel is busy."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import signal
import subprocess
import sys
import threading
import time

import h5py
import nbclient
import nbformat
import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

import crema
from children import Child
from coffea_runs import run_coffea
from crema.read._named import newest_live
from crema.read.command import main
from crema.read.live import Display, Watch
from paths import ROOT
from synthetic_runs import make_run


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

    from workloads import DijetProcessor

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

    from workloads import DijetProcessor

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


def test_a_run_is_shown_in_a_pipe_when_there_is_something_new(tmp_path):
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


def test_a_directory_where_nothing_goes_on_is_said(tmp_path):
    seen = CliRunner().invoke(main, ["top", str(tmp_path)])
    assert seen.exit_code == 1
    assert "no run is in progress" in seen.stderr
    assert "Traceback" not in seen.stderr


def test_a_run_that_cannot_be_watched_is_said_and_raises_only_where_that_is_wanted(
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
from workloads import DijetProcessor

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


class Shown:
    """What a notebook's display handle is given."""

    def __init__(self):
        self.frames = []

    def update(self, what):
        self.frames.append(what)

    def text(self):
        console = Console(width=140, file=io.StringIO())
        console.print(self.frames[-1])
        return console.file.getvalue()


def as_live(sealed, path):
    """A copy of a sealed file that says that its run goes on."""
    shutil.copy(sealed, path)
    with h5py.File(path, "r+") as file:
        file.attrs["state"] = np.bytes_("live")
    return path


def damaged(path):
    """A live file in which a column is not what it should be."""
    with h5py.File(path, "r+") as file:
        del file["membership"]
        file["membership"] = np.arange(3)


@pytest.mark.parametrize("how", ["empty", "early", "damaged"])
def test_a_display_outlives_a_file_that_cannot_be_read_yet(tmp_path, monkeypatch, how):
    shown = Shown()
    monkeypatch.setattr("IPython.display.display", lambda *_, **__: shown)
    died = []
    monkeypatch.setattr(threading, "excepthook", died.append)
    sealed = make_run(tmp_path, "toy")
    path = tmp_path / "a.live.h5"
    if how == "empty":
        path.touch()
    elif how == "early":
        path.write_bytes(sealed.read_bytes()[:600])
    else:
        damaged(as_live(sealed, path))
    display = Display(Watch(path), period_s=0.05)
    time.sleep(0.4 if how == "damaged" else 1.5)  # a new file is waited for, for a second
    assert not died and display.n_looks == 0
    as_live(sealed, tmp_path / "whole")
    (tmp_path / "whole").rename(path)
    deadline = time.monotonic() + 20
    while not display.n_looks and time.monotonic() < deadline:
        time.sleep(0.05)
    display.stop()
    assert not died and display.n_looks > 0


def test_the_last_frame_is_the_sealed_run(tmp_path, monkeypatch):
    """The live file lacks the records of the last second; what stays in the cell and on the terminal has them."""
    shown = Shown()
    monkeypatch.setattr("IPython.display.display", lambda *_, **__: shown)
    sealed = make_run(tmp_path, "toy")
    with crema.open(sealed) as run:
        n_chunks, took_s = len(run.chunks), run.summary()["wall_time"]
        n_done = int(run.chunks.status.isin(["ok", "partial"]).sum())
    path = as_live(sealed, tmp_path / "a.live.h5")
    with h5py.File(path, "r+") as file:
        rows = file["chunks"][: n_chunks // 2]
        attributes = dict(file["chunks"].attrs)
        del file["chunks"]
        file.create_dataset("chunks", data=rows, maxshape=(None,), chunks=True)
        file["chunks"].attrs.update(attributes)
    display = Display(Watch(path), period_s=0.05)
    time.sleep(0.3)
    monkeypatch.setenv("COLUMNS", "140")
    ended = Child([sys.executable, "-m", "crema", "top", path], stdout=subprocess.PIPE, text=True)
    with ended:
        first = "".join(iter(ended.stdout.readline, "╰" + 138 * "─" + "╯\n"))
        (tmp_path / "a.h5").write_bytes(sealed.read_bytes())
        path.unlink()
        rest = ended.stdout.read()
    display.finish()
    last = f"in {n_done:,} chunks"
    assert f"in {n_chunks // 2:,} chunks" in first
    assert last in rest
    assert last in shown.text()
    assert Watch(path).last().elapsed_s == pytest.approx(took_s, rel=1e-6)


@pytest.mark.parametrize("content", [b"", b"no HDF5 at all"])
def test_top_looks_again_and_then_says_what_it_cannot_read(tmp_path, monkeypatch, content):
    monkeypatch.setattr("crema.read.top_command._START_S", 0.5)
    path = tmp_path / "a.live.h5"
    path.write_bytes(content)
    seen = CliRunner().invoke(main, ["top", str(path)])
    assert seen.exit_code == 1
    assert str(path) in seen.stderr
    assert "Traceback" not in seen.stderr and isinstance(seen.exception, SystemExit)
