"""Analyses that do what analyses do: a healthy one, one with an expensive dataset, one that fills in a pool."""

from __future__ import annotations

import concurrent.futures
import contextlib
import time

import awkward as ak
import hist
import numpy as np

from planted_runs import Case, Planted, marked_line, write

_VALUES = np.random.default_rng(3).exponential(40.0, 2_000_000)


def _fill(_=None):
    end = time.monotonic() + 0.8
    filled = hist.Hist.new.Reg(200, 0, 500, name="pt").Weight()
    while time.monotonic() < end:
        filled.fill(_VALUES)
    return filled


class FillsInAPool(Planted):
    def plant(self, events):
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            list(pool.map(_fill, range(2)))  # planted: fill


class Dijets(Planted):
    """Masses of jet pairs in some variations, as analyses have them."""

    def plant(self, events):
        jets = events.Jet[events.Jet.pt > 20]
        masses = hist.Hist.new.Reg(100, 0, 1000, name="mass").Double()
        for variation in np.linspace(0.9, 1.1, 9):
            pairs = ak.combinations(jets, 2, fields=["one", "two"])
            one, two = pairs.one, pairs.two
            angles = np.cosh(one.eta / 100 - two.eta / 100) - np.cos(one.phi - two.phi)
            mass = np.sqrt(2 * variation * one.pt * two.pt * angles)
            hardest = ak.max(mass, axis=1)
            masses.fill(ak.flatten(mass[mass > 0]))
            ak.mean(hardest)


class FitsOneDataset(Planted):
    """A smearing of each jet; for top pairs ten times as often. Only theirs is planted."""

    def plant(self, events):
        top = events.metadata["dataset"] == "top"
        pt = np.asarray(ak.flatten(events.Jet.pt))
        draws = np.random.default_rng(1)
        began = time.monotonic()
        if top:
            np.sort(draws.normal(pt, 3.0, (400, len(pt))), axis=0)  # planted: top
        else:
            np.sort(draws.normal(pt, 3.0, (40, len(pt))), axis=0)
        return (time.monotonic() - began) if top else 0.0


@contextlib.contextmanager
def four_datasets(case, directory):
    names = ("dy", "top", "wjets", "qcd")
    yield {
        name: [
            write(directory / f"{name}{n}.root", n, case.events)
            for n in range(case.files // len(names))
        ]
        for name in names
    }


def _line(mark: str) -> tuple:
    return (marked_line(__file__, mark),)


COMPUTING = frozenset({"compute"})
CULPRITS = frozenset({"gil", "input", "opening", "service", "file", "lock", "sleep", "native", "garbage_collection",
                      "spill", "slow_files", "slow_servers", "slow_workers", "memory_growth"})  # fmt: skip

CASES = [
    Case("healthy", Dijets, COMPUTING, (), "one thread makes masses of jet pairs: the work itself",
         threads=1, files=40, events=40_000, innocent=CULPRITS),
    Case("one-dataset", FitsOneDataset, COMPUTING, (*_line("top"), "top"),
         "one of four datasets takes ten times as long for each event, on one line",
         threads=1, files=48, events=20_000, share=0.6, fileset=four_datasets),
    Case("hist-pool", FillsInAPool, frozenset({"native"}), _line("fill"),
         "two helper threads fill histograms while the task waits for them",
         threads=1, files=16, long=True),
]  # fmt: skip
