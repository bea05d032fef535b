"""Laws of scaling against published results, and models of the parts of a budget against truths that are known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from crema.read import fits, parts
from crema.read.usl import usl

# SPEC SDM91: Gunther, Guerrilla Capacity Planning (2007); the data of the package usl of CRAN.
SPEC_N = [1, 18, 36, 72, 108, 144, 216]
SPEC_X = [64.9, 995.9, 1652.4, 1853.2, 1828.9, 1775.0, 1702.2]

# NAG's pypop, example EPOCH MPI, microseconds.
EPOCH = """
1  21898659.14 21882362.82 21882362.82 1       .999256 .999256 1       .999256 1
2  11528373.56 11484151.34 22913392.37 .997609 .996164 .993783 .955003 .949065 1.899545
4  6082352.21  5999910.80  23684668.07 .986876 .986446 .973500 .923904 .899420 3.600360
8  3513565.33  3421581.67  26902030.73 .982807 .973820 .957077 .813409 .778496 6.232603
16 2339560.72  2242981.13  35617915.65 .992483 .958719 .951512 .614364 .584575 9.360158
"""


def printed(value: str) -> object:
    """As it is printed: half a unit of the last digit."""
    digits = len(value.partition(".")[2].partition("e")[0])
    exponent = int(value.partition("e")[2] or 0)
    return pytest.approx(float(value), abs=0.5000001 * 10.0 ** (exponent - digits))


@pytest.fixture(scope="module")
def spec():
    return usl(SPEC_N, SPEC_X)


def test_spec_sdm91_has_its_published_parameters(spec):
    assert (spec.alpha.value, spec.alpha.se) == (printed("0.0277285"), printed("0.0091217"))
    # CRAN's iterations end a little before the minimum: 1.04366e-4 (1.98767e-5), and a peak at 96.5194 where the minimum has 96.5196.
    assert (spec.beta.value, spec.beta.se) == (
        pytest.approx(1.04366e-4, rel=1e-5),
        pytest.approx(1.98767e-5, rel=1e-4),
    )
    assert (spec.gamma.value, spec.gamma.se) == (printed("89.9952"), printed("14.2135"))
    assert spec.start == (printed("0.0244483"), printed("8.10366e-5"), printed("78.3104"))
    assert (spec.rss, spec.residual_se, spec.df) == (printed("27453.72"), printed("82.8458"), 4)


def test_spec_sdm91_needs_coherency_and_has_a_peak(spec):
    assert spec.amdahl_rss == printed("131265.39")
    assert (spec.f_test.df1, spec.f_test.df2) == (1, 4)
    assert (spec.f_test.f, spec.f_test.p) == (printed("15.125"), printed("0.0177"))
    assert spec.has_peak
    assert (spec.n_max, spec.x_max) == (pytest.approx(96.5194, abs=2e-4), printed("1883.90"))
    assert (spec.limit, spec.n_opt) == (printed("3245.59"), pytest.approx(36.0641, abs=1e-4))
    assert spec.throughput(spec.n_opt) == printed("1542.40")


def test_spec_sdm91_has_its_published_intervals(spec):
    assert (spec.alpha.lo, spec.alpha.hi) == (printed("0.00240"), printed("0.05305"))
    assert (spec.alpha.profile_lo, spec.alpha.profile_hi) == (
        printed("0.00948"),
        printed("0.06410"),
    )


def test_gunthers_synthetic_data_give_back_their_parameters():
    fit = usl([1, 2, 4, 6, 8, 10], [1, 1.8868, 3.0769, 3.5294, 3.5398, 3.3557])
    assert [fit.alpha.value, fit.beta.value, fit.gamma.value] == pytest.approx(
        [0.02, 0.02, 1], abs=1e-4
    )
    assert (fit.n_max, fit.x_max) == (pytest.approx(7, abs=1e-4), printed("3.5714"))


def test_coherency_that_is_not_there_is_zero_with_an_upper_bound():
    n = np.repeat([1, 2, 4, 8, 16, 32], 3)
    random = np.random.default_rng(1)
    x = 10 * n / (1 + 0.05 * (n - 1)) * (1 + 0.01 * random.standard_normal(len(n)))
    x[n == 32] *= 1.02  # bends upwards: the free fit has a negative beta
    fit = usl(n, x)
    assert fit.beta.value == 0
    assert fit.beta.at_bound
    assert 0 < fit.beta.profile_hi < 1e-3
    assert fit.f_test is None
    assert not fit.has_peak
    assert math.isnan(fit.n_max)
    assert fit.alpha.value == pytest.approx(0.05, rel=0.1)
    assert fit.rss == pytest.approx(fit.amdahl_rss)


def test_perfect_scaling_has_neither_contention_nor_coherency():
    n = np.array([1.0, 2, 4, 8, 16])
    fit = usl(n, 7 * n * (1 + 0.001 * n))  # better than linear
    assert (fit.alpha.value, fit.beta.value) == (0, 0)
    assert (fit.limit, fit.n_opt) == (math.inf, math.inf)


def test_a_peak_that_the_scatter_may_have_made_is_not_named():
    n = np.array([1, 2, 4, 8, 16, 32])
    x = 10 * n / (1 + 0.05 * (n - 1)) * np.array([1.2, 0.9, 1.1, 0.85, 1.1, 0.93])
    fit = usl(n, x)
    assert not fit.has_peak
    assert math.isnan(fit.x_max)


def test_too_few_numbers_of_threads_are_refused():
    with pytest.raises(fits.FitError, match="at least 4 different numbers of threads; there are 2"):
        usl([1, 1, 1, 2, 2], [1, 1, 1, 2, 2])
    for n in [2, 2], [1, 4], [1, 3.9999999999999982, 4.000000000000001], [1, 1, 4, 4]:
        with pytest.raises(
            fits.FitError, match=f"at least 3 .*; there are {len({round(i) for i in n})}"
        ):
            fits.amdahl(n, [1.0] * len(n))
    below, above = 0.9999999999999996, 1.0000000000000002
    for n in [1, 2, 2.00001], [1, 1.96, 2.04], [below, above, 2], [0.98, 1.02, 2]:
        with pytest.raises(fits.FitError, match=r"at least 2 .* besides the .*; there are 1"):
            fits.gustafson(n, [1, 1.8, 1.8])
    assert usl([1, 2, 4, 8], [1, 1.9, 3.4, 5.1]).warnings


def test_amdahl_gustafson_and_karp_flatt_agree_on_the_check_of_the_formulas():
    fit = fits.amdahl([1, 2, 4], [100, 60, 40])
    assert fit.serial_fraction.value == pytest.approx(0.2)
    assert fit.speedup(4) == pytest.approx(2.5)
    assert fits.karp_flatt(2.5, 4) == pytest.approx(0.2)
    assert fits.gustafson_speedup(0.2, 4) == pytest.approx(3.4)
    assert fits.gustafson([1, 2, 4], [1, 1.8, 3.4]).serial_fraction.value == pytest.approx(0.2)
    assert math.isnan(fits.karp_flatt(1, 1))


def test_amdahls_intervals_hold_the_truth_as_often_as_they_say():
    random, held = np.random.default_rng(3), 0
    n = np.repeat([1, 2, 4, 8], 3)
    for _ in range(300):
        fit = fits.amdahl(n, 10 + 90 / n + random.standard_normal(len(n)))
        held += fit.serial_fraction.lo <= 0.1 <= fit.serial_fraction.hi
    assert held >= 0.92 * 300


def test_serial_part_that_is_not_there_is_zero_and_not_less():
    fit = fits.amdahl([1, 2, 4, 8], [100, 49, 24, 11])
    assert fit.serial_s == 0
    assert fit.serial_fraction.at_bound
    assert fit.serial_fraction.lo == 0 < fit.serial_fraction.hi


def test_epoch_has_pops_efficiencies():
    rows = [line.split() for line in EPOCH.strip().splitlines()]
    n, wall, most, total = np.array([row[:4] for row in rows], float).T
    found = fits.pop(n, total / n / most, most / wall, total)
    for row, pop in zip(rows, found, strict=True):
        values = [pop.load_balance, pop.communication, pop.parallel]
        values += [pop.computation, pop.overall, pop.speedup]
        assert values == pytest.approx([float(cell) for cell in row[4:]], abs=1e-6)
        assert pop.speedup == pytest.approx(wall[0] / wall[int(np.log2(pop.threads))])


# ---------------------------------------------------------------- parts of the budget

THREADS = np.repeat([1, 2, 4, 8, 16], 3).astype(float)


def noisy(truth, random, noise):
    return truth(THREADS) * (1 + noise * random.standard_normal(len(THREADS)))


def test_the_parts_growth_is_named_and_predicted():
    random = np.random.default_rng(5)
    truths = {
        "process CPU": lambda p: 100 + 0 * p,
        "idle tail": lambda p: 0.5 * p,
        "scheduler latency": lambda p: 0.2 * p * np.log2(p),
    }
    model = parts.fit(THREADS, {name: noisy(f, random, 0.01) for name, f in truths.items()})
    named = {name: (part.i, part.j) for name, part in model.parts.items()}
    assert named == {"process CPU": (0, 0), "idle tail": (1, 0), "scheduler latency": (1, 1)}
    predicted = model.predict(160)
    for name, truth in truths.items():
        assert predicted.parts[name][0] == pytest.approx(float(truth(160.0)), rel=0.05)
    wall = sum(float(f(160.0)) for f in truths.values()) / 160
    assert predicted.wall_s == pytest.approx(wall, rel=0.05)
    assert predicted.wall_lo_s < wall < predicted.wall_hi_s
    assert predicted.limits == "scheduler latency"


def test_extra_p_finds_the_same_models():
    """Of what `parts.extrap` wrote of these very data, Extra-P 4.2.5 says c0 + c1 p^i log2(p)^j with these numbers."""
    truths = {
        "process CPU": lambda p: 100 + 0 * p,
        "idle tail": lambda p: 0.5 * p,
        "scheduler latency": lambda p: 0.2 * p * np.log2(p),
        "merge": lambda p: 3 + 0.02 * p**2,
        "start and end": lambda p: 2 + 0.5 * p**0.5,
    }
    random = np.random.default_rng(5)
    model = parts.fit(THREADS, {name: noisy(f, random, 0.01) for name, f in truths.items()})
    theirs = {
        "idle tail": (1, 0, 0.00261, 0.49781),
        "scheduler latency": (1, 1, 0.01114, 0.19818),
        "merge": (2, 0, 2.98444, 0.020437),
        "start and end": (0.5, 0, 2.01195, 0.496766),
    }
    for name, (i, j, c0, c1) in theirs.items():
        ours = model.parts[name]
        assert (ours.i, ours.j) == (i, j), name
        assert ours.c0 == pytest.approx(c0, rel=0.02, abs=0.02), name
        assert ours.c1 == pytest.approx(c1, rel=0.02), name


def test_transfers_are_in_no_sum():
    seconds = {"process CPU": np.full(15, 100.0), "transfers": np.full(15, 1e6)}
    assert parts.fit(THREADS, seconds).predict(10).wall_s == pytest.approx(10)


@pytest.mark.parametrize("between", [False, True])
def test_nine_intervals_in_ten_hold_the_truth_far_beyond_the_last_run(between):
    """Truths of exponents that have a name, and of any in between; three parts each, to 10 times the largest run."""
    random = np.random.default_rng(11 + between)
    named = [(i, j) for i, j in parts._exponents() if i <= 2]
    held, whole, n_truths = 0, 0, 60
    for _ in range(n_truths):
        truths = []
        for _ in range(3):
            i, j = named[random.integers(len(named))]
            i, j = (random.uniform(-0.5, 1.5), 0) if between else (i, j)
            if not between and random.random() < 0.3:
                i, j = 0.0, 0
            c0 = 10 ** random.uniform(-0.5, 1.5)
            c1 = c0 * 10 ** random.uniform(-2, 0.5) / parts._term(np.array(16.0), i, j)
            truths.append(lambda p, c0=c0, c1=c1, i=i, j=j: c0 + c1 * parts._term(p, i, j))
        noise = random.choice([0.01, 0.03, 0.08])
        model = parts.fit(THREADS, {str(k): noisy(f, random, noise) for k, f in enumerate(truths)})
        predicted, at = model.predict(160), np.array(160.0)
        for k, truth in enumerate(truths):
            _, lo, hi = predicted.parts[str(k)]
            held += lo <= truth(at) <= hi
        whole += predicted.wall_lo_s <= sum(f(at) for f in truths) / 160 <= predicted.wall_hi_s
    print(f"{held} of {3 * n_truths} parts, {whole} of {n_truths} walls")
    assert held >= 0.85 * 3 * n_truths
    assert whole >= 0.85 * n_truths


def test_too_few_runs_and_too_far_are_refused():
    seconds = {"process CPU": np.ones(12)}
    with pytest.raises(
        fits.FitError, match=r"at least 5 numbers of threads with 3 runs each; 4 of 4"
    ):
        parts.fit(THREADS[:12], seconds)
    with pytest.raises(fits.FitError, match="4 of 5"):
        parts.fit(THREADS[:14], {"process CPU": np.ones(14)})
    model = parts.fit(THREADS, {"process CPU": np.ones(15)})
    with pytest.raises(fits.FitError, match="the largest run has 16 threads"):
        model.predict(200)


def test_the_export_is_what_extra_p_reads():
    text = parts.extrap(parts.fit(THREADS, {"idle tail": np.arange(15.0)}))
    assert text.splitlines() == [
        "PARAMETER threads",
        "POINTS 1 2 4 8 16",
        "",
        "REGION idle_tail",
        "METRIC thread_seconds",
        "DATA 0 1 2",
        "DATA 3 4 5",
        "DATA 6 7 8",
        "DATA 9 10 11",
        "DATA 12 13 14",
    ]
