"""Stacks for other programs: they add up to the looks, and keep to the rules of their formats."""

from __future__ import annotations

import collections
import gzip
import json
import re
import shutil

import h5py
import pytest
from click.testing import CliRunner

import crema
from crema.read import _errors, export
from crema.read.code import stack_formats, trace_chunks
from crema.read.code.looks import Looks
from crema.read.command import main
from looked_runs import Look, write_looks
from synthetic_runs import make_run

CODE = "/home/user/analysis/dijets.py"
LOOKS = [
    Look(3.0000004, "cpu", (f"{CODE}:57:Dijets.process:user", "awkward/sum.py:5:sum:library")),
    Look(1.0000004, "gil", (f"{CODE}:57:Dijets.process:user",), worker=1),
    Look(2.0000004, "service", (f"{CODE}:61:a;b:user", "socket.py:1:recv:standard"), dataset=1),
    Look(0.5000004, "input", ("uproot/reading.py:3:open:library",), "opening"),
    Look(0.2500004, "unknown"),
]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_looks(make_run(tmp_path_factory.mktemp("toy"), "toy"), LOOKS)


def seconds_of(path):
    with crema.open(path) as run:
        return Looks(run).seconds


def must_be_speedscope(content):
    """What https://www.speedscope.app/file-format-schema.json requires of a file with sampled profiles."""
    assert content["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = content["shared"]["frames"]
    for frame in frames:
        assert isinstance(frame["name"], str) and frame["name"]
        assert set(frame) <= {"name", "file", "line", "col"}
        assert isinstance(frame.get("file", ""), str) and isinstance(frame.get("line", 1), int)
    assert 0 <= content["activeProfileIndex"] < len(content["profiles"])
    for profile in content["profiles"]:
        assert profile["type"] == "sampled" and isinstance(profile["name"], str)
        units = {"none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"}
        assert profile["unit"] in units
        assert len(profile["samples"]) == len(profile["weights"])
        assert all(0 <= i < len(frames) for sample in profile["samples"] for i in sample)
        assert all(weight >= 0 for weight in profile["weights"])
        assert profile["endValue"] - profile["startValue"] == pytest.approx(sum(profile["weights"]))


def test_speedscope_gets_every_second_with_its_stack(path, tmp_path):
    with crema.open(path) as run:
        n = stack_formats.speedscope(run, tmp_path / "a.json")
    content = json.loads((tmp_path / "a.json").read_text())
    must_be_speedscope(content)
    [profile] = content["profiles"]
    assert len(profile["samples"]) == n == len(LOOKS)
    assert sum(profile["weights"]) == pytest.approx(seconds_of(path))
    frames = content["shared"]["frames"]
    stacks = {
        tuple(frames[i]["name"] for i in sample): weight
        for sample, weight in zip(profile["samples"], profile["weights"], strict=True)
    }
    assert stacks["process()", "Dijets.process", "sum", "[cpu]"] == pytest.approx(3)
    assert stacks["opening", "open", "[input]"] == pytest.approx(0.5)
    assert {"name": "Dijets.process", "file": CODE, "line": 57} in frames


def test_folded_stacks_add_up_and_each_is_a_line(path, tmp_path):
    with crema.open(path) as run:
        n = stack_formats.collapsed(run, tmp_path / "a.folded")
    lines = (tmp_path / "a.folded").read_text().splitlines()
    assert len(lines) == n == len(LOOKS)
    found = collections.Counter()
    for line in lines:
        stack, count = re.fullmatch(r"(.*) (\d+)", line).groups()
        found[tuple(stack.split(";"))] += int(count)
    assert sum(found.values()) == round(1e6 * seconds_of(path))
    own = "Dijets.process (dijets.py:57)"
    assert found["process()", own, "sum (awkward/sum.py:5)", "[cpu]"] == pytest.approx(3e6, abs=1)
    assert found["process()", "[unknown]"] == pytest.approx(0.25e6, abs=1)
    assert any(stack[1] == "a:b (dijets.py:61)" for stack in found)


def test_stacks_are_exported_by_the_command(path, tmp_path, monkeypatch):
    monkeypatch.setattr(_errors, "CHECKED_BYTES", 0)  # it is changed after it was sealed
    for kind in ("speedscope", "collapsed"):
        out = tmp_path / f"{kind}.gz"
        arguments = ["export", str(path), "--to", kind, "-o", str(out)]
        ran = CliRunner().invoke(main, arguments, catch_exceptions=False)
        assert (ran.exit_code, ran.output.strip()) == (0, str(out))
        text = gzip.decompress(out.read_bytes()).decode()
        if kind == "speedscope":
            must_be_speedscope(json.loads(text))
        else:
            assert text.count("\n") == len(LOOKS)
    ran = CliRunner().invoke(main, [*arguments, "--table", "looks"])
    assert ran.exit_code == 2


def test_a_trace_has_sections_within_process_within_tasks(measured, tmp_path, monkeypatch):
    with crema.open(measured.path) as run:
        export.trace(run, tmp_path / "all.json")
        n_chunks, n_sections = len(run.chunks), len(run.sections)
        seconds = run.sections.wall_s.sum() + (run.chunks.wall_s + run.chunks.open_s).sum()
        monkeypatch.setattr(trace_chunks, "EVENTS_MAX", 3)
        export.trace(run, tmp_path / "some.json")
        assert trace_chunks.left_out(run)["chunks"] == n_chunks - 3
    whole, some = (json.loads((tmp_path / f"{n}.json").read_text()) for n in ("all", "some"))
    of = collections.defaultdict(list)
    for event in whole["traceEvents"]:
        if event["ph"] == "X":
            of[event["cat"] if event["cat"] in ("chunk", "section") else "task"].append(event)
    assert len(of["section"]) == n_sections
    assert sum(event["name"] == "process()" for event in of["chunk"]) == n_chunks
    inside_us = sum(event["dur"] for event in of["chunk"] + of["section"])
    assert inside_us == pytest.approx(1e6 * seconds, rel=1e-3)
    for inner, outer in (("section", "chunk"), ("chunk", "task")):
        for event in of[inner]:
            assert any(within(event, other) for other in of[outer]), event
    assert f"{n_chunks - 3:,} of the chunks" in some["otherData"]["left_out"]


def within(event, other, slack_us=500):
    """On one thread, and in its time; clocks of Dask and of the kernel are read one after the other."""
    if (event["pid"], event["tid"]) != (other["pid"], other["tid"]):
        return False
    end, other_end = event["ts"] + event["dur"], other["ts"] + other["dur"]
    return event["ts"] >= other["ts"] - slack_us and end <= other_end + slack_us


def test_transfers_of_one_worker_that_overlap_have_lanes_of_their_own(measured, tmp_path):
    """What is on one thread of a trace must nest, or it is dropped; three that cross need three lanes, and the first is used again."""
    path = shutil.copy(measured.path, tmp_path / "a.h5")
    times_ms = [(10, 30), (20, 40), (25, 26), (30, 50), (60, 61)]
    with h5py.File(path, "r+") as file:
        tasks = file["task_events"]
        rows = tasks[: len(times_ms)]
        action = h5py.check_enum_dtype(rows.dtype["action"])["transfer"]
        for row, (start, stop) in zip(rows, times_ms, strict=True):
            at = 2 * 10**18  # after all others
            row["t_start_ns"], row["t_stop_ns"] = at + start * 10**6, at + stop * 10**6
            row["thread"], row["action"], row["worker_id"] = 0xFFFF, action, 0
        tasks[: len(times_ms)] = rows
    with crema.open(path) as run:
        export.trace(run, tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    moved = [e for e in events if e["ph"] == "X" and e["name"].startswith("transfer ")]
    moved = sorted(moved, key=lambda event: event["ts"])[-len(times_ms) :]
    lanes = [event["tid"] for event in moved]
    assert lanes == ["transfer", "transfer 2", "transfer 3", "transfer", "transfer"]
