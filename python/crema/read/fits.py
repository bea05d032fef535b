"""Models of scaling, fitted to a handful of runs: Amdahl, Gustafson, Karp-Flatt, POP efficiencies. `usl` has the universal scalability law.

Pure: arrays in, estimates with intervals out. Every interval is two-sided at 95 % with Student's t for the degrees of freedom that are
left, except where a parameter lies on its bound: there the upper bound is one-sided.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

LEVEL = 0.95
SAME = 0.05  # numbers of threads that differ by no more, as a share, are repeats of one
Floats = NDArray[np.float64]


class FitError(ValueError):
    """The data do not allow the fit; the message says what is missing."""


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A parameter; unknown values are NaN."""

    value: float
    se: float = math.nan  # standard error
    lo: float = math.nan  # Wald, 95 %
    hi: float = math.nan
    profile_lo: float = math.nan  # profile, 95 %
    profile_hi: float = math.nan
    at_bound: bool = False  # 0 by the active set: `hi` and `profile_hi` are one-sided


@dataclasses.dataclass(frozen=True)
class Amdahl:
    """T = Ts + Tp / N of a strong series."""

    serial_s: float  # Ts
    parallel_s: float  # Tp
    serial_fraction: Estimate  # s = Ts / (Ts + Tp)
    rss: float  # s^2
    n: int

    def wall_s(self, threads: ArrayLike) -> Floats:
        """Seconds on this many threads."""
        return self.serial_s + self.parallel_s / np.asarray(threads, float)

    def speedup(self, threads: ArrayLike) -> Floats:
        """1 / (s + (1 - s) / N)."""
        s = self.serial_fraction.value
        return 1 / (s + (1 - s) / np.asarray(threads, float))


@dataclasses.dataclass(frozen=True)
class Gustafson:
    """S' = N + (1 - N) s' of a weak series."""

    serial_fraction: Estimate  # s'
    rss: float
    n: int

    def speedup(self, threads: ArrayLike) -> Floats:
        """Scaled speedup on this many threads."""
        return gustafson_speedup(self.serial_fraction.value, threads)


@dataclasses.dataclass(frozen=True)
class Pop:
    """POP efficiencies of one run of a strong series, against the first one."""

    threads: float
    load_balance: float  # mean / max useful seconds
    communication: float  # max useful seconds / wall
    parallel: float  # their product
    computation: float  # useful seconds of the reference / of this run
    overall: float  # parallel x computation
    speedup: float  # overall N / (overall N) of the reference


# ---------------------------------------------------------------- closed forms


