"""Commands find the run that is meant: by path, label, last digits of its id, directory, or nothing."""

from __future__ import annotations

import os
import shutil
import sys

import h5py
import pytest
from click.testing import CliRunner

import crema
from crema.read import _errors
from crema.read.command import main

# name of the file -> label and id of its run, the one that was sealed first on top
RUNS = {
    "a.h5": ("dijets", "01a21b69-c48f-7000-8000-00000000abcd"),
    "b.h5": ("dijets", "01a21b6a-c48f-7000-8000-0000000012cd"),
    "c.h5": ("1234", "01a21b6b-c48f-7000-8000-00000000ef56"),
    "d.h5": ("wide/loose", "01a21b6c-c48f-7000-8000-000000001234"),
}


@pytest.fixture
def runs(measured, tmp_path, monkeypatch):
    """A directory of runs, which is the working directory."""
    monkeypatch.setattr(_errors, "CHECKED_BYTES", 0)  # label and id of the copies were changed
    monkeypatch.delenv("CREMA_RUNS", raising=False)
    for i, (name, (label, run_id)) in enumerate(RUNS.items()):
        with h5py.File(shutil.copy(measured.path, tmp_path / name), "a") as f:
            f.attrs.update(run_label=label, run_id=run_id)
        os.utime(tmp_path / name, (1000 + i, 1000 + i))
    (tmp_path / "notes.h5").write_text("no HDF5")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(*words, code=0):
    ran = CliRunner().invoke(main, [str(word) for word in words])
    assert ran.exit_code == code, ran.output
    return ran


def id_of(name):
    return RUNS[name][1]


@pytest.mark.parametrize(
    ("words", "found", "said"),
    [
        (["a.h5"], "a.h5", ""),
        (["./b.h5"], "b.h5", ""),
        (["dijets"], "b.h5", "2 runs are meant by dijets: "),
        (["abcd"], "a.h5", ""),
        (["8000-00000000ABCD"], "a.h5", ""),
        ([id_of("b.h5")], "b.h5", ""),
        (["1234"], "c.h5", ""),  # a label comes before an id
        (["wide/loose"], "d.h5", ""),
        (["."], "d.h5", "d.h5 is the newest run there"),
        ([], "d.h5", "d.h5 is the newest run there"),
    ],
)
def test_show_takes_a_path_a_label_an_id_a_directory_or_nothing(runs, words, found, said):
    ran = command("show", *words)
    assert id_of(found) in ran.stdout
    assert said in ran.stderr if said else not ran.stderr
    assert ran.stderr.count("\n") == bool(said)


def test_runs_are_found_in_the_directory_that_is_named(runs, monkeypatch):
    monkeypatch.chdir(runs / "elsewhere")
    assert id_of("a.h5") in command("show", "../abcd").stdout
    assert id_of("d.h5") in command("show", "..").stdout
    assert "there is no run file in" in command("show", code=1).stderr
    monkeypatch.setenv("CREMA_RUNS", str(runs))
    assert id_of("d.h5") in command("show").stdout
    assert id_of("a.h5") in command("show", "abcd").stdout


@pytest.mark.parametrize("word", ["nothing", "cd", "12cd0", "wide/nothing", "elsewhere/abcd"])
def test_a_name_of_no_run_is_an_error_that_says_where_runs_are_listed(runs, word):
    ran = command("show", word, code=1)
    assert not ran.stdout and ran.stderr.count("\n") == 1
    assert f"there is no file {word}, and no run in " in ran.stderr and "crema runs " in ran.stderr
    assert command("show", "", code=1).stderr == "Error: the name of the run is empty\n"


def test_a_missing_file_is_only_that(runs):
    said = command("show", "nothing.h5", code=1).stderr
    assert said == "Error: there is no file nothing.h5\n"


def test_a_live_file_is_meant_where_no_sealed_one_is(runs):
    shutil.move("a.h5", "a.live.h5")
    assert command("show", "abcd").stderr == ""
    assert id_of("b.h5") in command("show", "dijets").stdout
    said = command("top", "12cd", code=1).stderr
    assert f"{runs / 'b.h5'} is of a run that is over: crema show" in said
    assert f"{runs / 'a.live.h5'} is the newest" in command("top", "--once", "dijets").stderr


@pytest.mark.parametrize(
    "words",
    [
        ["report", "-o", "page.html"], ["hot"], ["check"], ["check", "--json"],
        ["export", "-o", "tables", "--table", "summary/workflow"], ["what-if", "--threads", "1"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_each_command_about_a_run_takes_its_label_and_the_newest(runs, monkeypatch, words):
    if words == ["check"]:
        took = []
        monkeypatch.setattr(os, "execv", lambda path, words: sys.exit(took.append(words[-1])))
        command("check", "dijets")
        command("check")
        assert took == [str(runs / "b.h5"), str(runs / "d.h5")]
        return
    code = 1 if "check" in words else 0
    assert "2 runs are meant by dijets" in command(*words, "dijets", code=code).stderr
    assert "d.h5 is the newest run there" in command(*words, code=code).stderr


def test_a_label_is_printed_with_escapes(runs):
    with h5py.File("a.h5", "a") as f, h5py.File("b.h5", "a") as g:
        f.attrs["run_label"] = g.attrs["run_label"] = "\x1b[31mred"
    said = command("show", "\x1b[31mred").stderr
    assert "\x1b" not in said and "2 runs are meant by \\x1b[31mred" in said
    assert "\x1b" not in command("show", "\x1b[32m", code=1).stderr


def test_newest_is_the_run_that_commands_take(runs):
    assert crema.newest() == runs / "d.h5"


def test_a_newer_file_that_is_damaged_is_named(runs, monkeypatch):
    monkeypatch.chdir(runs)
    whole = (runs / "d.h5").read_bytes()
    (runs / "e.h5").write_bytes(whole[: len(whole) // 2])
    assert "e.h5 is newer, and cannot be read: crema check" in command("show").stderr
    assert "e.h5 is newer, and cannot be read" in command("diff", code=1).stderr


def test_two_names_of_one_run_are_not_compared(runs, monkeypatch):
    monkeypatch.chdir(runs)
    assert "dijets is twice" in command("diff", "dijets", "dijets", code=1).stderr
