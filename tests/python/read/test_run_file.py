"""Run files as their readers see them: pandas, h5py, PyTables, xarray, h5dump; and a live file while it is written."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess

import h5py
import numpy as np
import pandas as pd
import pytest
import tables
import xarray as xr

from children import Child
from paths import ROOT, program
from synthetic_runs import make_run

CHUNKS = 3000


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("toy"), "toy")


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("busy"), "busy", CHUNKS)


def declared_columns() -> dict[str, dict[str, str]]:
    """What a sealed file is to have: table -> column -> unit."""
    told = subprocess.run(
        [program("crema-sink"), "columns"], check=True, capture_output=True, text=True
    )
    columns: dict[str, dict[str, str]] = {}
    for line in told.stdout.splitlines():
        table, column, _, unit, meaning = line.split("\t")
        assert meaning, f"{column} has no meaning"
        columns.setdefault(table.removeprefix("/"), {})[column] = unit
    return columns


def all_tables(path) -> list[str]:
    found = []
    with h5py.File(path) as f:
        f.visititems(
            lambda name, o: (
                found.append(name) if getattr(o, "dtype", None) and o.dtype.names else None
            )
        )
    return found


# ---------------------------------------------------------------- pandas


def test_chunks_load_with_pandas(busy):
    chunks = pd.read_hdf(busy, "chunks")
    assert len(chunks) == CHUNKS
    assert chunks.t_start_ns.is_monotonic_increasing
    last = pd.read_hdf(busy, "chunks", start=-10)
    pd.testing.assert_frame_equal(
        last.reset_index(drop=True), chunks.tail(10).reset_index(drop=True)
    )


def test_every_table_loads_with_pandas(busy, toy):
    for path in (busy, toy):
        names = all_tables(path)
        assert sorted(names) == sorted(declared_columns())
        for name in names:
            frame = pd.read_hdf(path, name)
            with h5py.File(path) as f:
                assert len(frame) == len(f[name])
                assert list(frame.columns) == list(f[name].attrs["column_names"])


def test_metadata_of_runs_is_a_table(busy, toy):
    frame = pd.DataFrame([dict(h5py.File(p).attrs) for p in (busy, toy)])
    assert list(frame.run_label) == ["busy ü", "toy"]
    assert frame.chunksize.tolist() == [100000, 450]
    assert frame.chunksize.dtype == np.int64
    assert frame.complete.tolist() == [0, 0]
    assert frame.cores_per_worker[0] == 2.0
    assert json.loads(frame.verdict_reasons[0])[0]["code"] == "writer_killed"
    assert json.loads(frame.processor_prefixes[0]) == ["Dijets"]


def test_runs_compare_by_metric(busy, toy):
    runs = [busy, toy]
    wide = pd.concat(
        {p: pd.read_hdf(p, "summary/workflow").set_index("name").value for p in runs}, axis=1
    ).T
    assert wide.loc[toy, "total_events"] == 1100
    assert wide.loc[busy, "num_attempts"] == CHUNKS


def test_activities_merge_with_their_names(busy):
    merged = pd.read_hdf(busy, "activities").merge(
        pd.read_hdf(busy, "dict/activity"), left_on="activity_id", right_on="id"
    )
    sums = merged.groupby(["name", "unit_id"]).value.sum()
    totals = pd.read_hdf(busy, "activities").groupby(["stream_id", "activity_id"]).total.max()
    assert sums["thread-cpu", 0] == pytest.approx(totals.xs(0, level=1).sum() - 4 * 5)  # baselines


def test_chunks_resample_over_time(busy):
    events = (
        pd.read_hdf(busy, "chunks")
        .assign(t=lambda d: pd.to_datetime(d.t_start_ns, utc=True))
        .set_index("t")
        .n_events.resample("60s")
        .sum()
    )
    assert events.index[0] == pd.Timestamp("2026-01-01", tz="UTC")
    assert events.sum() == pd.read_hdf(busy, "chunks").n_events.sum()


# ---------------------------------------------------------------- h5py, PyTables, h5dump


def test_columns_load_with_h5py(busy):
    with h5py.File(busy) as f:
        frame = pd.DataFrame(f["chunks"].fields(["wall_s", "n_events"])[:])
        assert list(frame) == ["wall_s", "n_events"]
        labels = h5py.check_enum_dtype(f["chunks"].dtype["status"])
        assert labels == {"ok": 0, "error": 1, "cancelled": 2, "lost": 3, "partial": 4}
        assert f["chunks"].compression == "gzip"
        assert f["chunks"].shuffle
        assert f["summary/workflow"].chunks is None


def test_rows_are_asked_for_with_pytables(busy):
    with tables.open_file(str(busy)) as f:
        some = pd.DataFrame(f.root.chunks.read_where("(status==0)&(n_events>2000)"))
    chunks = pd.read_hdf(busy, "chunks")
    assert len(some) == ((chunks.status == 0) & (chunks.n_events > 2000)).sum() > 0


def test_h5dump_reads_every_byte(toy):
    dump = subprocess.run(["h5dump", toy], capture_output=True, text=True, check=True).stdout
    assert "tcp://A" in dump
    assert "STRPAD H5T_STR_NULLPAD" in dump


def test_the_file_describes_its_columns(busy):
    schema = pd.read_hdf(busy, "schema/columns")
    for name in all_tables(busy):
        mine = schema[schema.table == name]
        with h5py.File(busy) as f:
            dataset = f[name]
            assert list(mine.column) == list(dataset.dtype.names)
            assert list(mine.units) == list(dataset.attrs["column_units"])
            for column, dtype, labels in zip(mine.column, mine.dtype, mine.enum, strict=True):
                enum = h5py.check_enum_dtype(dataset.dtype[column])
                if dtype == "enum":
                    assert labels.split(",") == sorted(enum, key=enum.get)
                elif dtype.startswith("S"):
                    assert dataset.dtype[column].itemsize == int(dtype[1:])
                else:  # i64: a letter and bits
                    assert dataset.dtype[column] == np.dtype(f"{dtype[0]}{int(dtype[1:]) // 8}")


def documented_rows(title: str) -> dict[str, list[str]]:
    """docs/metrics.md: the first column of a section's tables -> its other cells."""
    page = (ROOT / "docs" / "metrics.md").read_text()
    section = page[page.index(f"\n## {title}\n") + 1 :].split("\n## ", 1)[0]
    rows = (line.split(" | ") for line in section.splitlines() if line.startswith("`"))
    return {cells[0].strip("`"): cells[1:] for cells in rows}


