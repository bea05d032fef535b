"""A model for each part of a run's budget: its thread-seconds as a function of the threads.

A part follows c0 + c1 p^i log2(p)^j with c0, c1 >= 0 and p the threads. Cross-validation that leaves out one number of threads at a time
names the exponents. Which ones are right is never certain from a handful of runs, and what that does far beyond the last run is most of
the error: so intervals come from all exponents, each with the weight that the runs give it (Bayes' information criterion), not
from the chosen ones alone.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from .fits import FitError, Floats, levels

if TYPE_CHECKING:
    from .reader import RunFile

THREADS_MIN, REPEATS_MIN = 5, 3
REACH = 10.0  # times the largest run: no further
LEVEL = 0.90
_PRIOR_CONSTANT = 0.25
_CLEARLY = (
    0.9  # of the constant's error: exponents that do no better than this are not worth their name
)
_DRAWS = 4000
_SEED = 20260301

# Part -> rows of /summary/bottlenecks that are in it. Together they are the run's capacity, but for the residual.
PARTS: dict[str, tuple[str, ...]] = {
    "process CPU": ("compute", "garbage_collection", "user_metered"),
    "waiting for input": ("input", "slow_servers"),
    "other waiting": (
        "service",
        "file",
        "lock",
        "sleep",
        "native",
        "children",
        "page_fault",
        "waiting",
    ),
    "waiting for a core or the GIL": ("cores", "gil"),
    "opening": ("opening",),
    "executor": ("chunk_overhead", "serialization", "spill"),
    "preprocessing": ("preprocessing",),
    "merge": ("merging",),
    "scheduler latency": ("latency", "imbalance", "starved"),
    "idle tail": ("tail",),
    "start and end": ("startup", "drained", "scaling"),
    "slow files and workers": ("slow_files", "slow_workers"),
    "other": ("other_tasks", "wasted", "memory_growth"),
    "transfers": (),
}
BESIDE = "transfers"  # run beside tasks: modelled, in no sum

_I = (-1.0, -0.5, 0.0, 0.25, 1 / 3, 0.5, 2 / 3, 0.75, 1.0, 1.25, 4 / 3, 1.5, 5 / 3, 2.0, 2.5, 3.0)
_J = (0, 1, 2)
"""Exponents that are named, as Extra-P does, and two that fall: a part may shrink with the threads."""

_BETWEEN = tuple(k / 8 for k in range(-8, 25))
"""Exponents for the intervals: the true one need not be among the named ones."""


@dataclasses.dataclass(frozen=True)
class PartModel:
    """c0 + c1 p^i log2(p)^j thread-seconds."""

    name: str
    c0: float
    c1: float
    i: float
    j: int
    cv_error: float  # mean relative error where a number of threads was left out

    def seconds(self, threads: ArrayLike) -> Floats:
        """Thread-seconds on this many threads."""
        return self.c0 + self.c1 * _term(np.asarray(threads, float), self.i, self.j)

    def __str__(self) -> str:
        if not self.c1:
            return f"{self.c0:.3g}"
        power = "" if self.i == 0 else " p" if self.i == 1 else f" p^{self.i:.3g}"
        log = "" if self.j == 0 else " log2(p)" if self.j == 1 else f" log2(p)^{self.j}"
        return (f"{self.c0:.3g} + " if self.c0 else "") + f"{self.c1:.3g}{power}{log}"


@dataclasses.dataclass(frozen=True)
class Prediction:
    """Prediction of a run on `threads`; intervals cover 90 %."""

    threads: float
    wall_s: float
    wall_lo_s: float
    wall_hi_s: float
    parts: dict[str, tuple[float, float, float]]  # thread-seconds: expected, lower, upper
    limits: str  # the part that takes most, process CPU aside
    limits_fraction: float  # of all thread-seconds


@dataclasses.dataclass(frozen=True)
class Model:
    """All parts of a series."""

    parts: dict[str, PartModel]
    threads: Floats  # of the runs
    seconds: dict[str, Floats]
    _fits: dict[str, list[_Fit]]

    def predict(self, threads: float) -> Prediction:
        """Predict the run on this many threads.

        Raises
        ------
        FitError
            Beyond ten times the largest run.
        """
        largest = float(self.threads.max())
        if not 1 <= threads <= REACH * largest * 1.05:
            raise FitError(
                f"the largest run has {largest:.0f} threads: {threads:g} is not within 1 and {REACH:.0f} times as many"
            )
        random = np.random.default_rng(_SEED)
        draws = {name: _draw(of, float(threads), random) for name, of in self._fits.items()}
        found = {name: _interval(self.parts[name].seconds(threads), d) for name, d in draws.items()}
        inside = [name for name in found if name != BESIDE]
        total = sum(found[name][0] for name in inside)
        wall = _interval(total, np.sum([draws[name] for name in inside], axis=0))
        losses = [name for name in inside if name != "process CPU"]
        limits = max(losses or inside, key=lambda name: found[name][0])
        return Prediction(
            threads=float(threads),
            wall_s=wall[0] / threads,
            wall_lo_s=wall[1] / threads,
            wall_hi_s=wall[2] / threads,
            parts=found,
            limits=limits,
            limits_fraction=found[limits][0] / total if total > 0 else math.nan,
        )


def of_run(run: RunFile) -> dict[str, float]:
    """Thread-seconds of each part in one sealed run file; {} if it has no ranking."""
    if "summary/bottlenecks" not in run:
        return {}
    rows = run.rows("summary/bottlenecks")
    if not rows:
        return {}
    # A cause that could not be measured has no seconds: they are in the others.
    seconds = {row.name: row.thread_seconds for row in rows if math.isfinite(row.thread_seconds)}
    found = {
        part: sum(seconds.pop(name, 0.0) for name in names)
        for part, names in PARTS.items()
        if names
    }
    found["other"] += sum(seconds.values())  # of later versions
    transfers = run.summary().get("transfer_time_seconds", math.nan)
    return found | {BESIDE: transfers}


def fit(threads: ArrayLike, seconds: Mapping[str, ArrayLike]) -> Model:
    """Model each part.

    Parameters
    ----------
    threads : (n,) array_like
        Of each run.
    seconds : mapping of name to (n,) array_like
        Thread-seconds of each part in each run.

    Raises
    ------
    FitError
        With fewer than five numbers of threads of three runs each.
    """
    p = levels(np.asarray(threads, float))
    enough = [n for n in np.unique(p) if (p == n).sum() >= REPEATS_MIN]
    if len(enough) < THREADS_MIN:
        raise FitError(
            f"models of the parts need at least {THREADS_MIN} numbers of threads with {REPEATS_MIN} runs each; "
            f"{len(enough)} of {len(np.unique(p))} have these"
        )
    known = {name: np.asarray(values, float) for name, values in seconds.items()}
    known = {name: values for name, values in known.items() if np.isfinite(values).all()}
    fits = {name: _candidates(p, y) for name, y in known.items()}
    chosen = {name: _choose(name, p, y) for name, y in known.items()}
    return Model(chosen, p, known, fits)


def extrap(model: Model) -> str:
    """The measured seconds in Extra-P's text format: a region for each part, one line of repeats per number of threads."""
    levels = np.unique(model.threads)
    lines = ["PARAMETER threads", "POINTS " + " ".join(f"{n:g}" for n in levels)]
    for name, values in model.seconds.items():
        lines += ["", f"REGION {name.replace(' ', '_')}", "METRIC thread_seconds"]
        lines += [
            "DATA " + " ".join(f"{v:.9g}" for v in values[model.threads == n]) for n in levels
        ]
    return "\n".join(lines) + "\n"


