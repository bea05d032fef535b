"""What `crema.open` and the tables on a terminal make of a run file, and of files that are none."""

from __future__ import annotations

import io
import subprocess
import sys
import time

import h5py
import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import crema
from coffea_runs import run_coffea
from crema.read.reader import RunFileError, silence
from crema.read.report import percent, print_report, quantity, seconds


@pytest.fixture
def run(measured):
    with crema.open(measured.path) as run:
        yield run


def test_a_run_file_tells_its_verdict(run, measured):
    assert (run.verdict, run.reasons, run.live) == ("COMPLETE", [], False)
    assert run.run_id == measured.collector.run_id
    metrics = measured.collector.get_metrics()  # has roastcoffea's as well
    assert run.summary() == pytest.approx({k: metrics[k] for k in run.summary()}, nan_ok=True)


def test_a_tilde_is_the_home_directory(measured, monkeypatch):
    monkeypatch.setenv("HOME", str(measured.path.parent))
    with crema.open(f"~/{measured.path.name}") as run:
        assert run.path == measured.path


def test_every_table_is_read(run):
    assert {"chunks", "dict/worker", "summary/waterfall", "schema/columns"} <= set(run)
    for name in run:
        frame = run[name]
        assert len(frame) == len(run.file[name])
        assert set(run.file[name].dtype.names) <= set(frame.columns)


def test_tables_equal_those_of_pandas(run, measured):
    plain = pd.read_hdf(measured.path, "chunks")
    ours = run.table("chunks", names=False)
    for column in plain.columns:
        if column != "status":
            np.testing.assert_array_equal(ours[column], plain[column])


def test_ids_are_explained_and_enums_have_labels(run, fileset):
    chunks = run["chunks"]
    assert set(chunks.dataset) == set(fileset)
    assert set(chunks.status) == {"ok"}
    assert set(chunks.task_prefix) == {"DijetProcessor"}
    files = {f for d in fileset.values() for f in d["files"]}
    assert set(chunks.file) == files
    assert "dataset" not in run.table("chunks", names=False)
    assert run.units("chunks")["wall_s"] == "s"


def test_rows_hold_what_the_tables_hold(run):
    for name in run:
        frame, rows = run.table(name, names=False), run.rows(name)
        assert len(rows) == len(frame)
        for column in frame.columns:
            ours = [getattr(row, column) for row in rows]
            assert pd.Series(ours, dtype=object).equals(
                pd.Series(list(frame[column]), dtype=object)
            )


def test_tables_on_a_terminal_need_no_pandas(measured):
    code = "import sys; sys.modules['pandas'] = None\nfrom crema.read.command import main; main()"
    shown = subprocess.run(
        [sys.executable, "-c", code, "show", "--all", str(measured.path)],
        capture_output=True,
        text=True,
    )
    assert shown.returncode == 0, shown.stderr
    assert "Thread-seconds of the run" in shown.stdout


def test_an_unknown_id_has_no_name(run):
    ids = np.array([0, 0xFFFFFFFF], dtype=np.uint32)
    known, unknown = run._explain("dataset", ids)
    assert known in set(run.names("dataset"))
    assert pd.isna(unknown)


def test_times_become_timestamps(run):
    frame = run.table("chunks", columns=["t_start_ns", "wall_s"], times=True)
    assert list(frame.columns) == ["t_start_ns", "wall_s"]
    age = pd.Timestamp.now(tz="UTC") - frame.t_start_ns.max()
    assert pd.Timedelta(0) < age < pd.Timedelta("1h")


def test_missing_tables_and_columns_are_named(run):
    with pytest.raises(KeyError, match="no table 'chunk'"):
        run["chunk"]
    with pytest.raises(KeyError, match="no column 'nope'"):
        run.table("chunks", columns=["nope"])


def test_labels_of_later_versions_are_read(measured, tmp_path):
    """A later 1.x may add a side: it has no colour here, and nothing fails."""
    later = tmp_path / "later.h5"
    later.write_bytes(measured.path.read_bytes())
    with h5py.File(later, "r+") as file:
        file.attrs["format_version"] = "1.99.0"
        rows, attributes = file["task_events"][:], dict(file["task_events"].attrs)
        labels = h5py.check_enum_dtype(rows.dtype["side"])
        new = h5py.enum_dtype({**labels, "new": max(labels.values()) + 1}, basetype="u1")
        types = [(name, new if name == "side" else rows.dtype[name]) for name in rows.dtype.names]
        rows["side"][:3] = max(labels.values()) + 1
        del file["task_events"]
        file.create_dataset("task_events", data=rows.astype(types))
        file["task_events"].attrs.update(attributes)
    with crema.open(later) as run:
        assert set(run["task_events"].side[:3]) == {"new"}
        assert run.plot.task_stream().collections
    checked = command("check", later)
    assert "task_events" not in checked.stdout and "sha256_payload" in checked.stdout


def test_files_that_are_no_run_files_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        crema.open(tmp_path / "nothing.h5")
    text = tmp_path / "text.h5"
    text.write_text("hello")
    with pytest.raises(RunFileError, match="not an HDF5 file"):
        crema.open(text)
    other = tmp_path / "other.h5"
    with h5py.File(other, "w") as f:
        f["x"] = 1
    with pytest.raises(RunFileError, match="not a run file"):
        crema.open(other)
    future = tmp_path / "future.h5"
    with h5py.File(future, "w") as f:
        f.attrs["format"] = "crema.run"
        f.attrs["format_version"] = "2.0.0"
    with pytest.raises(RunFileError, match=r"version 2\.0\.0"):
        crema.open(future)


