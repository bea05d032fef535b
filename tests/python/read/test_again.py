"""A run in which chunks failed: what failed is named, done again and opened; one file's name held a token."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil

import awkward as ak
import h5py
import numpy as np
import pytest
import uproot
from click.testing import CliRunner
from coffea import processor

import crema
from coffea_runs import run_coffea
from crema._demo_processor import Schema
from crema.read.again import Source
from crema.read.command import main
from crema.read.html import write_report
from workloads import FailsInAFile

TOKEN = "S3CRET"


@dataclasses.dataclass
class Failed:
    path: object
    fileset: dict
    ends: tuple[str, str]  # of the names of the files with chunks that fail


@pytest.fixture(scope="module")
def failed(client, fileset, tmp_path_factory):
    """A real run that ended with an exception; each chunk is tried twice."""
    where = tmp_path_factory.mktemp("failed")
    datasets, names = {}, []
    for dataset, of in fileset.items():
        files = dict(of["files"])
        first = next(iter(files))
        secret = str(where / f"{dataset}--token={TOKEN}-name.root")
        shutil.copy(first, secret)
        files = {secret if name == first else name: tree for name, tree in files.items()}
        names.append(list(files))
        datasets[dataset] = {"files": files, "metadata": {"year": 2026}}
    ends = names[0][0][-30:], names[1][-1][-30:]  # one with a token and one without
    executor = processor.DaskExecutor(client=client, status=False, retries=1)
    instance = FailsInAFile(*ends)
    collector = crema.MetricsCollector(client, instance, output=where, quiet=True)
    with pytest.raises(Exception, match="no jet"), collector as mc:
        run_coffea(mc, executor, datasets, instance, chunksize=500)
    assert mc.path is not None, mc.reasons
    return Failed(mc.path, datasets, ends)


@pytest.fixture
def run(failed):
    with crema.open(failed.path) as run:
        yield run


def expected(fileset, chunksize=500):
    """Each chunk of the fileset, by uproot."""
    found = set()
    for dataset, of in fileset.items():
        for name, tree in of["files"].items():
            with uproot.open(name) as file:
                n = file[tree].num_entries
            found |= {(dataset, name, i, min(i + chunksize, n)) for i in range(0, n, chunksize)}
    return found


def ranges(items):
    return [(i.dataset, i.filename, i.entrystart, i.entrystop) for i in items]


def counted(run, fileset):
    """Chunks that are in the result, named as in the fileset."""
    rows = run.chunks[run.chunks.status == "ok"]
    return {
        (c.source.dataset, c.source.filename, c.entry_start, c.entry_stop)
        for c in (run.chunk(i, fileset) for i in rows.index)
    }


def runner():
    executor = processor.IterativeExecutor(status=False)
    return processor.Runner(executor=executor, schema=Schema, chunksize=500)


def test_a_run_without_what_failed_is_completed_by_it(run, failed, capsys):
    more = {"more": {"files": {next(iter(failed.fileset["resonance"]["files"])): "Events"}}}
    items = run.failed_items(failed.fileset | more)
    said = capsys.readouterr().err
    assert re.match(
        r"crema: taken from the fileset, by hash and UUID: (1 cut name|2 cut names) \(", said
    )
    assert TOKEN not in said
    done, again = counted(run, failed.fileset), ranges(items)
    assert len(again) == len(set(again)) and not done & {*again}
    assert done | {*again} | expected(
        {k: v for k, v in items.fileset.items() if k != "more"}
    ) == expected(failed.fileset)
    assert {name[-30:] for _, name, start, _ in again if start > 0} >= {*failed.ends}
    assert items.fileset["more"] == more["more"]
    assert all(item.usermeta == {"year": 2026} for item in items)
    output = runner()(items, processor_instance=FailsInAFile(" "))
    del items.fileset["more"]
    if items.fileset:  # chunks that Dask had not begun when the first one failed
        whole = runner()(items.fileset, processor_instance=FailsInAFile(" "))
        output["events"] += whole["events"]
    assert output["events"] == 4000 - sum(stop - start for *_, start, stop in done)


def test_names_that_were_cut_need_the_fileset(run, failed):
    with pytest.raises(ValueError, match=r"was cut, because it held a secret.*give fileset="):
        run.failed_items()
    others = {"resonance": {"files": {f"/x--token={TOKEN}-name.root": "Events"}}}
    with pytest.raises(ValueError, match="none in the fileset has the hash"):
        run.failed_items(others)
    for table in ("dict/file", "dict/metric"):
        assert TOKEN not in " ".join(run[table].name)
    assert TOKEN not in json.dumps(run.attributes, default=str)


def test_a_file_of_which_only_failures_are_known_is_done_again_as_a_whole(
    measured, tmp_path, capsys
):
    path = shutil.copy(measured.path, tmp_path / "copy.h5")
    with h5py.File(path, "a") as f:
        rows, files = f["chunks"][:], f["dict/file"][:]
        rows["status"][rows["file_id"] == 1] = h5py.check_enum_dtype(rows.dtype["status"])["error"]
        files["n_entries"][1] = -1
        f["chunks"][:], f["dict/file"][:] = rows, files
    with crema.open(path) as run:
        name, n = run.names("file")[1], int((rows["file_id"] == 1).sum())
        items = run.failed_items()
        assert [item.filename for item in items] == [name] * n and items.fileset == {}
        said = capsys.readouterr().err
        assert "only failed chunks are known of 1 file, not" in said and said.count("\n") == 1
        dataset = run.chunk(int(np.flatnonzero(rows["file_id"] == 1)[0])).source.dataset
        files = {dataset: {"files": {name: "Events"}}}
        items = run.failed_items(files)
        assert (items, items.fileset, capsys.readouterr().err) == ([], files, "")


def test_a_fileset_may_have_lists_and_a_tree_per_dataset(run, failed):
    lists = {
        dataset: {"treename": "Events", "files": list(of["files"])}
        for dataset, of in failed.fileset.items()
    }
    assert ranges(run.failed_items(lists)) == ranges(run.failed_items(failed.fileset))
    bare = {dataset: list(of["files"]) for dataset, of in failed.fileset.items()}
    assert ranges(run.failed_items(bare)) == ranges(run.failed_items(failed.fileset))


def test_a_whole_run_has_nothing_to_be_done_again(measured):
    with crema.open(measured.path) as run:
        items = run.failed_items()
        assert (items, items.fileset) == ([], {})
        assert repr(items) == "<0 work items to run again>"


def test_a_chunk_is_opened_as_process_had_it(run, failed):
    for status in ("error", "ok"):
        row = run["chunks"].index[run.chunks.status == status][-1]
        chunk, of = run.chunk(row, failed.fileset), run["chunks"].loc[row]
        events = chunk.events()
        assert len(events) == of.entry_stop - of.entry_start
        assert events.metadata["dataset"] == of.dataset and events.metadata["year"] == 2026
        with uproot.open(chunk.source.filename) as file:
            truth = file["Events"]["Jet_pt"].array(
                entry_start=of.entry_start, entry_stop=of.entry_stop
            )
        assert len(truth) and ak.all(ak.flatten(events.Jet.pt) == ak.flatten(truth))
        if status == "error":
            with pytest.raises(ValueError, match="no jet"):
                FailsInAFile(*failed.ends).process(events)
    with pytest.raises(IndexError, match="there is no row 100,000"):
        run.chunk(100_000)


def test_a_schema_that_is_not_known_is_asked_for(run, failed):
    chunk = dataclasses.replace(run.chunk(0, failed.fileset), schema_module="nowhere")
    with pytest.raises(ValueError, match=r"the schema nowhere.Schema is not known here: import it"):
        chunk.events()
    assert len(chunk.events(schema=Schema)) == chunk.entry_stop - chunk.entry_start


def test_source_of_a_chunk_has_the_tree_of_the_file(run, failed):
    chunk = run.chunk(0, failed.fileset)
    assert json.loads(run.attributes["treenames"]) == ["Events"]
    assert chunk.source == Source(*chunk.source[:3], "Events")
    assert chunk.item.treename == "Events" and len(chunk.item.fileuuid) == 16


# ---------------------------------------------------------------- what is shown of it


def test_show_names_exception_message_and_file_of_failed_attempts(run, failed):
    said = CliRunner().invoke(main, ["show", str(failed.path)]).stdout
    lines = [line for line in said.splitlines() if line.startswith("  failed: ")]
    assert 1 <= len(lines) <= 3  # the Runner may end before the second file fails
    words = "ValueError: no jet above <b>20 GeV</b>, see https://host/x?[removed]"
    for line in lines:
        assert re.match(r"  failed: [12] attempts? failed in .+ \(\w+\): ", line)
        assert line.endswith(words)
    told = json.loads(CliRunner().invoke(main, ["show", "--json", str(failed.path)]).stdout)
    n_failed = int((run.chunks.status == "error").sum())
    assert sum(len(each["rows"]) for each in told["failed_attempts"]) == n_failed > 0
    for each in told["failed_attempts"]:
        assert set(run.chunks.loc[each["rows"]].file) == {each["file"]}
    assert "failed: " in CliRunner().invoke(main, ["show", "--all", str(failed.path)]).stdout


def test_page_has_failed_attempts_and_how_to_do_them_again(run, failed, tmp_path):
    text = write_report(run, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Failed attempts" in text and "run.failed_items()" in text
    assert '<p class="missing">failed: ' in text[: text.index("What holds it back")]
    assert "ValueError: no jet above &lt;b&gt;20 GeV&lt;/b&gt;" in text and TOKEN not in text
    row = int(re.search(r"run\.chunk\((\d+)\)\.events\(\)", text)[1])
    assert run.chunks.status[row] == "error"