# ---------------------------------------------------------------- one part


@dataclasses.dataclass(frozen=True)
class _Fit:
    """One choice of exponents, fitted."""

    i: float
    j: int
    coefficients: Floats  # c0, c1
    factor: Floats  # a root of their covariance; (2, 2), of the constant (1, 1)
    scatter: float  # of a run, in proportion to its seconds
    df: int
    weight: float  # of the evidence


def _term(p: Floats, i: float, j: int) -> Floats:
    return p**i * np.log2(p) ** j


def _exponents(powers: Sequence[float] = _I) -> list[tuple[float, int]]:
    pairs = itertools.product(powers, _J)
    return [(i, j) for i, j in pairs if (i, j) != (0, 0) and not (i < 0 and j)]


def _weights(p: Floats, y: Floats) -> Floats:
    """Errors are in proportion to the seconds: 1 / mean of the level, and of all, so that a level near 0 does not rule."""
    mean = np.array([y[p == n].mean() for n in p])
    return 1 / np.maximum(np.abs(mean), 0.05 * max(np.abs(y).mean(), 1e-12))


def _solve(y: Floats, w: Floats, terms: Floats) -> tuple[Floats, Floats, Floats]:
    """c0, c1 >= 0 of y = c0 + c1 term by weighted least squares, and the sum of squares.

    `terms` is (m, n), a row for each choice of exponents; the results are (m,).
    """
    ww = w**2
    s1, sy = ww.sum(), ww @ y
    st, stt, sty = terms @ ww, terms**2 @ ww, terms @ (ww * y)
    determinant = s1 * stt - st**2
    with np.errstate(divide="ignore", invalid="ignore"):
        c1 = np.where(determinant > 1e-12 * s1 * stt, (s1 * sty - st * sy) / determinant, 0.0)
        c0 = (sy - c1 * st) / s1
        alone = np.where(stt > 0, sty / stt, 0.0)
    constant = max(0.0, sy / s1)
    c0, c1 = np.where(c0 < 0, 0.0, c0), np.where(c0 < 0, np.maximum(0, alone), c1)
    c0, c1 = np.where(c1 <= 0, constant, c0), np.maximum(0, c1)
    residuals = (y - c0[:, None] - c1[:, None] * terms) * w
    return c0, c1, (residuals**2).sum(axis=1)


