"""The notebook is run as it is, by a real kernel, on a real run file."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import time

import h5py
import nbclient
import nbformat
import pytest
from coffea import processor
from distributed import Client

import crema
from clusters import LocalCluster
from coffea_runs import run_coffea
from paths import ROOT

NOTEBOOKS = ROOT / "python" / "notebooks"


def execute(name: str, runs: pathlib.Path):
    notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
    environment = os.environ | {"CREMA_RUNS": str(runs)}
    client = nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3")
    return client.execute(env=environment)


def outputs_of(notebook) -> list:
    return [output for cell in notebook.cells for output in cell.get("outputs", ())]


def test_first_look_shows_the_newest_run(measured, tmp_path):
    shutil.copy(measured.path, tmp_path)
    outputs = outputs_of(execute("first_look.ipynb", tmp_path))
    text = "".join(output.get("data", {}).get("text/plain", "") for output in outputs)
    assert "COMPLETE" in text
    assert measured.collector.run_id in text
    assert f"{int(measured.collector.get_metrics()['total_events']):,}" in text
    pictures = [output for output in outputs if "image/png" in output.get("data", {})]
    assert len(pictures) == 3
    assert not [output for output in outputs if output.output_type in ("stream", "error")]


def test_first_look_without_a_run_file_says_what_to_do(tmp_path):
    with pytest.raises(nbclient.exceptions.CellExecutionError, match="crema demo"):
        execute("first_look.ipynb", tmp_path)


def text_of(outputs) -> str:
    """What the cells print, and their results as text."""
    return "".join(
        output.get("text", "") + output.get("data", {}).get("text/plain", "") for output in outputs
    )


@pytest.mark.slow
def test_a_scaling_study_compares_runs_of_the_same_work(measured, fileset, tmp_path):
    from workloads import DijetProcessor

    shutil.copy(measured.path, tmp_path)  # on two workers
    instance = DijetProcessor()
    for n_workers in (1, 3):
        with (
            LocalCluster(
                n_workers=n_workers, threads_per_worker=1, dashboard_address=None
            ) as cluster,
            Client(cluster) as client,
            crema.MetricsCollector(
                client,
                processor_instance=instance,
                output=tmp_path,
                quiet=True,
                attributes={"chunksize": 500},
            ) as mc,
        ):
            executor = processor.DaskExecutor(client=client, status=False)
            _, report = run_coffea(mc, executor, fileset, instance)
            mc.set_coffea_report(report)
    text = text_of(outputs_of(execute("scaling_study.ipynb", tmp_path)))
    assert "a strong series of 3 runs" in text
    assert "serial fraction" in text
    assert "refused: the universal scalability law needs runs on at least 4" in text
    assert "as it was:" in text
    assert "models of the parts need at least 5 numbers of threads" in text


SLOW_S = 5  # more than the first chunk, which imports, may take on busy cores


class SlowAtOne(processor.ProcessorABC):
    """Waits at one chunk of one file, as where a disk hangs."""

    def __init__(self, entry_start: int, file_part: str):
        self.entry_start, self.file_part = entry_start, file_part

    def process(self, events):
        meta = events.metadata
        time.sleep(0.02)
        if meta["entrystart"] == self.entry_start and self.file_part in meta["filename"]:
            time.sleep(SLOW_S)
        return {"events": len(events)}

    def postprocess(self, accumulator):
        return accumulator


def test_a_straggler_is_found(fileset, tmp_path):
    instance = SlowAtOne(500, "resonance-0")
    executor = processor.IterativeExecutor(status=False)
    with crema.MetricsCollector(processor_instance=instance, output=tmp_path, quiet=True) as mc:
        run_coffea(mc, executor, fileset, instance, chunksize=100)
    notebook = execute("finding_a_straggler.ipynb", tmp_path)
    table = text_of(outputs_of(notebook)[1:2])
    assert "resonance-0" in table
    assert " 500 " in table
    text = text_of(outputs_of(notebook))
    found = dict(
        line.split(": ") for line in text.splitlines() if line[:1].islower() and "_s: " in line
    )
    (waited, others), (cpu, cpu_others) = (
        [float(word) for word in re.findall(r"[0-9.]+", found[name])]
        for name in ("wall_s", "process_cpu_s")
    )
    assert SLOW_S < waited < 10
    assert cpu < waited and cpu_others < others, "that of opening is not in it"
    assert "without a tail" in text


def test_a_run_without_a_straggler_says_so(measured, tmp_path, monkeypatch, capsys):
    path = shutil.copy(measured.path, tmp_path)
    with h5py.File(path, "a") as f:
        none, attributes = f["summary/stragglers"][:0], dict(f["summary/stragglers"].attrs)
        del f["summary/stragglers"]
        f.create_dataset("summary/stragglers", data=none).attrs.update(attributes)
    monkeypatch.setenv("CREMA_RUNS", str(tmp_path))
    notebook, names = nbformat.read(NOTEBOOKS / "finding_a_straggler.ipynb", as_version=4), {}
    for cell in [cell for cell in notebook.cells if cell.cell_type == "code"][:2]:
        exec(cell.source, names)
    assert "no chunk is slower" in capsys.readouterr().out


def test_users_of_roastcoffea_find_their_metrics(measured, tmp_path):
    shutil.copy(measured.path, tmp_path)
    notebook = execute("coming_from_roastcoffea.ipynb", tmp_path)
    text = text_of(outputs_of(notebook))
    assert text.startswith("COMPLETE")
    for name in ("event_rate_wall_clock", "core_occupancy", "avg_memory_per_worker_raw"):
        assert name in text
    assert not [o for o in outputs_of(notebook) if o.output_type == "error"]


# ---------------------------------------------------------------- the newest file


def test_the_newest_sealed_file_is_found(measured, tmp_path, monkeypatch):
    for i, name in enumerate(["b.h5", "a.h5", "c.live.h5", "other.h5"]):
        shutil.copy(measured.path, tmp_path / name)
        os.utime(tmp_path / name, (1000 + i, 1000 + i))
    (tmp_path / "other.h5").write_bytes(b"no HDF5 at all")
    assert crema.newest(tmp_path) == tmp_path / "a.h5"
    monkeypatch.setenv("CREMA_RUNS", str(tmp_path))
    assert crema.newest() == tmp_path / "a.h5"
    monkeypatch.delenv("CREMA_RUNS")
    monkeypatch.chdir(tmp_path)
    assert crema.newest() == tmp_path / "a.h5"


def test_newest_says_what_is_there_instead_of_a_run(tmp_path):
    with pytest.raises(FileNotFoundError, match="crema demo"):
        crema.newest(tmp_path)
    with pytest.raises(FileNotFoundError, match="no directory"):
        crema.newest(tmp_path / "nothing")
    (tmp_path / "x.live.h5").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match=r"x\.live\.h5 is of a run in progress"):
        crema.newest(tmp_path)
    os.utime(tmp_path / "x.live.h5", (0, 0))
    with pytest.raises(
        FileNotFoundError, match=r"no sink has written .*crema-sink rebuild STORE/x"
    ):
        crema.newest(tmp_path)
