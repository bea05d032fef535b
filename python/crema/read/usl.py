"""The universal scalability law, X = gamma N / (1 + alpha (N - 1) + beta N (N - 1)), fitted to measured throughput.

Least squares on X over all runs. alpha and beta are kept from below 0 by an active set, never by clipping inside the iterations, which
can end at a wrong value: each set of parameters held at 0 is fitted freely, and the best fit without a negative parameter is taken.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, stats

from .fits import LEVEL, Estimate, FitError, Floats, pairs, wald
from .fits import different as fits_different

POINTS_MIN = 4
POINTS_FEW = 6
_NAMES = ("alpha", "beta", "gamma")
_HELD = ((), (1,), (0,), (0, 1))  # parameters at 0, tried in this order


@dataclasses.dataclass(frozen=True)
class FTest:
    """Whether the data need coherency: the universal law against Amdahl's."""

    f: float
    df1: int
    df2: int
    p: float


@dataclasses.dataclass(frozen=True)
class Usl:
    """The fit; throughput in the unit that was given."""

    alpha: Estimate  # contention
    beta: Estimate  # coherency
    gamma: Estimate  # throughput of one thread
    start: tuple[float, float, float]  # alpha, beta, gamma by ordinary least squares of N/X
    rss: float
    residual_se: float
    df: int
    amdahl_rss: float
    f_test: FTest | None  # None where beta is held at 0
    has_peak: bool  # beta's lower limits are above 0, and the F-test rejects Amdahl at 5 %
    n_max: float  # sqrt((1 - alpha) / beta); NaN without a peak
    x_max: float  # throughput there; NaN without a peak
    limit: float  # gamma / alpha, the most without coherency; inf if alpha is 0
    n_opt: float  # 1 / alpha; inf if alpha is 0
    warnings: tuple[str, ...]

    def throughput(self, threads: ArrayLike) -> Floats:
        """Of the fit, on so many threads."""
        parameters = np.array([self.alpha.value, self.beta.value, self.gamma.value])
        return _law(np.asarray(threads, float), parameters)


def usl(threads: ArrayLike, throughput: ArrayLike) -> Usl:
    """Fit the universal scalability law.

    Parameters
    ----------
    threads, throughput : (n,) array_like
        N and X of every run, repeats too.

    Returns
    -------
    Usl

    Raises
    ------
    FitError
        Fewer than four different numbers of threads, or data that no such curve fits.
    """
    n, x = pairs(threads, throughput)
    n, x = n[x > 0], x[x > 0]
    different = fits_different(n)
    if different < POINTS_MIN:
        raise FitError(
            f"the universal scalability law needs runs on at least {POINTS_MIN} different numbers of threads; there are {different}"
        )
    start = _linear_start(n, x)
    held, parameters, rss = _active_set(n, x, start)
    amdahl_rss = _amdahl(n, x, start)
    df = len(n) - (3 - len(held))
    alpha, beta, gamma = _estimates(n, x, held, parameters, rss, df)
    test = None if 1 in held else _f_test(amdahl_rss, rss, df)
    lower = min(beta.lo, beta.profile_lo)
    has_peak = test is not None and test.p < 1 - LEVEL and lower > 0 and alpha.value < 1
    n_max = math.sqrt((1 - alpha.value) / beta.value) if has_peak else math.nan
    few = f"only {different} different numbers of threads: the intervals are wide and depend on the model"
    return Usl(
        alpha=alpha,
        beta=beta,
        gamma=gamma,
        start=(float(start[0]), float(start[1]), float(start[2])),
        rss=rss,
        residual_se=math.sqrt(rss / df),
        df=df,
        amdahl_rss=amdahl_rss,
        f_test=test,
        has_peak=has_peak,
        n_max=n_max,
        x_max=float(_law(np.array(n_max), parameters)),
        limit=gamma.value / alpha.value if alpha.value > 0 else math.inf,
        n_opt=1 / alpha.value if alpha.value > 0 else math.inf,
        warnings=(few,) if different < POINTS_FEW else (),
    )


def _law(n: Floats, p: Floats) -> Floats:
    return p[2] * n / (1 + p[0] * (n - 1) + p[1] * n * (n - 1))


def _linear_start(n: Floats, x: Floats) -> Floats:
    """alpha, beta, gamma from N/X = (1-alpha)/gamma + (alpha-beta)/gamma N + beta/gamma N^2."""
    matrix = np.column_stack([np.ones_like(n), n, n**2])
    a, b, c = np.linalg.lstsq(matrix, n / x, rcond=None)[0]
    gamma = 1 / (a + b + c)
    return np.array([(b + c) * gamma, c * gamma, gamma])


