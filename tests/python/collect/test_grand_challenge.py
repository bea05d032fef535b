"""An analysis of the shape of the Analysis Grand Challenge's: nothing in it knows of crema but the block around it."""

from __future__ import annotations

import awkward as ak
import hist
import numpy as np
import pytest
import uproot
from coffea import processor
from coffea.analysis_tools import PackedSelection
from coffea.nanoevents import NanoAODSchema

import crema
import missing
import paths

SAMPLES = paths.SAMPLES
PROCESSES = {  # name -> file, cross section in pb; the first one as it is, the others with the columns that are used
    "ttbar": ("nano_dy.root", 729.84),
    "single_top": ("nano_dimuon.root", 218.3),
    "wjets": ("nano_dy.root", 15487.2),
}
FOUR = ["pt", "eta", "phi", "mass"]
COLUMNS = {
    "Jet": [*FOUR, "btagDeepB"],
    "Muon": [*FOUR, "charge"],
    "Electron": [*FOUR, "charge"],
}
LUMINOSITY_PB = 3378.0
CHUNK = 20


class Table:
    """Weights by transverse momentum and direction, as a table of corrections gives them: central, up, down."""

    def __init__(self):
        self.pt_edges = np.array([0.0, 20.0, 30.0, 50.0, 80.0, np.inf])
        self.eta_edges = np.array([0.0, 0.8, 1.6, 2.4, np.inf])
        central = 0.9 + 0.02 * np.add.outer(np.arange(5), np.arange(4))
        self.values = {"central": central, "up": 1.05 * central, "down": 0.95 * central}

    def evaluate(self, which, pt, eta):
        counts = ak.num(pt)
        flat_pt, flat_eta = (np.asarray(ak.flatten(values)) for values in (pt, abs(eta)))
        i = np.clip(np.searchsorted(self.pt_edges, flat_pt, "right") - 1, 0, 4)
        j = np.clip(np.searchsorted(self.eta_edges, flat_eta, "right") - 1, 0, 3)
        weights = ak.unflatten(self.values[which][i, j], counts)
        return np.asarray(ak.prod(weights, axis=1))


class TtbarAnalysis(processor.ProcessorABC):
    def __init__(self):
        self.corrections = Table()

    def process(self, events):
        name, meta = events.metadata["dataset"], events.metadata
        histogram = (
            hist.Hist.new.Reg(20, 0, 500, name="observable")
            .StrCat([], name="process", growth=True)
            .StrCat([], name="region", growth=True)
            .StrCat([], name="variation", growth=True)
            .Weight()
        )
        lumi_weight = meta["xsec"] * LUMINOSITY_PB / meta["nevts"] if meta["nevts"] else 1.0
        jets_before = events.Jet
        cutflow = {"all": len(events)}
        for variation, scale in {
            "nominal": 1.0,
            "pt_scale_up": 1.03,
            "pt_res_up": 1.0 + 0.01 * np.sin(np.arange(len(events))),
        }.items():
            jets = ak.with_field(jets_before, jets_before.pt * scale, "pt")
            selection = PackedSelection()
            good = jets[(jets.pt > 20) & (abs(jets.eta) < 2.4)]
            leptons = ak.num(events.Muon[events.Muon.pt > 20]) + ak.num(
                events.Electron[events.Electron.pt > 20]
            )
            tagged = ak.sum(good.btagDeepB > 0.4, axis=1)
            selection.add("lepton", leptons >= 1)
            selection.add("jets", ak.num(good) >= 1)
            selection.add("0b", tagged == 0)
            selection.add("1b", tagged >= 1)
            for region in ("0b", "1b"):
                chosen = selection.all("lepton", "jets", region)
                cutflow[f"{variation}/{region}"] = int(np.sum(chosen))
                kept = good[chosen]
                observable = ak.sum(kept.pt, axis=1)
                systematics = ("central", "up", "down") if variation == "nominal" else ("central",)
                for which in systematics:
                    weights = lumi_weight * self.corrections.evaluate(which, kept.pt, kept.eta)
                    histogram.fill(
                        observable=observable,
                        process=name,
                        region=region,
                        variation=variation if which == "central" else f"btag_{which}",
                        weight=weights,
                    )
        return {"hist": histogram, "cutflow": {name: cutflow}, "nevents": {name: len(events)}}

    def postprocess(self, accumulator):
        return accumulator


def skimmed(path, to):
    """The same events with fewer branches: a chunk of all 1,499 takes a second."""
    with uproot.open(path) as source, uproot.recreate(to) as file:
        tree = source["Events"]
        data = {name: tree[name].array() for name in ("run", "luminosityBlock", "event")}
        for name, columns in COLUMNS.items():
            data[name] = ak.zip({c: tree[f"{name}_{c}"].array() for c in columns})
        file.mktree("Events", {name: values.type.content for name, values in data.items()})
        file["Events"].extend(data)
    return to


def runner(executor):
    return processor.Runner(
        executor=executor, schema=NanoAODSchema, chunksize=CHUNK, savemetrics=True
    )


def test_an_analysis_of_the_grand_challenges_shape_is_complete_and_every_total_equal(
    client, tmp_path
):
    if not all((SAMPLES / file).is_file() for file, _ in PROCESSES.values()):
        pytest.skip(missing.SAMPLES)
    paths = {
        name: SAMPLES / file
        if name == "ttbar"
        else skimmed(SAMPLES / file, tmp_path / f"{name}.root")
        for name, (file, _) in PROCESSES.items()
    }
    fileset = {
        f"{name}__nominal": {
            "files": {str(paths[name]): "Events"},
            "metadata": {"process": name, "variation": "nominal", "xsec": xsec, "nevts": 40},
        }
        for name, (_, xsec) in PROCESSES.items()
    }
    instance = TtbarAnalysis()
    wanted, expected = runner(processor.IterativeExecutor(status=False))(fileset, instance)

    with crema.MetricsCollector(
        client, processor_instance=instance, output=tmp_path, quiet=True
    ) as mc:
        run = runner(processor.DaskExecutor(client=client, status=False))
        found, report = run(fileset, instance)
        mc.set_coffea_report(report)

    assert found["cutflow"] == wanted["cutflow"] and found["nevents"] == wanted["nevents"]
    assert sum(wanted["cutflow"]["ttbar__nominal"].values()) > 40
    assert wanted["hist"].sum().value > 0
    for name in wanted["hist"].axes["process"]:
        for region in wanted["hist"].axes["region"]:
            for variation in wanted["hist"].axes["variation"]:
                at = {"process": name, "region": region, "variation": variation}
                np.testing.assert_allclose(
                    found["hist"][at].values(), wanted["hist"][at].values(), rtol=1e-9
                )
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
    with crema.open(mc.path) as file:
        chunks = file["chunks"]
        assert (chunks["status"] == "ok").all() and len(chunks) == report["chunks"]
        by_process = chunks.groupby("dataset", observed=True)["n_events"].sum().to_dict()
        assert by_process == found["nevents"]
        metrics = file.summary()
    assert report["chunks"] == expected["chunks"]
    assert metrics["total_events"] == report["entries"] == expected["entries"]
    assert metrics["num_chunks"] == report["chunks"]
    assert chunks["bytes_read_b"].sum() == report["bytesread"]
