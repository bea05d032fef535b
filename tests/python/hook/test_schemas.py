"""The records are the same for every schema and format that coffea reads; what a source cannot tell is unknown, never zero."""

from __future__ import annotations

import time

import awkward as ak
import coffea.nanoevents as nano
import pytest
import uproot
from coffea import processor
from coffea.nanoevents.schemas.edm4hep import EDM4HEPSchema

import crema
import hook_support as support
import missing
import paths
from crema import MetricsCollector
from crema.hook import _input

SAMPLES = paths.SAMPLES
pytestmark = pytest.mark.filterwarnings("ignore:(Skipping|No matched):UserWarning")
READS_PARQUET = support.coffea_version() >= (2026,)
UNSYNCED, NO_BYTES = (
    1 << 0,
    1 << 2,
)  # of chunks.quality; a run may be too short for an offset of its clock

# what it is, as name of its dataset: sample, tree, schema, events
ROOT = {
    "NanoAOD": ("nano_tree.root", "Events", nano.NanoAODSchema, 10),
    "NanoAOD as RNTuple": ("nano_tree_rntuple.root", "Events", nano.NanoAODSchema, 10),
    "PFNano": ("pfnano.root", "Events", nano.PFNanoAODSchema, 10),
    "TreeMaker": ("treemaker.root", "PreSelection", nano.TreeMakerSchema, 10),
    "TreeMaker as RNTuple": ("treemaker_rntuple.root", "PreSelection", nano.TreeMakerSchema, 10),
    "PHYSLITE": ("PHYSLITE_example.root", "CollectionTree", nano.PHYSLITESchema, 100),
    "Delphes": ("delphes.root", "Delphes", nano.DelphesSchema, 25),
    "FCC": ("p8_ee_WW_ecm240_edm4hep.root", "events", nano.FCC.get_schema("edm4hep1"), 10),
    "EDM4hep": ("edm4hep.root", "events", EDM4HEPSchema.version("00.99.01"), 3),
    "PDUNE": ("pduneana.root", "pduneana/beamana", nano.PDUNESchema, 10),
    "Base": ("treemaker.root", "PreSelection", nano.BaseSchema, 10),
}


class Touch(processor.ProcessorABC):
    """Reads one number an event, or a few."""

    def process(self, events):
        array = events
        while array.fields:
            array = array[array.fields[0]]
        return {"n": len(events), "sum": float(ak.sum(array, axis=None))}

    def postprocess(self, accumulator):
        return accumulator


def run(mc, dataset, path, tree, schema, **options):
    """What coffea says of it: the Runner's result."""
    runner = processor.Runner(
        executor=processor.IterativeExecutor(status=False),
        schema=schema,
        savemetrics=True,
        checkpointer=mc.checkpointer,
        metadata_cache={},
        **options,
    )
    fileset = {dataset: {"files": {str(path): tree}}}
    return runner.run(fileset, processor_instance=Touch())


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """One run over all samples: coffea's result by dataset, and crema's chunks."""
    results = {}
    output = tmp_path_factory.mktemp("run")
    with MetricsCollector(processor_instance=Touch(), output=output, quiet=True) as mc:
        for dataset, (sample, tree, schema, _) in ROOT.items():
            results[dataset] = run(mc, dataset, SAMPLES / sample, tree, schema)
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
    with crema.open(mc.path) as file:
        files = file["dict/file"].set_index("name")
        return results, file["chunks"], file["summary/workflow"].set_index("name"), files


@pytest.mark.parametrize("dataset", ROOT)
def test_a_chunk_is_what_coffea_says_of_it(measured, dataset):
    results, rows, _, _ = measured
    metrics = results[dataset]["metrics"]
    row = rows[rows.dataset == dataset]
    assert row.status.tolist() == ["ok"] and (row.quality & NO_BYTES).tolist() == [0]
    assert row.n_events.tolist() == [ROOT[dataset][3]] == [metrics["entries"]]
    assert row.bytes_read_b.tolist() == [metrics["bytesread"]] and metrics["bytesread"] > 0
    branches = {column.rpartition("-")[0] for column in metrics["columns"]}
    assert row.n_branches.tolist() == [len(branches)] and branches
    assert (row.wall_s > 0).all() and (row.open_s > 0).all() and (row.cpu_s > 0).all()