def karp_flatt(speedup: ArrayLike, threads: ArrayLike) -> Floats:
    """Experimentally determined serial fraction.

    Parameters
    ----------
    speedup : array_like
        T_1 / T_N; or against a reference on more threads, with `threads` divided by its threads.
    threads : array_like
        N, of the same shape.

    Returns
    -------
    ndarray
        (1/S - 1/N) / (1 - 1/N); NaN where N is 1. Rising with N: overhead; constant: serial work; above 1: slower than the reference.
    """
    s, n = np.asarray(speedup, float), np.asarray(threads, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(n == 1, np.nan, (1 / s - 1 / n) / (1 - 1 / n))


def gustafson_speedup(serial_fraction: float, threads: ArrayLike) -> Floats:
    """N + (1 - N) s'."""
    n = np.asarray(threads, float)
    return n + (1 - n) * serial_fraction


def pop(
    threads: ArrayLike, load_balance: ArrayLike, communication: ArrayLike, useful_s: ArrayLike
) -> list[Pop]:
    """POP efficiencies of a strong series, the first run being the reference.

    Parameters
    ----------
    threads, load_balance, communication, useful_s : (n,) array_like
        N; mean / max useful seconds of a thread; max useful seconds / wall; useful seconds of all threads together.

    Returns
    -------
    list of Pop
    """
    n, balance, comm, useful = (
        np.asarray(values, float) for values in (threads, load_balance, communication, useful_s)
    )
    parallel = balance * comm
    computation = useful[:1] / useful
    overall = parallel * computation
    speedup = overall * n / (overall[:1] * n[:1])
    columns = (n, balance, comm, parallel, computation, overall, speedup)
    return [Pop(*map(float, row)) for row in zip(*columns, strict=True)]


# ---------------------------------------------------------------- fits


def levels(threads: Floats) -> Floats:
    """Threads of repeats, which are averages over time, as one number: those within 5 % of each other are a level, at their mean."""
    found = np.empty_like(threads)
    rest = np.ones(len(threads), bool)
    while rest.any():
        fewest = threads[rest].min()
        same = rest & (threads <= (1 + SAME) * fewest)
        mean = threads[same].mean()
        found[same] = round(mean) if abs(mean - round(mean)) < SAME * mean else mean
        rest &= ~same
    return found


def different(threads: Floats) -> int:
    """How many numbers of threads these are: time averages that round to the same number are one."""
    return len(np.unique(np.maximum(np.round(threads), 1)))


def amdahl(threads: ArrayLike, wall_s: ArrayLike) -> Amdahl:
    """Ordinary least squares of T = Ts + Tp / N, neither below 0.

    Parameters
    ----------
    threads, wall_s : (n,) array_like
        Every run, repeats too.

    Raises
    ------
    FitError
        Fewer than three different thread counts: two points lie on every such curve.
    """
    from scipy import optimize

    n, t = pairs(threads, wall_s)
    matrix = np.column_stack([np.ones_like(n), 1 / n])
    if different(n) < 3:
        raise FitError(
            f"Amdahl's law needs runs on at least 3 different numbers of threads; there are {different(n)}"
        )
    (serial, parallel), norm = optimize.nnls(matrix, t)
    rss, total = float(norm**2), serial + parallel
    fraction = serial / total
    df = len(t) - 2
    covariance = rss / df * np.linalg.inv(matrix.T @ matrix)
    gradient = np.array([parallel, -serial]) / total**2
    se = math.sqrt(gradient @ covariance @ gradient)
    return Amdahl(serial, parallel, wald(fraction, se, df, at_bound=serial == 0), rss, len(t))


def gustafson(threads: ArrayLike, speedup: ArrayLike) -> Gustafson:
    """Least squares of S' = N + (1 - N) s', s' not below 0.

    Parameters
    ----------
    threads : (n,) array_like
        N, the reference's being 1.
    speedup : (n,) array_like
        Work done in the time in which the reference does 1: N T_1 / T_N.

    Raises
    ------
    FitError
        Fewer than two numbers of threads besides the reference's: one point lies on every such line.
    """
    n, s = pairs(threads, speedup)
    other = np.abs(n - 1) > SAME
    x, y = (1 - n)[other], (s - n)[other]
    others = len(np.unique(levels(n[other])))  # multiples of the reference: 1.5 and 2 are two
    if others < 2:
        raise FitError(
            f"Gustafson's law needs runs on at least 2 numbers of threads besides the reference's; there are {others}"
        )
    free = float(x @ y / (x @ x))
    value = max(0.0, free)
    residuals = y - value * x
    rss, df = float(residuals @ residuals), len(y) - 1
    se = math.sqrt(rss / df / (x @ x))
    return Gustafson(wald(value, se, df, at_bound=free < 0), rss, len(y))


def wald(value: float, se: float, df: int, *, at_bound: bool = False) -> Estimate:
    """Estimate with its 95 % interval; at the bound 0 the upper one is one-sided."""
    from scipy import stats

    if at_bound:
        hi = value + stats.t.ppf(LEVEL, df) * se
        return Estimate(value, se, 0.0, float(hi), at_bound=True)
    reach = float(stats.t.ppf(0.5 + LEVEL / 2, df) * se)
    return Estimate(value, se, value - reach, value + reach)


def pairs(threads: ArrayLike, values: ArrayLike) -> tuple[Floats, Floats]:
    """Both as arrays, without unknown values."""
    n, v = np.asarray(threads, float), np.asarray(values, float)
    if n.shape != v.shape or n.ndim != 1:
        raise FitError(f"{n.shape} numbers of threads and {v.shape} values")
    known = np.isfinite(n) & np.isfinite(v) & (n > 0)
    return n[known], v[known]