def _terms(p: Floats, exponents: Sequence[tuple[float, int]]) -> Floats:
    return np.array([_term(p, i, j) for i, j in exponents])


def _candidates(p: Floats, y: Floats) -> list[_Fit]:
    """Every choice of exponents with its evidence; weights sum to 1. The first is the constant."""
    n, w = len(y), _weights(p, y)
    tried = [(0.0, 0), *_exponents(sorted({*_I, *_BETWEEN}))]
    terms = _terms(p, tried)
    terms[0] = 0  # the constant
    c0, c1, rss = _solve(y, w, terms)
    rss = np.maximum(rss, 1e-12 * n)
    found, scores = [], []
    for k, (i, j) in enumerate(tried):
        free = 2 if k else 1
        df = n - free
        weighted = np.column_stack([np.ones_like(p), terms[k]])[:, :free] * w[:, None]
        covariance = np.linalg.pinv(weighted.T @ weighted) * rss[k] / df
        coefficients, scatter = np.array([c0[k], c1[k]])[:free], math.sqrt(rss[k] / df)
        found.append(_Fit(i, j, coefficients, _root(covariance), scatter, df, 0.0))
        # The constant is one model, all exponents together are the other: each has its share of the prior.
        prior = (1 - _PRIOR_CONSTANT) / (len(tried) - 1) if k else _PRIOR_CONSTANT
        scores.append(math.log(prior) - 0.5 * (n * math.log(rss[k]) + free * math.log(n)))
    shares = np.exp(np.array(scores) - max(scores))
    shares /= shares.sum()
    return [dataclasses.replace(f, weight=float(s)) for f, s in zip(found, shares, strict=True)]


def _root(covariance: Floats) -> Floats:
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 0))


def _choose(name: str, p: Floats, y: Floats) -> PartModel:
    """The exponents that predict a number of threads best from the others; the constant unless they beat it clearly."""
    tried, w = [(0.0, 0), *_exponents()], _weights(p, y)
    terms = _terms(p, tried)
    terms[0] = 0
    levels = np.unique(p)
    errors = np.zeros(len(tried))
    for level in levels:
        out = p == level
        c0, c1, _ = _solve(y[~out], w[~out], terms[:, ~out])
        missed = np.abs(y[out] - c0[:, None] - c1[:, None] * terms[:, out]) * w[out]
        errors += missed.mean(axis=1) / len(levels)
    best = int(np.argmin(errors))
    best = 0 if errors[best] > _CLEARLY * errors[0] else best
    c0, c1, _ = _solve(y, w, terms[[best]])
    i, j = tried[best]
    return PartModel(name, float(c0[0]), float(c1[0]), i, j, float(errors[best]))


def _draw(fits: Sequence[_Fit], threads: float, random: np.random.Generator) -> Floats:
    """Thread-seconds of a further run that the runs allow: over exponents, coefficients and its own scatter."""
    of = random.choice(len(fits), _DRAWS, p=[f.weight for f in fits])
    found = np.empty(_DRAWS)
    for k in np.unique(of):
        f, here = fits[k], of == k
        size = int(here.sum())
        free = len(f.coefficients)
        spread = random.standard_normal((size, free)) @ f.factor.T
        t = spread / np.sqrt(random.chisquare(f.df, size) / f.df)[:, None]
        terms = np.array([1.0, _term(np.array([threads]), f.i, f.j)[0]])[:free]
        mean = np.maximum(0, f.coefficients + t) @ terms
        found[here] = np.maximum(0, mean * (1 + f.scatter * random.standard_normal(size)))
    return found


def _interval(expected: float | Floats, draws: Floats) -> tuple[float, float, float]:
    lo, hi = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(expected), float(min(lo, expected)), float(max(hi, expected))