def test_every_dataset_and_column_is_declared(busy):
    """Of the file as it is, whoever wrote it. test_crema_metrics compares what is declared with docs/metrics.md."""
    found, grid = {}, {}

    def see(path, dataset):
        if not isinstance(dataset, h5py.Dataset):
            return
        if dataset.dtype.names:
            units = [str(unit) for unit in dataset.attrs["column_units"]]
            found[path] = dict(zip(dataset.dtype.names, units, strict=True))
        else:
            group, name = path.split("/")
            assert group == "grid", f"/{path} is neither a table nor of the grid"
            grid[name] = dataset.attrs.get("units")

    with h5py.File(busy) as f:
        f.visititems(see)
    assert found == declared_columns()
    documented = {name: cells[1] for name, cells in documented_rows("`/grid`").items()}
    assert set(grid) - {"time", "worker"} == set(documented)
    assert all(grid[name] == unit for name, unit in documented.items())


@pytest.mark.parametrize(
    ("table", "column"), [("workflow", "name"), ("waterfall", "category"), ("bottlenecks", "name")]
)
def test_every_name_of_a_summary_is_documented(busy, table, column):
    names = set(pd.read_hdf(busy, f"summary/{table}")[column])
    assert names == set(documented_rows(f"`/summary/{table}`"))


def test_anyone_can_compute_the_checksum(busy):
    digest = hashlib.sha256()
    with h5py.File(busy) as f:
        for name in sorted(all_tables(busy)):
            raw = np.empty(f[name].shape, f[name].dtype)
            f[name].id.read(h5py.h5s.ALL, h5py.h5s.ALL, raw, f[name].id.get_type())
            digest.update(raw.tobytes())
        assert digest.hexdigest() == f.attrs["sha256_payload"]


def test_anyone_can_compute_the_checksum_of_the_grid(busy):
    digest = hashlib.sha256()
    with h5py.File(busy) as f:
        for name in sorted(f["grid"]):
            values = f["grid"][name][()]
            if name == "worker":
                digest.update(b"".join(text + b"\0" for text in values))
            else:
                digest.update(values.tobytes())
        assert digest.hexdigest() == f.attrs["sha256_grid"]


def value_of(attribute: h5py.h5a.AttrID, texts) -> bytes:
    kind = attribute.get_type().get_class()
    if kind == h5py.h5t.STRING and attribute.get_type().is_variable_str():
        return b"".join(text.encode() + b"\0" for text in np.ravel(texts))
    if kind not in (h5py.h5t.STRING, h5py.h5t.INTEGER, h5py.h5t.FLOAT):
        return b""  # references between datasets
    raw = np.empty(attribute.shape, attribute.dtype)
    attribute.read(raw)
    return raw.tobytes()


def test_anyone_can_compute_the_checksum_of_the_attributes(busy):
    digest = hashlib.sha256()
    with h5py.File(busy) as f:
        paths = ["."]
        f.visit(paths.append)
        for path in sorted(paths):
            digest.update(path.encode() + b"\0")
            attributes = f[path].attrs
            for name in sorted(set(attributes) - {"sha256_attributes", "created_utc"}):
                digest.update(name.encode() + b"\0")
                digest.update(value_of(attributes.get_id(name), attributes[name]))
        assert digest.hexdigest() == f.attrs["sha256_attributes"]


