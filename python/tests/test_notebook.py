"""The notebook is run as it is, by a real kernel, on a real run file."""

from __future__ import annotations

import os
import pathlib
import shutil

import nbclient
import nbformat
import pytest

import crema

NOTEBOOKS = pathlib.Path(__file__).resolve().parents[1] / "notebooks"


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
    with pytest.raises(nbclient.exceptions.CellExecutionError, match=r"crema\.demo"):
        execute("first_look.ipynb", tmp_path)


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


def test_where_there_is_none_it_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"crema\.demo"):
        crema.newest(tmp_path)
    with pytest.raises(FileNotFoundError, match="no directory"):
        crema.newest(tmp_path / "nothing")
    (tmp_path / "x.live.h5").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match=r"x\.live\.h5 is a run that goes on"):
        crema.newest(tmp_path)