def _fit(
    n: Floats, x: Floats, start: Floats, held: tuple[int, ...], at: dict[int, float] | None = None
) -> tuple[Floats, float]:
    """Least squares over the parameters that are not held (at 0, or where `at` says); all parameters, and the squares' sum."""
    fixed = dict.fromkeys(held, 0.0) | (at or {})
    free = [i for i in range(3) if i not in fixed]
    scale = np.array([0.01, 1e-4, max(abs(start[2]), float(np.max(x / n)))])

    def all_of(values: Floats) -> Floats:
        p = np.zeros(3)
        p[list(fixed)] = list(fixed.values())
        p[free] = values * scale[free]
        return p

    def residuals(values: Floats) -> Floats:
        denominator = all_of(values)
        d = 1 + denominator[0] * (n - 1) + denominator[1] * n * (n - 1)
        # A pole among the data is not a curve: it is kept away, smoothly.
        return denominator[2] * n / np.where(d > 1e-3, d, 1e-3 * np.exp(np.minimum(0, d))) - x

    first = np.where(np.isfinite(start), start, scale)
    first[2] = first[2] if first[2] > 0 else scale[2]
    weight = float(np.sqrt(x @ x))
    if not free:
        return all_of(np.empty(0)), float(np.sum(residuals(np.empty(0)) ** 2))
    result = optimize.least_squares(
        lambda v: residuals(v) / weight,
        first[free] / scale[free],
        xtol=1e-14,
        ftol=1e-14,
        gtol=1e-14,
        max_nfev=2000,
    )
    return all_of(result.x), float(2 * result.cost * weight**2)


def _active_set(n: Floats, x: Floats, start: Floats) -> tuple[tuple[int, ...], Floats, float]:
    """Which parameters are held at 0, the parameters, and the sum of squares."""
    found = []
    for held in _HELD:
        parameters, rss = _fit(n, x, start, held)
        if (parameters[:2] >= 0).all() and parameters[2] > 0:
            if not held:
                return held, parameters, rss
            found.append((rss, held, parameters))
    if not found:
        raise FitError("no curve of the universal scalability law fits these runs")
    rss, held, parameters = min(found, key=lambda fit: fit[0])
    return held, parameters, rss


def _amdahl(n: Floats, x: Floats, start: Floats) -> float:
    """Sum of squares without coherency, contention not below 0."""
    parameters, rss = _fit(n, x, start, (1,))
    return rss if parameters[0] >= 0 else _fit(n, x, start, (0, 1))[1]


def _f_test(amdahl_rss: float, rss: float, df: int) -> FTest:
    f = (amdahl_rss - rss) / (rss / df) if rss > 0 else math.inf
    return FTest(f, 1, df, float(stats.f.sf(f, 1, df)))


def _estimates(
    n: Floats, x: Floats, held: tuple[int, ...], parameters: Floats, rss: float, df: int
) -> list[Estimate]:
    """Each parameter with Wald's interval and the profile's."""
    jacobian = _jacobian(n, parameters)
    free = [i for i in range(3) if i not in held]
    covariance = np.linalg.pinv(jacobian[:, free].T @ jacobian[:, free]) * (rss / df)
    errors = dict(zip(free, np.sqrt(np.diag(covariance)), strict=True))
    found = []
    for i in range(3):
        if i in held:  # its own column back in, for the error of staying there
            columns = sorted([*free, i])
            wide = np.linalg.pinv(jacobian[:, columns].T @ jacobian[:, columns]) * (rss / df)
            estimate = wald(
                0.0, math.sqrt(wide[columns.index(i), columns.index(i)]), df, at_bound=True
            )
        else:
            estimate = wald(float(parameters[i]), float(errors[i]), df)
        lo, hi = _profile(n, x, held, parameters, rss, df, i, estimate)
        found.append(dataclasses.replace(estimate, profile_lo=lo, profile_hi=hi))
    return found


def _jacobian(n: Floats, p: Floats) -> Floats:
    d = 1 + p[0] * (n - 1) + p[1] * n * (n - 1)
    return np.column_stack([-p[2] * n * (n - 1) / d**2, -p[2] * n**2 * (n - 1) / d**2, n / d])


def _profile(
    n: Floats,
    x: Floats,
    held: tuple[int, ...],
    best: Floats,
    rss: float,
    df: int,
    i: int,
    of: Estimate,
) -> tuple[float, float]:
    """Where the best fit with parameter `i` held elsewhere is worse by what Student's t allows; NaN where it never is."""
    one_sided = of.at_bound
    t = stats.t.ppf(LEVEL if one_sided else 0.5 + LEVEL / 2, df)
    allowed = rss * (1 + t**2 / df)
    others = tuple(j for j in held if j != i)

    def excess(value: float) -> float:
        return _fit(n, x, best, others, {i: value})[1] - allowed

    step = of.se if of.se > 0 and math.isfinite(of.se) else abs(of.value) or 1e-6
    hi = _crossing(excess, of.value, step)
    lo = 0.0 if one_sided else _crossing(excess, of.value, -step)
    return lo, hi


def _crossing(excess, centre: float, step: float) -> float:
    """The first root of `excess` away from `centre`, in steps that double; NaN if there is none within reach."""
    near = centre
    for k in range(12):
        far = centre + step * 2.0**k
        if excess(far) > 0:
            return float(optimize.brentq(excess, near, far, xtol=1e-7 * abs(step)))
        near = far
    return math.nan