@pytest.mark.parametrize("dataset", ROOT)
def test_a_file_is_described_as_uproot_finds_it(measured, dataset):
    sample, name, _, _ = ROOT[dataset]
    path = SAMPLES / sample
    row = measured[3].loc[[str(path)]].iloc[0]
    with uproot.open(path) as file:
        tree = file[name]
        assert (row.size_b, row.n_entries) == (path.stat().st_size, tree.num_entries)
        if isinstance(tree, uproot.TTree):
            n_branches = sum(1 for _ in tree.itervalues())
            assert (row.tree_b, row.n_branches) == (tree.compressed_bytes, n_branches)
        else:  # RNTuple keeps no such sums
            assert (row.tree_b, row.n_branches) == (-1, -1)


@pytest.fixture(scope="module")
def of_many_branches():
    """A file, and the factory that coffea makes of it."""
    path = SAMPLES / "pfnano.root"
    return path, nano.NanoEventsFactory.from_root(
        {str(path): "Events"}, schemaclass=nano.BaseSchema, mode="virtual"
    )


@pytest.mark.timing
def test_describing_a_file_takes_no_millisecond_however_many_branches_it_has(of_many_branches):
    took_s = []
    for _ in range(20):
        began = time.thread_time()
        _input.whole(of_many_branches[1])
        took_s.append(time.thread_time() - began)
    assert min(took_s) <= 0.6e-3


def test_a_file_of_many_branches_is_described(of_many_branches):
    path, factory = of_many_branches
    found = _input.whole(factory)
    with uproot.open(path) as file:
        tree = file["Events"]
        assert found[:2] == (path.stat().st_size, tree.num_entries)
        assert found.n_branches == len(tree.keys()) > 1800
    assert found.tree_b > 0
    assert set(_input.whole(None)) == set(_input.whole(object())) == {-1}


def test_the_whole_run_is_the_sum(measured):
    results, _, workflow, _ = measured
    for name, of_report in (("total_events", "entries"), ("total_bytes_read_coffea", "bytesread")):
        assert workflow.status[name] == "ok"
        assert workflow.value[name] == sum(r["metrics"][of_report] for r in results.values())


@pytest.mark.skipif(not READS_PARQUET, reason=missing.OTHER_VERSIONS)
def test_bytes_that_coffea_does_not_know_are_unknown_and_not_zero(tmp_path):
    with uproot.open(SAMPLES / "nano_tree.root") as file:
        columns = file["Events"].arrays(["run", "luminosityBlock", "event", "MET_pt"])
    path = tmp_path / "nano.parquet"
    ak.to_parquet(columns, path)
    with MetricsCollector(processor_instance=Touch(), output=tmp_path, quiet=True) as mc:
        result = run(mc, "Parquet", path, "Events", nano.BaseSchema, format="parquet")
    assert "bytesread" not in result["metrics"]
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
    with crema.open(mc.path) as file:
        (row,) = file["chunks"].itertuples()
        workflow = file["summary/workflow"].set_index("name")
        assert file["summary/per_dataset"].bytes_b.tolist() == [-1]
        assert set(file["summary/per_worker"].bytes_read_b) == {-1}
    assert (row.status, row.quality & NO_BYTES, row.n_events) == ("ok", NO_BYTES, 10)
    assert row.bytes_read_b == -1 and row.n_branches == 1
    for name in ("total_bytes_read_coffea", "data_rate_gbps", "data_rate_mb_s"):
        assert workflow.status[name] == "unavailable" and workflow.value.isna()[name], name
    assert workflow.value["total_events"] == 10 and workflow.status["total_events"] == "ok"