def test_a_live_file_grows_while_it_is_open(fileset, tmp_path):
    from coffea import processor

    from workloads import DijetProcessor

    instance, executor = DijetProcessor(), processor.IterativeExecutor(status=False)
    with crema.MetricsCollector(
        processor_instance=instance, output=tmp_path, quiet=True, run_label="in progress"
    ) as mc:
        run_coffea(mc, executor, fileset, instance, chunksize=1000)
        path, deadline = tmp_path / f"{mc.run_id}.live.h5", time.monotonic() + 60
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        with crema.open(path) as run:
            assert (run.live, run.verdict, run.summary()) == (True, "OPEN", {})
            assert silence(path) == ""  # though nothing may have come for long
            first = wait_for_rows(run, 4)
            run_coffea(mc, executor, fileset, instance, chunksize=500)
            later = wait_for_rows(run, len(first) + 1)
            assert len(later) > len(first) >= 4
            assert later["dataset"].notna().all()
            out = io.StringIO()
            print_report(path, console=Console(file=out, width=100))
            assert "So far" in out.getvalue()
    assert not path.exists()


def wait_for_rows(run, n):
    deadline = time.monotonic() + 60
    while len(run["chunks"]) < n and time.monotonic() < deadline:
        time.sleep(0.1)
        run.refresh()
    return run["chunks"]


def test_a_truncated_file_is_refused(measured, tmp_path):
    cut = tmp_path / "cut.h5"
    cut.write_bytes(measured.path.read_bytes()[:5000])
    with pytest.raises(RunFileError):
        crema.open(cut)


def test_the_report_holds_every_table(measured):
    out = io.StringIO()
    print_report(measured.path, console=Console(file=out, width=150))
    text = out.getvalue()
    for title in (
        "COMPLETE",
        "Throughput",
        "Event processing",
        "Resources",
        "Timing",
        "Where the task seconds went",
        "Thread-seconds of the run",
        "Datasets",
    ):
        assert title in text
    assert f"{measured.report['entries']:,}" in text


def test_the_report_shows_what_each_cause_costs(measured):
    text = report_of(measured.path)
    assert "saves s" in text
    with crema.open(measured.path) as run:
        first = min(run.rows("summary/bottlenecks"), key=lambda row: row.rank)
        assert run.attributes["diagnosis_rules"].startswith("crema-diagnosis/")
    assert f"{first.saving_s:,.2f}" in text


def report_of(path):
    out = io.StringIO()
    print_report(path, console=Console(file=out, width=200))
    return out.getvalue()


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (float("nan"), "s", "–"),
        (-1, "B", "–"),
        (999, "B", "999 B"),
        (1_234_567, "B", "1.23 MB"),
        (27_509_520.0, "Hz", "27.5 MHz"),
        (4.04e-05, "Gbit/s", "40.4 kbit/s"),
        (2.5, "Gbit/s", "2.5 Gbit/s"),
        (4096, "count", "4,096"),
        (1.5, "count", "1.50"),
        (1464.08, "s", "1,464.1 s"),
        (0.706, "1", "0.706"),
        (3.25e18, "B", "3.25e+03 PB"),
        (999.96e3, "B", "1 MB"),
    ],
)
def test_quantities_are_readable(value, unit, text):
    assert quantity(value, unit) == text


def test_percent():
    assert percent(0.7063) == "70.6 %"
    assert (percent(-1e-9), seconds(-1e-9)) == ("0.0 %", "0.00")  # a residual may be below zero
    assert percent(float("nan")) == "–"


# -------------------------------------------------------------- the command


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-c", "from crema.read.command import main; main()", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_crema_show(measured, tmp_path):
    shown = command("show", measured.path)
    assert shown.returncode == 0
    assert "COMPLETE" in shown.stdout
    refused = command("show", tmp_path / "nothing.h5")
    assert refused.returncode == 1
    assert "there is no file" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_crema_check(measured, tmp_path):
    assert command("check", measured.path).returncode == 0
    text = tmp_path / "text.h5"
    text.write_text("hello")
    assert command("check", text).returncode == 1


def test_crema_keys(tmp_path):
    assert command("keys", tmp_path / "keys").returncode == 0
    names = {p.name for p in (tmp_path / "keys").iterdir()}
    assert names == {"aggregator", "agent", "client", "monitor", "server"}
    secrets = list((tmp_path / "keys").rglob("*_secret"))
    assert len(secrets) == len(names)
    assert all(secret.stat().st_mode & 0o077 == 0 for secret in secrets)
    for word in ("add", "add"):
        added = command("keys", word, "alice", tmp_path / "keys")
    assert added.returncode == 1
    assert "has a key of that name" in added.stderr
    admitted = tmp_path / "keys/server/client.alice.key"
    assert admitted.read_text() == (tmp_path / "keys/client-alice/client.key").read_text()
    assert command("keys", "revoke", "alice", tmp_path / "keys").returncode == 0
    assert not admitted.exists()
    assert command("keys", "add", "../x", tmp_path / "keys").returncode == 2


def test_crema_version():
    assert command("--version").stdout == f"crema, version {crema.__version__}\n"
