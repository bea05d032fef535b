"""NanoAOD-like files for the demonstration: made once, the same on every machine."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable

import awkward as ak
import numpy as np
import uproot

EVENTS_PER_STEP = 50_000  # written at a time; one basket per branch
SEED = 20260301
VERSION = 1  # in the names of the files: a change of their content is a change of their name

# dataset -> mass and width of what decays to two jets, GeV; None: nothing does
DATASETS = {"resonance": (400.0, 30.0), "multijet": None}
FILES_PER_DATASET = 2


def make_fileset(
    directory: pathlib.Path, n_events: int, progress: Callable[[int], None]
) -> dict[str, dict]:
    """Fileset of about `n_events` events in all; files that are there already are kept.

    Parameters
    ----------
    directory : pathlib.Path
        Where the files are, or will be.
    n_events : int
        Rounded up to whole files of equal length.
    progress : callable
        Told how many events are done, whenever some are.

    Returns
    -------
    dict
        As a coffea Runner takes it.
    """
    directory.mkdir(parents=True, exist_ok=True)
    n_files = len(DATASETS) * FILES_PER_DATASET
    per_file = max(1, -(-n_events // n_files))
    fileset: dict[str, dict] = {}
    for i, dataset in enumerate(DATASETS):
        files = {}
        for j in range(FILES_PER_DATASET):
            path = directory / f"{dataset}-{j}-{per_file}-v{VERSION}.root"
            if not path.exists():
                _write(path, dataset, per_file, seed=(SEED, i, j), progress=progress)
            else:
                progress(per_file)
            files[str(path)] = "Events"
        fileset[dataset] = {"files": files}
    return fileset


def _write(
    path: pathlib.Path,
    dataset: str,
    n_events: int,
    *,
    seed: tuple[int, ...],
    progress: Callable[[int], None],
) -> None:
    """Under a name of its own first, so that a file which is there is whole."""
    random = np.random.default_rng(seed)
    part = path.with_suffix(f".{os.getpid()}.part")
    try:
        with uproot.recreate(part, compression=uproot.LZ4(1)) as file:
            tree = None
            for first in range(0, n_events, EVENTS_PER_STEP):
                n = min(EVENTS_PER_STEP, n_events - first)
                columns = _events(random, n, first, DATASETS[dataset])
                if tree is None:
                    tree = file.mktree("Events", {name: c.type for name, c in columns.items()})
                tree.extend(columns)
                progress(n)
        part.rename(path)
    finally:
        part.unlink(missing_ok=True)


def _events(
    random: np.random.Generator, n: int, first: int, decay: tuple[float, float] | None
) -> dict[str, ak.Array]:
    """`n` events as columns: three numbers of each event, MET, jets and muons."""
    columns = {
        "run": np.ones(n, np.uint32),
        "luminosityBlock": (1 + (first + np.arange(n)) // 1000).astype(np.uint32),
        "event": (first + np.arange(n)).astype(np.uint64),
        "genWeight": random.normal(1.0, 0.1, n).astype(np.float32),
        "PV_npvs": random.poisson(35, n).astype(np.int32),
        "MET_pt": random.exponential(30.0, n).astype(np.float32),
        "MET_phi": random.uniform(-np.pi, np.pi, n).astype(np.float32),
    }
    found = {name: ak.Array(values) for name, values in columns.items()}
    found["Jet"] = _jets(random, n, decay)
    found["Muon"] = _muons(random, n)
    return found


def _jets(random: np.random.Generator, n: int, decay: tuple[float, float] | None) -> ak.Array:
    counts = random.poisson(4.0, n) + (2 if decay else 0)
    total = int(counts.sum())
    pt = 20.0 + random.exponential(35.0, total)
    eta = random.normal(0.0, 1.8, total)
    phi = random.uniform(-np.pi, np.pi, total)
    if decay:
        # The first two jets of an event share a mass: back to back at equal pt, m = 2 pt cosh(deta / 2).
        mass = random.normal(*decay, n)
        one = np.cumsum(counts) - counts
        eta[one + 1] = np.clip(eta[one + 1], -2.0, 2.0)
        eta[one] = np.clip(eta[one], -2.0, 2.0)
        phi[one + 1] = np.where(phi[one] > 0, phi[one] - np.pi, phi[one] + np.pi)
        pt[one] = pt[one + 1] = mass / (2 * np.cosh((eta[one] - eta[one + 1]) / 2))
    return _jagged(
        counts,
        pt=pt,
        eta=eta,
        phi=phi,
        mass=0.1 * pt,
        btagDeepFlavB=random.beta(0.5, 3.0, total),
        area=random.normal(0.5, 0.02, total),
    )


def _muons(random: np.random.Generator, n: int) -> ak.Array:
    counts = random.poisson(0.7, n)
    total = int(counts.sum())
    return _jagged(
        counts,
        pt=5.0 + random.exponential(20.0, total),
        eta=random.normal(0.0, 1.2, total),
        phi=random.uniform(-np.pi, np.pi, total),
        mass=np.full(total, 0.10566),
        charge=random.choice((-1, 1), total),
        pfRelIso04_all=random.exponential(0.1, total),
        dxy=random.normal(0.0, 0.01, total),
    )


def _jagged(counts: np.ndarray, **fields: np.ndarray) -> ak.Array:
    types = {"f": np.float32, "i": np.int32}
    return ak.zip(
        {k: ak.unflatten(v.astype(types[v.dtype.kind]), counts) for k, v in fields.items()}
    )
