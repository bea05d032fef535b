"""Seconds by line of the user's code: `crema hot`, and the sums behind it."""

from __future__ import annotations

import json
import shutil
import subprocess
import time

import h5py
import pytest
from click.testing import CliRunner
from coffea import processor

import crema
import hook_support as support
from crema import _demo_processor
from crema.hook import _kernel, _stacks
from crema.read import _errors
from crema.read.code.looks import Looks, NoLooksError
from crema.read.command import main
from looked_runs import Look, write_looks
from paths import program
from synthetic_runs import make_run

CODE = "/home/user/analysis/dijets.py"
HELPER = "/home/user/analysis/helpers.py"
PROCESS = f"{CODE}:57:Dijets.process:user"
SERVER = "127.0.0.2:8002"
LOOKS = (
    Look(3.0, "cpu", (PROCESS, "awkward/highlevel.py:5:sum:library"), n=60),
    Look(1.0, "gil", (PROCESS,), worker=1),
    Look(
        *(2.0, "service"),
        (f"{CODE}:61:Dijets.process:user", f"{HELPER}:3:infer:user", "socket.py:1:recv:standard"),
        section=0,
        place=SERVER,
    ),
    Look(0.5, "input", ("uproot/reading.py:3:open:library",), "opening", dataset=1),
    Look(0.25, "unknown"),
)


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("toy"), "toy")


@pytest.fixture
def path(toy, tmp_path, monkeypatch):
    monkeypatch.setattr(_errors, "CHECKED_BYTES", 0)  # it is changed after it was sealed
    return write_looks(
        shutil.copy(toy, tmp_path), LOOKS, json.dumps([[CODE, 57, "ak.sum(events.Jet.pt)"]])
    )


def lines_of(path, looks):
    with crema.open(write_looks(path, looks)) as run:
        return {line.name: line for line in Looks(run).lines()}


def hot(*arguments, code=0):
    ran = CliRunner().invoke(main, ["hot", *map(str, arguments)], catch_exceptions=False)
    assert ran.exit_code == code, ran.output
    return ran.output


def test_each_second_is_once_at_the_innermost_line_of_the_user(path):
    with crema.open(path) as run:
        looks = Looks(run)
        lines = {line.name: line for line in looks.lines()}
    assert {name: line.seconds for name, line in lines.items()} == {
        "dijets.py:57": 4.0,
        "helpers.py:3": 2.0,
        "(opening files)": 0.5,
        "(outside your code)": 0.25,
    }
    assert sum(line.seconds for line in lines.values()) == looks.seconds == 6.75
    hottest = lines["dijets.py:57"]
    assert hottest.states == {"cpu": 3.0, "gil": 1.0}
    assert (hottest.function, hottest.source) == ("Dijets.process", "ak.sum(events.Jet.pt)")
    assert hottest.lo_s < 4.0 < hottest.hi_s and hottest.share == pytest.approx(4 / 6.75)
    assert lines["helpers.py:3"].places == {SERVER: 2.0}


def test_lines_are_the_same_in_every_worker_that_keeps_an_uploaded_file(path):
    of = "/tmp/{}/dask-scratch-space/worker-{}/analysis.py:7:process:user"
    lines = lines_of(path, [Look(1.0, stack=(of.format(i, i),)) for i in range(3)])
    assert {name: line.seconds for name, line in lines.items()} == {"analysis.py:7": 3.0}


def test_files_of_one_name_are_told_apart_by_their_directories(path):
    stacks = [f"/a/{name}:7:f:user" for name in ("x/cuts.py", "y/cuts.py", "z.py")]
    lines = lines_of(path, [Look(1.0, stack=(stack,)) for stack in stacks])
    assert set(lines) == {"x/cuts.py:7", "y/cuts.py:7", "z.py:7"}


def test_an_installed_package_of_the_processor_is_the_users_code(path):
    with h5py.File(path, "r+") as file:
        file.attrs["processor_module"] = "topcoffea.modules.analysis"
    stack = ("topcoffea/modules/analysis.py:9:process:library", "awkward/x.py:1:sum:library")
    assert set(lines_of(path, [Look(1.0, stack=stack)])) == {"analysis.py:9"}


def test_stacks_that_are_no_tree_are_read_to_their_end(path):
    with h5py.File(path, "r+") as file:
        stacks = file["dict/stack"][:]
        stacks["parent_id"] = [1, 0, 7, 3, 4, 99]
        file["dict/stack"][:] = stacks
    with crema.open(path) as run:
        assert sum(line.seconds for line in Looks(run).lines()) == 6.75
        assert Looks(run).tree()[0].whole.sum() == 6.75


