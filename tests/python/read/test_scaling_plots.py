"""Pictures of a series, held against the numbers that they show."""

from __future__ import annotations

import math
import re

import matplotlib.pyplot as plt
import numpy as np
import pytest
from click.testing import CliRunner

from crema.read.command import main
from crema.read.html import write_scaling
from crema.read.plots import REGISTRY
from crema.read.series import Point, Series, _compare

PLOTS = [name for name, entry in REGISTRY.items() if entry.across]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def series(threads, wall_s, verdict="COMPLETE", events=1000.0):
    points = [
        Point(
            file=f"{k}.h5",
            run_id=str(k),
            verdict=verdict,
            workers=n,
            threads=float(n),
            wall_s=t,
            events=events,
            throughput_hz=events / t,
            steady_hz=math.nan,
            core_occupancy=0.9,
            cpu_efficiency=0.8,
            useful_s=80.0,
            load_balance=0.95,
            communication=0.9,
            capacity_s=n * t,
            parts={"process CPU": 80.0, "idle tail": 0.5 * n},
        )
        for k, (n, t) in enumerate(zip(threads, wall_s, strict=True))
    ]
    _compare(points, weak=False)
    return Series("strong", points, [])


@pytest.fixture(scope="module")
def fifteen():
    n = np.repeat([1, 2, 4, 8, 16], 3)
    scatter = 1 + 0.01 * np.random.default_rng(2).standard_normal(len(n))
    return series(n, (10 + 90 / n) * scatter)


def test_runs_and_law_are_where_their_numbers_are(fifteen):
    ax = fifteen.plot.scaling_throughput()
    runs, ideal, law = ax.lines[:3]
    assert runs.get_ydata() == pytest.approx(1000 / fifteen.column("wall_s"))
    assert ideal.get_ydata()[-1] == pytest.approx(16 * ideal.get_ydata()[0])
    assert law.get_ydata() == pytest.approx(fifteen.usl.throughput(law.get_xdata()))
    assert ax.get_ylabel() == "events per second [1/s]"
    assert fifteen.plot.scaling_efficiency().lines[0].get_ydata()[:3].mean() == pytest.approx(
        100, rel=0.01
    )
    assert np.nanmean(fifteen.plot.karp_flatt().lines[0].get_ydata()) == pytest.approx(0.1, rel=0.1)


def test_models_of_the_parts_reach_ten_times_the_largest_run(fifteen):
    ax = fifteen.plot.budget_models()
    lines = {line.get_label(): line for line in ax.lines}
    assert lines["idle tail"].get_xdata()[-1] == pytest.approx(160)
    assert lines["idle tail"].get_ydata()[-1] == pytest.approx(80, rel=0.01)


def test_pictures_that_cannot_be_say_why_and_partial_runs_are_marked():
    two = series([1, 2], [10.0, 6.0], verdict="PARTIAL")
    text = " ".join(t.get_text() for t in two.plot.budget_models().texts)
    assert "at least 5 numbers of threads" in text
    legend = two.plot.scaling_throughput().get_legend().get_texts()
    assert any("no law" in t.get_text() for t in legend)
    assert any("2 runs are not COMPLETE" in t.get_text() for t in legend)
    assert (
        "all runs have the threads"
        in series([2, 2], [5.0, 5.0]).plot.karp_flatt().texts[0].get_text()
    )
    with pytest.raises(AttributeError, match="there is no plot 'x'; there are budget_models"):
        two.plot.x()


@pytest.mark.parametrize("name", PLOTS)
def test_each_draws_where_it_is_told_and_asks_a_question(fifteen, name):
    _, ax = plt.subplots()
    assert getattr(fifteen.plot, name)(ax) is ax
    assert ax.get_title(loc="left").endswith("?")
    assert name in dir(fifteen.plot)


# ---------------------------------------------------------------- the page


def test_the_page_says_what_limits_and_has_every_picture(fifteen, tmp_path):
    page = write_scaling(fifteen, tmp_path / "scaling.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in page
    assert set(re.findall(r'<figure data-name="(\w+)"', page)) == set(PLOTS)
    assert "On 160 threads a run would take" in page
    assert "Amdahl: " in page
    assert "Universal scalability law: " in page
    assert page.count("<td class=text>") >= 15
    assert "process CPU" in page


def test_the_page_of_few_runs_says_why_nothing_is_extrapolated(tmp_path):
    few = series([1, 2], [100, 60], verdict="PARTIAL")
    few.points[0].file = "<script>alert(1)</script>.h5"
    page = write_scaling(few, tmp_path / "scaling.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "Nothing is predicted beyond the largest run" in page
    assert page.count("records are missing from") == 2
    with pytest.raises(FileNotFoundError, match="there is no directory"):
        write_scaling(few, tmp_path / "nowhere" / "scaling.html")


def test_the_command_makes_it_of_files(measured, tmp_path):
    page = tmp_path / "page.html"
    said = CliRunner().invoke(main, ["report", "--scaling", str(measured.path), "-o", str(page)])
    assert said.exit_code == 0, said.output
    assert "How far does it scale?" in page.read_text(encoding="utf-8")
