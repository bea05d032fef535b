"""What a notebook shows of a run, of its collector and of its page, and what tab completion offers."""

from __future__ import annotations

import inspect
import os
import pathlib
import pydoc
import re
import shutil
from html.parser import HTMLParser

import h5py
import pytest
from IPython.core.formatters import DisplayFormatter
from IPython.core.interactiveshell import InteractiveShell

import crema


def shown(thing):
    """As IPython shows it: HTML where there is one."""
    data, _ = DisplayFormatter().format(thing)
    return data.get("text/html", "")


class Elements(HTMLParser):
    """Every element is closed, and none runs a script or loads anything."""

    VOID = ("br", "img", "meta", "input", "path", "use")

    def __init__(self, text):
        super().__init__()
        self.open, self.all = [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.all.append(tag)
        assert not [name for name, _ in attributes if name.startswith("on")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.all.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_a_run_is_shown_as_the_first_screen_without_a_script(measured):
    with crema.open(measured.path) as run:
        text = shown(run)
        assert run.run_id in text and shown(run) == text
    elements = Elements(text).all
    assert "script" not in elements and {"svg", "style", "div"} <= {*elements}
    for words in ("COMPLETE", "4,000", "What holds it back", "thread-seconds"):
        assert words in text
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)[1]
    assert style.startswith(".crema{") and style.endswith("}")
    assert style.count("{") == style.count("}")
    assert ":root" not in style and not re.search(r"\bbody\b", style)
    assert "closed" in shown(run) and "<pre>" in shown(run)


def test_a_collector_is_shown_as_its_run(measured):
    assert "What holds it back" in shown(measured.collector)
    other = crema.MetricsCollector()
    other.reasons = [{"text": "<b>nobody</b> answered"}]
    assert shown(other).startswith("<pre>&lt;crema.MetricsCollector of run ")
    assert "&lt;b&gt;nobody&lt;/b&gt; answered" in shown(other)


def test_texts_of_a_user_are_shown_as_texts(measured, tmp_path):
    path = shutil.copy(measured.path, tmp_path / "<i>a&b.h5")
    with h5py.File(path, "a") as f:
        f.attrs["run_label"] = "<script>alert(1)</script>"
        f.attrs["run_id"] = 'x"><script>alert(1)</script>\\1'
        f.attrs["verdict_notes"] = '[{"text": "<img src=x>"}]'
    with crema.open(path) as run:
        text = shown(run)
        page = run.report()
    assert (
        "&lt;script&gt;" in text and "&lt;img src=x&gt;" in text and "&lt;i&gt;a&amp;b.h5" in text
    )
    assert "script" not in Elements(text).all
    assert "&lt;i&gt;" in shown(page)
    Elements(shown(page))


def test_a_page_is_the_path_it_was_and_is_shown(measured, tmp_path, monkeypatch):
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    with crema.open(shutil.copy(measured.path, tmp_path / "below" / "a b.h5")) as run:
        page = run.report()
        assert page == pathlib.Path(tmp_path / "below" / "a b.html") and hash(page) == hash(
            pathlib.Path(page)
        )
        assert isinstance(page, os.PathLike) and os.fspath(page) == str(page)
        assert page.parent == tmp_path / "below" and page.read_text().startswith("<!doctype")
        assert f'href="{page.as_uri()}"' in shown(run)
    assert '<iframe src="a%20b.html"' in shown(page) and '<a href="a%20b.html"' in shown(page)
    monkeypatch.chdir(tmp_path)
    assert '<iframe src="below/a%20b.html"' in shown(page)
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert "iframe" not in shown(page) and f'href="{page.as_uri()}"' in shown(page)
    again = measured.collector.report(tmp_path / "mc.html")
    assert again == tmp_path / "mc.html" and "<a href=" in shown(again)


@pytest.fixture
def completions(measured):
    """What the Tab key offers after a text, in IPython."""
    with crema.open(measured.path) as run:
        shell = InteractiveShell()
        shell.user_ns.update(run=run, crema=crema)
        shell.Completer.use_jedi = False
        yield lambda text: shell.complete(text)[1]


def test_tab_offers_tables_and_what_is_public(measured, completions):
    with crema.open(measured.path) as run:
        tables = run.keys()
    assert {name for name in tables if name.startswith("summ")} == {
        *(each.removeprefix('run["') for each in completions('run["summ'))
    }
    offered = {each.removeprefix(".") for each in completions("crema.")}
    assert {"MetricsCollector", "open", "newest", "plots", "track_time"} <= offered
    assert {each for each in offered if not each.startswith("_")} == {
        *crema.__all__, "plots", "report"
    } - {"__version__"}  # fmt: skip
    for name in dir(crema):
        assert getattr(crema, name) is not None


def test_help_shows_the_name_of_a_section():
    for tracker in (crema.track_time, crema.track_section, crema.track_memory, crema.track_bytes):
        assert str(inspect.signature(tracker)) in ("(name: str)", "(name: 'str')")
    assert re.search(r"Tracker\(name: '?str'?\)", pydoc.plain(pydoc.render_doc(crema.track_time)))
    assert crema.track_time(object(), "roastcoffea's order").name == "roastcoffea's order"

    class Own(crema.Tracker):
        def __init__(self, depth: int) -> None:
            super().__init__("own")

    assert list(inspect.signature(Own).parameters) == ["depth"]
