"""Figures and page of the user's lines: every bar, frame and canvas adds up to the seconds of the looks."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess

import matplotlib.pyplot as plt
import pytest
from matplotlib.colors import to_hex

import crema
from crema.read.code.looks import Looks
from crema.read.html import tables
from crema.read.html.packed_looks import pack
from crema.read.html.page import document, flame
from crema.read.plots import code
from crema.read.plots._style import STATES
from looked_runs import Look, write_looks
from page_kit import HOSTILE, STUB, unpack
from synthetic_runs import make_run

CODE = "/home/user/analysis/dijets.py"
LOOKS = [
    Look(3.0, "cpu", (f"{CODE}:57:process:user", "awkward/sum.py:5:sum:library"), section=0),
    Look(1.0, "gil", (f"{CODE}:57:process:user",), worker=1, section=1),
    Look(2.0, "service", (f"{CODE}:61:process:user", "socket.py:1:recv:standard"), dataset=1),
    Look(0.5, "input", ("uproot/reading.py:3:open:library",), "opening"),
    Look(0.25, "unknown"),
]
MANY = [Look(1e-3 * i, "cpu", (f"{CODE}:{i}:f:user", f"{CODE}:{2 * i}:g:user")) for i in range(1, 60)]  # fmt: skip


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("toy"), "toy")


@pytest.fixture
def looked(toy, tmp_path):
    """Returns the open file of a run with these looks."""
    runs = []

    def with_looks(looks, source=""):
        path = write_looks(shutil.copy(toy, tmp_path), looks, source)
        runs.append(crema.open(path))
        return runs[-1]

    yield with_looks
    for run in runs:
        run.close()
    plt.close("all")


def bars(ax):
    """Length of each bar by its label, and of each colour."""
    names = [label.get_text() for label in ax.get_yticklabels()]
    lengths, colours = {}, {}
    for bar in ax.patches:
        name = names[round(bar.get_y() + bar.get_height() / 2)]
        lengths[name] = lengths.get(name, 0.0) + bar.get_width()
        colour = to_hex(bar.get_facecolor())
        colours[colour] = colours.get(colour, 0.0) + bar.get_width()
    return lengths, colours


@pytest.mark.parametrize("looks", [LOOKS, MANY])
def test_bars_of_lines_add_up_to_all_seconds(looked, looks):
    run = looked(looks)
    ax = run.plot.lines()
    lengths, colours = bars(ax)
    assert sum(lengths.values()) == pytest.approx(Looks(run).seconds)
    for state in {look.state for look in looks}:
        want = sum(look.seconds for look in looks if look.state == state)
        assert colours[STATES[state]] == pytest.approx(want)
    if looks is LOOKS:
        assert lengths["dijets.py:57"] == 4.0
    else:
        assert any(re.fullmatch(r"\d+ other lines", name) for name in lengths)


def test_bars_of_sections_add_up_to_process(looked):
    lengths, _ = bars(looked(LOOKS).plot.section_states())
    assert lengths == pytest.approx({"section 0": 3.0, "section 1": 1.0, "outside sections": 2.25})


@pytest.mark.parametrize("looks", [LOOKS, MANY])
def test_frames_of_the_icicle_lie_within_their_callers(looked, looks):
    run = looked(looks)
    nodes = Looks(run).tree()
    placed = {i: (left, wide) for i, left, wide in code.place(nodes)}
    assert placed[0] == (0.0, pytest.approx(Looks(run).seconds))
    assert len(placed) == len(nodes)
    for i, (left, wide) in placed.items():
        inner = sorted(placed[c] for c in range(1, len(nodes)) if nodes[c].parent == i)
        assert sum(w for _, w in inner) + nodes[i].own.sum() == pytest.approx(wide)
        for start, width in inner:
            assert left - 1e-9 <= start and start + width <= left + wide + 1e-9
        for (start, width), (after, _) in itertools.pairwise(inner):
            assert start + width == pytest.approx(after)


def test_the_icicle_is_of_process_unless_told_otherwise(looked):
    run = looked(LOOKS)
    for options, seconds in (({}, 6.25), ({"phase": "opening"}, 0.5), ({"state": "gil"}, 1.0)):
        ax = run.plot.flame(**options)
        assert ax.get_xlim() == pytest.approx((0, seconds))
        strips = [bar for bar in ax.patches if bar.get_height() < 0.5 and bar.get_y() < 1]
        assert sum(bar.get_width() for bar in strips) == pytest.approx(seconds)
    assert "no second" in run.plot.flame(state="sleep").crema_empty


def test_figures_without_looks_say_so(toy):
    with crema.open(toy) as run:
        for name in ("lines", "section_states", "flame"):
            assert "no looks in this file" in getattr(run.plot, name)().crema_empty
        assert pack(run) == ("", "")
    plt.close("all")


@pytest.mark.parametrize("limits", [{}, {"frames_max": 5}, {"rows_max": 20}])
@pytest.mark.parametrize("looks", [LOOKS, MANY])
def test_the_canvas_gets_all_seconds(looked, looks, limits):
    run = looked(looks)
    packed, left_out = pack(run, **limits)
    header, columns = unpack(packed)
    whole = Looks(run).seconds
    assert columns["took"].sum() * header["unit_s"] == pytest.approx(whole, rel=1e-6)
    for state in {look.state for look in looks}:
        of = columns["state"] == header["states"].index(state)
        want = sum(look.seconds for look in looks if look.state == state)
        assert columns["took"][of].sum() * header["unit_s"] == pytest.approx(want, rel=1e-6)
    if looks is MANY and limits:
        assert left_out.endswith(".")
        assert len(columns["parent"]) <= limits.get("frames_max", 1000)
    assert (columns["parent"][1:] < range(1, len(columns["parent"]))).all()


def test_the_page_shows_lines_with_their_text(looked):
    run = looked(LOOKS, json.dumps([[CODE, 57, "jets = events.Jet[events.Jet.pt > 30]"]]))
    table = tables.RENDER["lines"](run)
    assert "jets = events.Jet[events.Jet.pt &gt; 30]" in table
    assert table.index("dijets.py:57") < table.index("dijets.py:61") < table.index("(opening files)")  # fmt: skip


def test_names_of_frames_cannot_run_script(looked):
    hostile = HOSTILE.replace(":", "")
    looks = [Look(1.0, "cpu", (f"{hostile}:1:{hostile}:user",), place=hostile)]
    run = looked(looks, json.dumps([[hostile, 1, HOSTILE]]))
    text = document("t", tables.RENDER["lines"](run) + flame(run))
    assert text.count("<script") == 2
    assert "<img" not in text


@pytest.mark.skipif(shutil.which("node") is None, reason="node runs the script of the page")
def test_the_canvas_adds_up_after_each_choice(looked, tmp_path):
    """The script itself, without a browser."""
    page = tmp_path / "page.html"
    page.write_text(document("t", flame(looked(LOOKS))), encoding="utf-8")
    ran = subprocess.run(["node", STUB, page], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    said = json.loads(ran.stdout)
    want = {
        "all": "all, 6.75 s",
        "first phase": "process(), 6.25 s",
        "first frame": "process (dijets.py:57), 4 s, 59.3 % of what is chosen, 1 s in itself",
        "back": "all, 6.75 s",
        "phase opening": "all, 0.5 s",
        "state gil": "all, 1 s",
        "dataset dataset 1": "all, 2 s",
        "worker tcp://B": "all, 1 s",
    }
    for what, text in want.items():
        assert said[what].startswith(text), (what, said[what])
