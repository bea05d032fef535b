"""The report: one page that stands alone, says what the file says, and runs nothing of what the file says."""

from __future__ import annotations

import base64
import functools
import hashlib
import html.parser
import json
import re
import shutil
import subprocess

import h5py
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.text import Text

import crema
from crema.read import plots
from crema.read._numbers import readable
from crema.read.brief import lines
from crema.read.html import figures, tables, write_report
from crema.read.html.packed import NONE, pack
from crema.read.html.page import first_screen
from crema.read.html.sentences import findings, headline
from crema.read.plots import REGISTRY
from page_kit import HOSTILE, STUB, unpack


class Page(html.parser.HTMLParser):
    """Elements with their attributes, and the text outside scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.text, self._inside = [], [], []
        self.scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
        self.styles = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._inside.append(tag)

    def handle_endtag(self, tag):
        while self._inside and self._inside.pop() != tag:
            pass

    def handle_data(self, data):
        if not {"script", "style"} & set(self._inside):
            self.text.append(data)


@pytest.fixture(scope="module")
def page(measured, tmp_path_factory):
    where = tmp_path_factory.mktemp("page")
    path = measured.collector.report(where / "a.html")
    return path, Page(path.read_text(encoding="utf-8"))


def test_the_first_screen_says_what_the_file_says(measured, page):
    text = " ".join(page[1].text)
    with crema.open(measured.path) as run:
        for label, value, _ in headline(run):
            assert label in text
            assert value in text
        told = findings(run)
        assert told
        for finding in told:
            assert finding.finding in text
            assert finding.evidence in text
    assert "COMPLETE" in text
    assert "a label" in text


def test_every_figure_is_there_or_says_why_not(page):
    names = {attrs["data-name"] for tag, attrs in page[1].elements if tag == "figure"}
    text = " ".join(page[1].text)
    for name, entry in REGISTRY.items():
        if name == entry.name and not entry.across and name not in names:
            assert entry.question in text, name
    assert "cannot be drawn" not in text
    assert {"waterfall", "timeline", "task_stream", "chunk_wall", "completeness"} <= names


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_impossible_numbers_cost_the_pictures_that_show_them(measured, tmp_path, value, caplog):
    path = shutil.copy(measured.path, tmp_path / "impossible.h5")
    with h5py.File(path, "a") as f:
        f.visititems(functools.partial(_fill_reals, value=value))
    page = Page(write_report(path).read_text(encoding="utf-8"))
    drawn = {attrs["data-name"] for tag, attrs in page.elements if tag == "figure"}
    assert {"timeline", "task_stream", "completeness"} <= drawn
    said = " ".join(" ".join(page.text).split())
    failed = {record.args[0] for record in caplog.records if "cannot be drawn" in record.msg}
    assert len(failed) <= 4
    for name in failed:
        assert f"{REGISTRY[name].question} it cannot be drawn: " in said


def _fill_reals(_, dataset, value):
    """All reals of a dataset, or all in columns of a table."""
    if isinstance(dataset, h5py.Dataset) and dataset.size:
        values = dataset[()]
        names = [n for n in dataset.dtype.names or () if dataset.dtype[n].kind == "f"]
        for name in names:
            values[name] = value
        if names or dataset.dtype.kind == "f":
            dataset[...] = values if names else value


def test_the_waterfall_has_a_drawing_that_fits_a_telephone(measured, page):
    """At the same size of text: 390 pixels are not much wider than the drawing."""
    text = page[0].read_text(encoding="utf-8")
    (figure,) = re.findall(r'<figure data-name="waterfall".*?</figure>', text, re.DOTALL)
    assert re.findall(r'<svg class="(\w+)"', figure) == ["wide", "narrow"]
    widths = [float(width) for width in re.findall(r'viewBox="0 0 ([\d.]+) ', figure)]
    assert widths[0] > 600
    assert widths[1] < 390 / 1.1
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    drawn, ax = plt.subplots(figsize=(figures.NARROW_INCHES, 5), layout="constrained")
    with crema.open(measured.path) as run:
        plots.waterfall(run, ax)
    drawn.canvas.draw()
    labels = [*ax.texts, *ax.get_yticklabels(), ax.xaxis.label, ax._left_title]
    for label in labels:
        extent = label.get_window_extent()
        assert drawn.bbox.x0 <= extent.x0 < extent.x1 <= drawn.bbox.x1 + 1, label
    plt.close(drawn)


def test_note_of_missing_records_is_above_the_title_on_a_telephone(measured, tmp_path):
    path = shutil.copy(measured.path, tmp_path / "partial.h5")
    with h5py.File(path, "a") as f:
        f.attrs["verdict"] = "PARTIAL"
    drawn, ax = plt.subplots(figsize=(figures.NARROW_INCHES, 5), layout="constrained")
    with crema.open(path) as run:
        plots.waterfall(run, ax)
    drawn.canvas.draw()
    note = next(text for text in drawn.findobj(Text) if text.get_text().startswith("PARTIAL"))
    title = next(text for text in drawn.findobj(Text) if text.get_text().endswith("go?"))
    line = note.get_window_extent().transformed(drawn.dpi_scale_trans.inverted())
    assert line.x1 < figures.NARROW_INCHES and line.y1 < 5
    note.set(text=note.get_text().strip(), linespacing=1)  # the line below it is empty
    bottom = line.y1 * drawn.dpi - note.get_window_extent().height
    assert bottom > title.get_window_extent().y1
    plt.close(drawn)


def test_the_page_stands_alone_under_its_own_policy(page):
    policy = next(a["content"] for t, a in page[1].elements if t == "meta" and "http-equiv" in a)
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    hashes = {
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for text in page[1].scripts + page[1].styles
    }
    assert len(hashes) == 2
    assert all(found in policy for found in hashes)
    for tag, attrs in page[1].elements:
        assert "style" not in attrs, (tag, attrs)
        assert not [name for name in attrs if name.startswith("on")], (tag, attrs)
        for name in ("src", "href", "xlink:href", "action", "data"):
            target = attrs.get(name) or "#"
            assert target.startswith(("#", "data:image/png")), (tag, target)


def test_the_canvas_gets_every_task_and_chunk(measured):
    with crema.open(measured.path) as run:
        packed, left_out = pack(run)
        tasks = run.arrays("task_events", ["t_start_ns", "t_stop_ns", "action"])
        computed = tasks["action"] == run.labels("task_events", "action")["compute"]
        tasks = {name: values[computed] for name, values in tasks.items()}
        chunks = run.arrays("chunks", ["task_key", "n_events", "wall_s"])
        start_ns = int(run.file.attrs["t_run_start_ns"])
    header, columns = unpack(packed)
    assert left_out == ""
    first = np.append(0, np.cumsum(columns["count"])[:-1]).astype(int)
    start = np.concatenate([
        np.cumsum(columns["step"][i : i + n]) for i, n in zip(first, columns["count"], strict=True)
    ])  # fmt: skip
    began = np.sort((tasks["t_start_ns"] - start_ns) * 1e-9)
    assert np.sort(start * header["unit_s"]) == pytest.approx(began, abs=1e-6)
    took = np.sort((tasks["t_stop_ns"] - tasks["t_start_ns"]) * 1e-9)
    assert np.sort(columns["took"] * header["unit_s"]) == pytest.approx(took, abs=2e-6)
    assert columns["c_events"].tolist() == chunks["n_events"].tolist()
    assert (columns["c_task"] != NONE).all()
    assert len(set(columns["c_task"].tolist())) == len(chunks["n_events"])


@pytest.mark.skipif(shutil.which("node") is None, reason="node runs the script of the page")
def test_the_wheel_scrolls_the_page_and_with_ctrl_zooms_the_task_stream(page):
    ran = subprocess.run(
        ["node", STUB, page[0], "stream"], capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    said = json.loads(ran.stdout)
    whole = said["all"][1]
    n, of = re.search(r"s, ([\d,]+) of ([\d,]+) tasks on 2 of 2 threads", whole).groups()
    assert n == of
    assert said["plain"] == said["shift"] == [False, whole]
    taken, near = said["ctrl"]
    assert taken and near != whole and f" {of} of {of} tasks" not in near
    assert said["out"] == [True, whole]


def test_too_many_tasks_are_said_to_be_too_many(measured):
    with crema.open(measured.path) as run:
        packed, left_out = pack(run, tasks_max=5)
        action = run.arrays("task_events", ["action"])["action"]
        n = int((action == run.labels("task_events", "action")["compute"]).sum())
    assert f"{n:,} tasks are too many" in left_out
    assert unpack(packed)[1]["step"].size == 1


def test_names_in_a_file_cannot_run_script(measured, tmp_path):
    path = shutil.copy(measured.path, tmp_path / "hostile.h5")
    hostile(path)
    written = write_report(path)
    assert written == tmp_path / "hostile.html"
    text = written.read_text(encoding="utf-8")
    assert text.count("<script") == 2  # the data and the code, both the package's own
    assert text.count("</script>") == 2
    found = Page(text)
    assert not [tag for tag, attrs in found.elements if tag == "img" or "onerror" in attrs]
    assert "alert(1)" in " ".join(found.text)  # it is there to be read
    assert "alert" not in "".join(found.scripts)


def hostile(path):
    """Every string of the file that a user or a file name can choose is an attack."""
    with h5py.File(path, "a") as f:
        for name in ("run_label", "processor_name", "user", "facility", "cmdline"):
            f.attrs[name] = HOSTILE
        f.attrs["verdict"] = "PARTIAL"
        f.attrs["verdict_reasons"] = json.dumps([{"code": "x", "text": HOSTILE, "subject": ""}])
        for table in (
            "dict/worker",
            "dict/dataset",
            "dict/file",
            "dict/task_prefix",
            "dict/branch",
        ):
            rows = f[table][:]
            rows["name"] = [(HOSTILE + str(i)).encode() for i in range(len(rows))]
            f[table][:] = rows
        for table, columns in {
            "summary/per_worker": ["worker"],
            "summary/per_dataset": ["dataset"],
            "summary/per_task_prefix": ["task_prefix"],
            "summary/per_activity": ["task_prefix", "activity"],
            "summary/bottlenecks": ["evidence", "advice"],
            "summary/monitor": [],
        }.items():
            rows = f[table][:]
            for column in columns:
                rows[column] = HOSTILE.encode()
            f[table][:] = rows
        del f["grid/worker"]
        f["grid/worker"] = [HOSTILE] * len(f["dict/worker"])


def test_a_column_is_aligned_as_one():
    text = tables.table(
        "t", ("what", "where", "value", "n"), [("a", "b", "1.2 kB", 3), ("c", "–", "–", 4)]
    )
    assert (
        re.findall(r"<t[hd]( class=text)?>", text)
        == [" class=text"] * 2 + [""] * 2 * 1 + ([" class=text"] * 2 + [""] * 2) * 2
    )


def test_a_straggler_took_what_it_exceeds_by(measured, tmp_path):
    """Its expected time and its excess are of opening and process() together."""
    path = shutil.copy(measured.path, tmp_path)
    with h5py.File(path, "a") as f:
        chunks, slow = f["chunks"][:], np.zeros(1, f["summary/stragglers"].dtype)
        chunks["open_s"][0], chunks["wall_s"][0] = 2.5, 0.25
        slow["excess_s"] = 2.0
        f["chunks"][:] = chunks
        del f["summary/stragglers"]
        f["summary/stragglers"] = slow
    with crema.open(path) as run:
        assert "<td>2.75</td>" in tables.RENDER["stragglers"](run)


def test_the_page_is_small_and_alone(page):
    assert page[0].stat().st_size < 5_000_000
    assert [path.name for path in page[0].parent.iterdir()] == ["a.html"]


def test_a_live_file_has_no_report_yet(measured, tmp_path):
    path = shutil.copy(measured.path, tmp_path / "live.h5")
    with h5py.File(path, "a") as f:
        del f["summary"]
    with pytest.raises(KeyError, match="not sealed yet"):
        write_report(path)


def test_a_diagnosis_that_the_data_do_not_support_is_not_made(measured, tmp_path):
    path = shutil.copy(measured.path, tmp_path / "silent.h5")
    with h5py.File(path, "a") as f:
        rows = f["summary/bottlenecks"][:]
        rows["fraction"] = np.nan
        f["summary/bottlenecks"][:] = rows
    with crema.open(path) as run:
        assert findings(run) == []
        assert "The data support no diagnosis" in first_screen(run)


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(0.0625, 2, "0.062"), (8.817, 3, "8.82"), (250.4, 2, "250"), (999.6, 3, "1,000"), (5432.1, 4, "5,432"),
     (3_600_123.0, 4, "3,600,000"), (-1234.5, 3, "-1,230"), (np.nan, 3, "nan")],
)  # fmt: skip
def test_a_large_number_has_no_exponent(value, digits, text):
    assert readable(value, digits) == text


def test_a_large_run_has_no_number_with_an_exponent_in_its_sentences(measured, tmp_path):
    """A thousand threads for some hours."""
    path = shutil.copy(measured.path, tmp_path / "large.h5")
    with h5py.File(path, "a") as f:
        for table, columns in {
            "summary/bottlenecks": ("thread_seconds", "saving_s", "lo", "hi"),
            "summary/waterfall": ("thread_seconds",),
            "summary/chunk_model": ("b_s_per_event",),
            "summary/workflow": ("value",),
        }.items():
            rows = f[table][:]
            for column in columns:
                rows[column] *= 12_345
            f[table][:] = rows
    with crema.open(path) as run:
        assert not re.findall(r"\S*\de\+\d\S*", first_screen(run))
        for name in ("waterfall", "savings", "chunk_wall"):
            figure = getattr(run.plot, name)().figure
            texts = [text.get_text() for text in figure.findobj(Text)]
            assert not [text for text in texts if re.search(r"\de\+\d", text)]
            plt.close(figure)


def test_other_runs_on_the_same_workers_come_first(measured, tmp_path):
    path = shutil.copy(measured.path, tmp_path / "beside.h5")
    with h5py.File(path, "a") as f:
        rows = f["summary/waterfall"][:]
        others = rows["category"] == b"other_runs"
        rows["thread_seconds"][others] = 0
        rows["thread_seconds"][others] = 46 / 54 * rows["thread_seconds"].sum()
        f["summary/waterfall"][:] = rows
    with crema.open(path) as run:
        told = findings(run)
        assert "went to tasks of other runs on the same workers" in str(lines(run))
    assert told[0].name == "other_runs"
    assert told[0].finding.startswith("46 % of your ")
    assert len(told) > 1
    assert " ".join(told[0].finding.split()) in write_report(path).read_text(encoding="utf-8")


def test_doubt_is_said(measured, tmp_path):
    path = shutil.copy(measured.path, tmp_path / "doubt.h5")
    with h5py.File(path, "a") as f:
        rows = f["summary/bottlenecks"][:]
        labels = h5py.check_enum_dtype(rows.dtype["status"])
        rows["fraction"][:2], rows["saving_s"][:2] = 0.38, 31
        rows["status"][:2] = labels["ambiguous"]
        rows["lo"][:2], rows["hi"][:2] = (12, np.nan), (33, np.nan)
        rows["name"][:2] = [b"opening", b"merging"]
        rows["evidence"][:2] = b""
        f["summary/bottlenecks"][:] = rows
    with crema.open(path) as run:
        first, second = findings(run)[:2]
    assert first.finding.startswith("38 % of your ")
    assert first.finding.endswith(
        " thread-seconds were waiting before process(), for files to be opened (ambiguous)."
    )
    assert "about 31 s" in first.saving
    assert first.saving.endswith("between 12 and 33 s.")
    assert second.saving.endswith("one run gives no interval for this.")
    assert "another cause may have taken more of the same seconds" in first.doubt


def test_a_cpu_quota_is_said_in_place_of_a_lack_of_cores(measured, tmp_path):
    path = shutil.copy(measured.path, tmp_path / "quota.h5")
    with h5py.File(path, "a") as f:
        rows = f["summary/bottlenecks"][:]
        rows["name"][:1], rows["fraction"][:1] = b"cores", 0.5
        rows["evidence"][:1] = (
            b"a.py:7 has 88 % of it; a CPU quota of 0.2 cores was used up in 96 % of its periods"
        )
        f["summary/bottlenecks"][:] = rows
    with crema.open(path) as run:
        told = findings(run)[0].finding
    assert "free core" not in told
    assert told.endswith(
        "not allowed a core (a.py:7 has 88 % of it,"
        " a CPU quota of 0.2 cores was used up in 96 % of its periods)."
    )


@pytest.mark.parametrize(
    ("n_files", "best", "advice"),
    [
        (3, 57_123.0, "chunks of 57,000 events instead of 1,000 (makespan of the chunk model)"),
        (3, np.nan, "as the sink says"),
        (12, 57_123.0, "merge the files: each chunk already is a whole one"),
    ],
)
def test_larger_chunks_are_advised_where_they_are_better_and_files_allow_it(
    measured, tmp_path, n_files, best, advice
):
    path = shutil.copy(measured.path, tmp_path / "small.h5")
    with h5py.File(path, "a") as f:
        f.attrs["chunksize"] = 1000
        for table, column, value in (
            ("summary/bottlenecks", "name", b"chunk_overhead"),
            ("summary/bottlenecks", "advice", b"as the sink says"),
            ("summary/chunk_model", "n_opt_events", best),
            ("summary/per_dataset", "n_files", 0),
        ):
            rows = f[table][:]
            rows[column] = value
            f[table][:] = rows
        rows = f["summary/per_dataset"][:]
        rows["n_files"][0] = n_files
        f["summary/per_dataset"][:] = rows
        rows = f["summary/workflow"][:]
        rows["value"][rows["name"] == b"num_chunks"] = 12
        f["summary/workflow"][:] = rows
    with crema.open(path) as run:
        assert findings(run)[0].advice.startswith(advice)


def test_the_advice_to_compute_less_names_the_line(measured, tmp_path):
    path = shutil.copy(measured.path, tmp_path / "line.h5")
    with h5py.File(path, "a") as f:
        rows = f["summary/bottlenecks"][:]
        rows["name"][:1], rows["fraction"][:1] = b"compute", 0.5
        rows["advice"][:1] = b"the cores are busy: more of them help; profile process()"
        rows["evidence"][:1] = b"dijets.py:57 has 81 % of it; 90 % of the time is thread CPU"
        f["summary/bottlenecks"][:] = rows
    with crema.open(path) as run:
        assert findings(run)[0].advice.endswith("more of them help; begin with dijets.py:57")


def test_the_page_and_its_figures_do_not_follow_the_style_of_the_session(measured, tmp_path):
    """A notebook of a physicist: labels by LaTeX, which is not there, white on black, and the sizes of an experiment's style."""
    session = {"text.usetex": True, "font.size": 26, "xtick.direction": "in", "axes.linewidth": 2}
    for name in ("plain", "styled"):
        with plt.style.context(["dark_background", session] if name == "styled" else []):
            write_report(measured.path, tmp_path / f"{name}.html", figures_to=tmp_path / name)
    assert "it cannot be drawn" not in (tmp_path / "styled.html").read_text(encoding="utf-8")
    plain, styled = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        for name in ("plain", "styled")
    )
    assert styled == plain
    with plt.style.context(session | {"text.usetex": False}), crema.open(measured.path) as run:
        assert run.plot.waterfall().xaxis.get_ticklabels()[0].get_fontsize() > 20
    plt.close("all")
