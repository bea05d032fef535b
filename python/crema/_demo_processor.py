"""The analysis of the demonstration: a spectrum of dijet masses under variations of the jet energy scale.

A module of its own, so that workers import it by name.
"""

from __future__ import annotations

from typing import Any

import awkward as ak
import hist
from coffea import processor
from coffea.nanoevents import NanoAODSchema

SOURCES = 10  # of uncertainty of the jet energy scale; each is varied up and down

# variation -> factor on the transverse momentum: constant, and per unit of |eta|
VARIATIONS = {"nominal": (1.0, 0.0)} | {
    f"scale{source}_{way}": (1 + sign * 0.002 * source, sign * 0.001 * source)
    for source in range(1, SOURCES + 1)
    for way, sign in (("up", 1), ("down", -1))
}


class Schema(NanoAODSchema):
    """NanoAOD, of which a file need not have every collection."""

    warn_missing_crossrefs = False


class DijetProcessor(processor.ProcessorABC):
    """Select central jets that are not muons; fill the mass of each pair, and of the hardest pair of an event."""

    variations = VARIATIONS

    def process(self, events: Any) -> dict[str, Any]:
        """Histograms and counts of one chunk."""
        dataset = events.metadata["dataset"]
        output = {
            "events": len(events),
            "selected": 0,
            "mass": hist.Hist.new.StrCat([], growth=True, name="dataset")
            .StrCat(list(self.variations), name="variation")
            .Reg(100, 0, 1000, name="mass", label="dijet mass [GeV]")
            .Int64(),
            "leading": hist.Hist.new.StrCat([], growth=True, name="dataset")
            .StrCat(list(self.variations), name="variation")
            .Reg(100, 0, 1000, name="mass", label="mass of the two hardest jets [GeV]")
            .Int64(),
        }
        clean = self._without_muons(events)
        for variation, (scale, slope) in self.variations.items():
            jets = self._select(clean, scale, slope)
            pairs = ak.combinations(jets, 2, fields=["one", "two"])
            mass = (pairs.one + pairs.two).mass
            output["mass"].fill(dataset=dataset, variation=variation, mass=ak.flatten(mass))
            hardest = ak.argmax(pairs.one.pt + pairs.two.pt, axis=1, keepdims=True)
            leading = ak.flatten(ak.drop_none(mass[hardest]))
            output["leading"].fill(dataset=dataset, variation=variation, mass=leading)
            if variation == "nominal":
                output["selected"] = len(leading)
        return output

    @staticmethod
    def _without_muons(events: Any) -> Any:
        """Jets with no isolated muon within 0.4."""
        jets = events.Jet
        if "Muon" not in events.fields:
            return jets
        muons = events.Muon[events.Muon.pt > 10]
        return jets[ak.all(jets.metric_table(muons) > 0.4, axis=2)]

    @staticmethod
    def _select(jets: Any, scale: float, slope: float) -> Any:
        factor = scale + slope * abs(jets.eta)
        varied = ak.with_field(jets, jets.pt * factor, "pt")
        return varied[(varied.pt > 30) & (abs(varied.eta) < 2.5)]

    def postprocess(self, accumulator: Any) -> Any:
        """Nothing is left to do."""
        return accumulator
