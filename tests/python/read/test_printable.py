"""Texts from users are shown on one line, and nothing in them reaches a terminal or a picture as a command."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import h5py
import matplotlib.pyplot as plt
import numpy as np
import pytest
from click.testing import CliRunner
from matplotlib.text import Text
from rich.console import Console

import crema
from crema.hook._printable import printable
from crema.read import _errors
from crema.read.command import main
from crema.read.live import Watch, render

EVIL = "\x1b[31mred\nline\r"
SHOWN = r"\x1b[31mred\nline\r"
NAMES = ("dataset", "section", "metric", "file", "worker", "task_prefix", "frame")
COLUMNS = {
    "summary/per_dataset": "dataset",
    "summary/per_worker": "worker",
    "dict/frame": "function",
}


def planted(source, path):
    """A copy whose names and attributes begin with what a terminal would obey."""
    shutil.copy(source, path)
    with h5py.File(path, "r+") as file:
        for name, value in {"run_label": EVIL, "processor_name": EVIL, "exception": EVIL}.items():
            file.attrs[name] = np.bytes_(value.encode())
        file.attrs[EVIL] = np.bytes_(EVIL.encode())
        texts = [(f"dict/{name}", "name") for name in NAMES] + list(COLUMNS.items())
        for table, column in texts:
            if table in file and column in (file[table].dtype.names or ()):
                rows = file[table][:]
                rows[column] = [EVIL.encode() + value for value in rows[column].tolist()]
                file[table][:] = rows
    return path


@pytest.fixture(scope="module")
def evil(measured, tmp_path_factory):
    return planted(measured.path, tmp_path_factory.mktemp("evil") / "\x1b[31mred\r.h5")


def must_be_quiet(text):
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", text), text
    assert not re.search(r"^line", text, re.MULTILINE), text


@pytest.mark.parametrize("command", ["show", "show --all", "runs", "hot", "diff", "scaling"])
def test_commands_print_nothing_that_a_terminal_would_obey(evil, measured, monkeypatch, command):
    monkeypatch.setattr(_errors, "CHECKED_BYTES", 0)  # it is changed after it was sealed
    what = [str(evil.parent)] if command == "runs" else [str(evil)]
    more = [str(measured.path)] if command in ("diff", "scaling") else []
    ran = CliRunner(env={"COLUMNS": "250"}).invoke(main, [*command.split(), *what, *more])
    must_be_quiet(ran.stdout)
    must_be_quiet(ran.stderr)
    if command in ("show", "show --all", "runs"):
        assert SHOWN in ran.stdout


@pytest.mark.parametrize("what", ["file", "directory", "nothing"])
def test_a_check_names_a_file_quietly(measured, tmp_path, what):
    """The command becomes a program of C."""
    path = tmp_path / "\x1b[31mred\nline\r.h5"
    if what == "file":
        planted(measured.path, path)
    elif what == "directory":
        path.mkdir()
    ran = subprocess.run(
        [sys.executable, "-m", "crema", "check", path], capture_output=True, text=True
    )
    shown = (r"\u001b[31mred\u000aline\u000d", r"\x1b[31mred\nline\r")
    assert ran.returncode == 1 and any(each in ran.stdout + ran.stderr for each in shown)
    must_be_quiet(ran.stdout)
    must_be_quiet(ran.stderr)


@pytest.mark.parametrize("options", [[], ["--scaling"]], ids=["two", "series"])
def test_a_page_of_several_runs_is_quiet(evil, measured, tmp_path, monkeypatch, options):
    monkeypatch.setattr(_errors, "CHECKED_BYTES", 0)  # it is changed after it was sealed
    other = planted(measured.path, tmp_path / "other.h5")
    with h5py.File(other, "r+") as file:
        file.attrs["run_id"] = np.bytes_(b"01a20000-0000-7000-8000-000000000001")
    what = [*options, "-o", str(tmp_path / "page.html"), str(evil), str(other)]
    ran = CliRunner().invoke(main, ["report", *what])
    assert ran.exit_code == 0, ran.output
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "\x1b" not in text and "\r" not in text and "red" in text
    assert not re.search(r"^line", text, re.MULTILINE)


def test_the_page_and_the_figures_are_quiet(evil, tmp_path):
    page = crema.read.html.write_report(evil, tmp_path / "a.html", figures_to=tmp_path / "svg")
    texts = [page.read_text(encoding="utf-8")]
    texts += [path.read_text(encoding="utf-8") for path in (tmp_path / "svg").iterdir()]
    for text in texts:
        assert "\x1b" not in text and "\r" not in text
        assert not re.search(r"^line", text, re.MULTILINE)
    assert SHOWN in texts[0]


def test_a_plot_of_the_session_has_each_name_on_one_line(evil):
    with crema.open(evil) as run:
        ax = run.plot.datasets()
        assert EVIL in run.names("dataset")[0]  # data stay as they are
    labels = [text.get_text() for text in ax.findobj(Text)]
    assert not [label for label in labels if "\x1b" in label or "\r" in label]
    assert any("red" in label for label in labels)
    plt.close("all")


def test_a_look_at_a_run_is_quiet(evil, capsys):
    console = Console(width=200, color_system=None)
    console.print(render(Watch(evil).look()))
    must_be_quiet(capsys.readouterr().out)


def test_a_file_that_cannot_be_read_is_named_quietly(tmp_path):
    path = tmp_path / "\x1b[31mred\nline\r.h5"
    for content in (None, b"no HDF5"):
        if content:
            path.write_bytes(content)
        ran = CliRunner().invoke(main, ["show", str(path)])
        assert ran.exit_code == 1
        must_be_quiet(ran.stderr)


@pytest.mark.parametrize("text", ["plain", "übung 日本 $x_1$ \\n", "a\tb"])
def test_other_texts_stay_as_they_are(text):
    assert printable(text) == text


def test_marks_that_turn_a_line_around_are_escapes():
    assert printable("a\u202eb\u2028c\x9b\udcff") == r"a\u202eb\u2028c\x9b\udcff"