# ---------------------------------------------------------------- xarray


@pytest.mark.parametrize("engine", ["h5netcdf", "netcdf4"])
@pytest.mark.filterwarnings("ignore:The 'phony_dims'")
def test_the_grid_loads_with_xarray(busy, engine):
    workers = pd.read_hdf(busy, "dict/worker").name
    with xr.open_dataset(busy, group="grid", engine=engine) as grid:
        assert list(grid.worker.values) == list(workers)
        assert grid.time.dtype.kind == "M"
        assert grid.time.values[0] == np.datetime64("2026-01-01")
        assert grid.cpu_pct.dims == ("worker", "time")
        assert grid.event_rate.attrs["units"] == "1/s"
        step_s = float((grid.time[1] - grid.time[0]).values.astype("int64")) * 1e-9
        ok = pd.read_hdf(busy, "chunks").query("status == 0")
        assert float(grid.event_rate_total.sum()) * step_s == pytest.approx(ok.n_events.sum())
        assert np.allclose(grid.event_rate.sum("worker"), grid.event_rate_total)
        assert float(grid.n_threads.max()) == 8


# ---------------------------------------------------------------- sound, small, the same again


def test_files_are_sound(busy, toy):
    checked = subprocess.run(
        [program("crema-sink"), "check", busy, toy], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout


def test_a_row_of_24_bytes_takes_at_most_12(tmp_path):
    file = make_run(tmp_path, "plain", 200_000)
    with h5py.File(file) as f:
        assert len(f["custom"]) == 200_000
        assert f["custom"].id.get_storage_size() / 200_000 <= 12


def test_rebuilding_gives_the_same_content(tmp_path, busy):
    again = make_run(tmp_path, "busy", CHUNKS)
    with h5py.File(busy) as one, h5py.File(again) as other:
        differ = {k for k in one.attrs if str(one.attrs[k]) != str(other.attrs[k])}
        assert differ <= {"created_utc"}
        for name in all_tables(busy):
            assert one[name][:].tobytes() == other[name][:].tobytes()


def test_rebuilding_fails_with_a_reason_where_files_may_not_grow(tmp_path):
    """`ulimit -f` as a shell sets it, at its default action, which is to kill."""
    journal, file = tmp_path / "journal", tmp_path / "limited.h5"
    subprocess.run([program("make_journal_main"), "busy", journal, "400"], check=True)
    limited = "bash", "-c", 'ulimit -f 4; exec "$@"', "bash"
    done = subprocess.run(
        [*limited, program("crema-sink"), "rebuild", journal, "--output", file],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1, done
    assert "File too large" in done.stderr and str(journal) in done.stderr
    assert not list(tmp_path.glob("*.h5*"))


# ---------------------------------------------------------------- live


class Writer:
    """A process that writes a live file, some PUTs further for each step."""

    def __init__(self, journal, file, step: int) -> None:
        self.process = Child(
            [program("make_journal_main"), "live", journal, file, str(step)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def step(self) -> str:
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.process.stdin.close()
        self.process.wait(timeout=30)
        self.process.stdout.close()


@pytest.fixture
def journal(tmp_path):
    directory = tmp_path / "journal"
    subprocess.run([program("make_journal_main"), "busy", directory, "400"], check=True)
    return directory


def test_a_live_file_is_read_while_it_grows(tmp_path, journal):
    path, seen = tmp_path / "run.live.h5", []
    with Writer(journal, path, 200) as writer:
        assert writer.step()
        with pytest.raises(OSError, match="already open for write"):
            h5py.File(path)
        with h5py.File(path, "r", swmr=True) as f:
            assert f.attrs["state"] == "live"
            assert f.attrs["verdict"] == "OPEN"
            while True:
                f["chunks"].refresh()
                f["dict/worker"].refresh()
                chunks = pd.DataFrame(f["chunks"][:])
                seen.append(len(chunks))
                assert set(chunks.worker_id) <= set(range(len(f["dict/worker"])))
                assert (chunks.t_end_ns >= chunks.t_start_ns).all()
                if writer.step() == "done\n":
                    break
    assert seen == sorted(seen)
    assert len(set(seen)) > 5
    assert seen[-1] == 400


def test_a_live_file_of_a_killed_writer_still_reads(tmp_path, journal):
    path = tmp_path / "run.live.h5"
    with Writer(journal, path, 500) as writer:
        writer.step()
        writer.step()
        with h5py.File(path, "r", swmr=True) as f:
            before = len(f["chunks"])
        writer.process.send_signal(signal.SIGKILL)
        writer.process.wait()
    with h5py.File(path, "r", swmr=True) as f:
        assert len(f["chunks"]) == before > 0
        assert len(pd.DataFrame(f["chunks"][:])) == before