@pytest.mark.parametrize(
    ("wanted", "seconds"),
    [
        ({"state": ["gil", "service"]}, 3.0),
        ({"phase": ["opening"]}, 0.5),
        ({"worker": [1]}, 1.0),
        ({"dataset": [1]}, 0.5),
        ({"section": [0]}, 2.0),
        ({"state": ["cpu"], "worker": [1]}, 0.0),
    ],
)
def test_a_selection_has_its_seconds_only(path, wanted, seconds):
    with crema.open(path) as run:
        by_name = {
            what: [name if isinstance(name, str) else run.names(what)[name] for name in names]
            for what, names in wanted.items()
        }
        looks = Looks(run).select(**by_name)
        assert looks.seconds == seconds
        assert sum(line.seconds for line in looks.lines()) == seconds
        assert looks.tree()[0].whole.sum() == seconds
        assert sum(row[-1] for row in looks.by_stack()) == seconds


def test_hot_prints_one_row_per_line_the_hottest_first(path):
    head, *rows, last = hot(path).splitlines()
    assert head.split() == ["seconds", "share", "line", "states"]
    assert [row.split()[3] for row in rows[:2]] == ["dijets.py:57", "helpers.py:3"]
    assert "cpu 75 %, gil 25 %" in rows[0] and rows[0].endswith("ak.sum(events.Jet.pt)")
    assert f"service 100 % ({SERVER})" in rows[1]
    assert len(rows) == 4 and last.startswith("6.75 s")
    assert "3 more lines have 2.75 s" in hot(path, "-n", 1)


def test_hot_leaves_names_whole_in_a_narrow_terminal(path):
    from rich.console import Console

    from crema.read.report import hot_lines

    name = f"{'long_' * 18}.py"
    lines_of(path, [Look(1.0, stack=(f"/a/{name}:1234:f:user",)), *LOOKS])
    with crema.open(path) as run:
        rows = hot_lines(Looks(run).lines(), 80)
    assert any(f"{name}:1234" in row.plain for row in rows)
    with crema.open(write_looks(path, LOOKS)) as run:
        rows = hot_lines(Looks(run).lines(), 80)
    assert all(len(row.plain) <= 80 for row in rows)
    console = Console(width=80, record=True)
    for row in rows:
        console.print(row, soft_wrap=True)
    assert len(console.export_text().splitlines()) == len(rows)


def test_hot_as_json_adds_up(path):
    found = json.loads(hot(path, "--json", "--phase", "process"))
    assert found["seconds"] == sum(line["seconds"] for line in found["lines"]) == 6.25
    assert found["only"] == {"phase": ["process"]}
    assert found["lines"][0]["name"] == "dijets.py:57"
    for line in found["lines"]:
        assert sum(line["states"].values()) == pytest.approx(line["seconds"])


def test_hot_without_looks_says_so(toy):
    assert "no looks in this file" in hot(toy, code=1)
    with crema.open(toy) as run, pytest.raises(NoLooksError):
        Looks(run)


def test_hot_names_what_the_file_knows_instead(path):
    said = hot(path, "--state", "waiting", code=1)
    assert "there is no state 'waiting'; there are child, core, cpu" in said


def test_the_table_of_looks_is_read_like_any_other(path):
    with crema.open(path) as run:
        frame = run["looks"]
    assert frame.seconds.sum() == 6.75
    assert set(frame.state) == {"cpu", "gil", "service", "input", "unknown"}


class Slow(processor.ProcessorABC):
    """Two lines of known seconds."""

    def process(self, events):
        support.spin(0.15)
        time.sleep(0.5)  # many looks long, also where cores are scarce
        return {"n": len(events)}

    def postprocess(self, accumulator):
        return accumulator


@pytest.mark.skipif(bool(_kernel.why_not()), reason=_kernel.why_not() or "-")
def test_hot_names_the_lines_of_a_real_run(tmp_path):
    with crema.MetricsCollector(processor_instance=Slow(), output=tmp_path, quiet=True) as mc:
        run = processor.Runner(
            executor=processor.IterativeExecutor(status=False),
            schema=support.BaseSchema,
            chunksize=support.CHUNK,
        )
        run(support.make_files(tmp_path, 1), processor_instance=Slow())
    checked = subprocess.run([program("crema-sink"), "check", mc.path], capture_output=True)
    assert checked.returncode == 0, checked.stdout
    first = Slow.process.__code__.co_firstlineno
    with crema.open(mc.path) as run:
        lines = {line.name: line for line in Looks(run).lines()}
        n_chunks = len(run.file["chunks"])
    asleep = lines[f"test_hot.py:{first + 2}"]
    assert next(iter(asleep.states)) == "sleep"
    assert asleep.lo_s < 0.5 * n_chunks * 1.5 and asleep.hi_s > 0.5 * n_chunks
    assert "hook_support.py" in "".join(lines)  # the innermost line that computes is there


def test_the_demonstrations_processor_stands_for_a_users():
    assert _stacks.named(_demo_processor.__file__)[1] == _stacks.USER
    assert _stacks.named(_stacks.__file__)[1] == _stacks.CREMA
