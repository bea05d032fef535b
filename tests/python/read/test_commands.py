"""The `crema` command: what each word prints, its JSON, and its errors."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from xml.etree import ElementTree

import h5py
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import crema
from children import Child
from crema.read import _errors
from crema.read.command import main
from crema.read.compare import METRICS, compare


def crema_command(*arguments, code=0):
    ran = CliRunner().invoke(main, [str(a) for a in arguments], catch_exceptions=False)
    assert ran.exit_code == code, ran.output
    return ran.output


def as_json(*arguments):
    return json.loads(
        crema_command(*arguments, "--json"),
        parse_constant=lambda name: pytest.fail(f"{name} is no JSON"),
    )


def test_show_is_six_lines_at_most(measured):
    lines = crema_command("show", measured.path).splitlines()
    assert 3 <= len(lines) <= 6
    assert "COMPLETE" in lines[0]
    assert "4,000 events" in lines[1]
    assert "thread-seconds" in lines[2]
    assert "Thread-seconds of the run" in crema_command("show", "--all", measured.path)


PRINTING = [
    *("--version", "show --help", "show --json FILE", "show --all FILE", "runs .", "runs --json ."),
    *("what-if --threads 1 FILE", "doctor .", "report FILE", "export FILE", "check --json FILE"),
    "scaling FILE",
]


@pytest.mark.parametrize(
    ("words", "unbuffered"),
    [
        ("--help", ""),
        ("show FILE", ""),
        ("show FILE", "1"),
        ("diff FILE FILE", ""),
        *(pytest.param(words, "", marks=pytest.mark.slow) for words in PRINTING),
    ],
)
def test_full_disk_under_standard_output_is_one_line_and_status_1(
    measured, words, unbuffered, tmp_path
):
    shutil.copy(measured.path, tmp_path / "run.h5")
    code = "from crema.read.command import main; main()"
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            [sys.executable, "-c", code, *words.replace("FILE", "run.h5").split()],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    wanted = "crema: standard output cannot be written: No space left on device\n"
    assert (ran.returncode, ran.stderr) == (1, wanted)


@pytest.mark.parametrize("words", ["--help", "--version", "show", "show --json", "runs"])
def test_a_closed_standard_output_is_a_line_and_a_status(measured, words):
    about = {"show": measured.path, "runs": measured.path.parent}.get(words.split()[0])
    program = f"{sys.executable} -c 'from crema.read.command import main; main()'"
    command = f'{program} {words} "$@" >&-'
    ran = subprocess.run(
        ["sh", "-c", command, "sh", *([about] if about else [])],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert ran.returncode == 1
    assert ran.stderr.count("\n") == 1 and "closed" in ran.stderr


def test_a_dash_is_no_file(measured, tmp_path):
    command = [sys.executable, "-m", "crema", "report", str(measured.path), "--output", "-"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 1 and "name of a file" in ran.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_terminal_without_a_width_shows_all(measured):
    """And the command is there without its script."""
    command = [sys.executable, "-m", "crema", "show", "--all", str(measured.path)]
    shown = subprocess.run(
        command, env=os.environ | {"COLUMNS": "0"}, capture_output=True, text=True, check=True
    )
    assert "What holds it back" in shown.stdout


@pytest.mark.parametrize("width", ["60", "80", "160"])
def test_sentences_of_the_diagnosis_are_not_cut_off(measured, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", width)
    printed = " ".join(crema_command("show", measured.path, "--all").split())
    with crema.open(measured.path) as run:
        rows = sorted(run.rows("summary/bottlenecks"), key=lambda row: row.rank)
    first = next(row for row in rows if row.advice)
    if width == "160":  # side by side, folded
        assert {*first.advice.split()} <= {*printed.split()}
    else:
        assert f"to try: {first.advice}" in printed


def test_show_as_json_has_what_the_file_has(measured):
    told = as_json("show", measured.path)
    assert told["verdict"] == "COMPLETE"
    assert told["metrics"]["total_events"]["value"] == 4000
    assert told["rows"]["chunks"] == 8
    assert told["bottlenecks"][0]["rank"] == 0
    assert told["diagnosis"][0]["finding"]


def test_runs_lists_a_directory(measured, monkeypatch):
    assert "COMPLETE" in crema_command("runs", measured.path.parent)
    for width in ("60", "80", "200"):  # nothing is cut off or folded
        monkeypatch.setenv("COLUMNS", width)
        printed = crema_command("runs", measured.path.parent)
        assert measured.path.name in printed
        assert "a label" in printed
    (row,) = as_json("runs", measured.path.parent)
    assert row["file"] == measured.path.name
    assert row["total_events"] == 4000


def test_runs_names_a_directory_without_runs(tmp_path):
    assert f"there is no run file in {tmp_path}" in crema_command("runs", tmp_path)


def test_a_terminal_that_lacks_signs_gets_the_rest(measured):
    for command in (["show"], ["show", "--all"]):
        ran = CliRunner(charset="ascii").invoke(main, [*command, str(measured.path)])
        assert ran.exit_code == 0, ran.output
        assert "4,000" in ran.output


def test_plots_are_listed_in_two_columns(measured):
    with crema.open(measured.path) as run:
        lines = repr(run.plot).splitlines()
    assert all("  " in line for line in lines)
    assert len({re.search(r"  +", line).end() for line in lines}) == 1


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_tables_are_exported(measured, tmp_path, kind):
    names = ["--table", "chunks", "--table", "summary/workflow"]
    written = as_json("export", measured.path, "--to", kind, "-o", tmp_path / "out", *names)
    assert [p.rpartition("/")[2] for p in written] == [f"chunks.{kind}", f"summary-workflow.{kind}"]
    read = pd.read_csv if kind == "csv" else pd.read_parquet
    frame = read(written[0])
    with crema.open(measured.path) as run:
        assert len(frame) == len(run.chunks)
        assert frame.n_events.sum() == run.chunks.n_events.sum()
        assert set(frame.dataset) == set(run.chunks.dataset)


def test_every_table_is_exported(measured, tmp_path):
    written = as_json("export", measured.path, "-o", tmp_path / "out")
    with crema.open(measured.path) as run:
        assert len(written) == len(run)


def test_a_trace_has_every_task(measured, tmp_path):
    path = tmp_path / "run.trace.json.gz"
    assert crema_command("export", measured.path, "--to", "trace", "-o", path).strip() == str(path)
    with gzip.open(path, "rt") as file:
        trace = json.load(file)
    inside = ("chunk", "section")
    tasks = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["cat"] not in inside]
    with crema.open(measured.path) as run:
        assert len(tasks) == len(run.tasks)
        longest = run.tasks.t_stop - run.tasks.t_start
        assert max(t["dur"] for t in tasks) == pytest.approx(
            longest.max().total_seconds() * 1e6, abs=1
        )
        names = {e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}
        assert names == set(run.names("worker"))
    assert {"DijetProcessor"} <= {t["name"] for t in tasks}
    assert all(t["ts"] >= 0 for t in tasks)


def test_a_report_is_written_where_it_is_asked_for(measured, tmp_path):
    told = as_json(
        "report", measured.path, "-o", tmp_path / "r.html", "--figures", tmp_path / "svg"
    )
    assert told == {"page": str(tmp_path / "r.html"), "bytes": (tmp_path / "r.html").stat().st_size}
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    files = {path.stem: path.read_text(encoding="utf-8") for path in (tmp_path / "svg").iterdir()}
    assert set(files) == set(re.findall(r'<figure data-name="(\w+)"', page))
    for name, text in files.items():
        assert ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg", name


def test_a_page_is_written_to_a_pipe_and_through_a_link(measured, tmp_path):
    pipe, link = tmp_path / "pipe", tmp_path / "link.html"
    os.mkfifo(pipe)
    link.symlink_to(tmp_path / "page.html")
    with (tmp_path / "read").open("wb") as read, Child(["cat", pipe], stdout=read):
        crema_command("report", measured.path, "-o", pipe)
    assert (tmp_path / "read").read_bytes().endswith(b"</html>\n")
    crema_command("report", measured.path, "-o", link)
    assert link.is_symlink() and (tmp_path / "page.html").is_file() and pipe.is_fifo()


def test_check_as_json(measured, tmp_path):
    broken = shutil.copy(measured.path, tmp_path / "broken.h5")
    with h5py.File(broken, "a") as f:
        rows = f["chunks"][:]
        rows["n_events"] += 1
        f["chunks"][:] = rows
    output = crema_command("check", "--json", measured.path, broken, code=1)
    good, bad = json.loads(output)
    assert (good["sound"], bad["sound"]) == (True, False)
    assert bad["said"]


def test_errors_are_a_line(measured, tmp_path):
    for arguments in (
        ["show", tmp_path / "nothing.h5"],
        ["report", tmp_path / "nothing.h5"],
        ["report", measured.path, "-o", tmp_path / "no" / "where.html"],
        ["diff", measured.path, tmp_path / "nothing.h5"],
        ["runs", tmp_path / "nothing"],
        ["export", measured.path, "--table", "chunk"],
        ["report", measured.path, "-o", tmp_path],
        ["report", measured.path, "--figures", __file__],
        ["export", measured.path, "-o", __file__],
        ["top", tmp_path],
    ):
        said = crema_command(*arguments, code=1)
        assert said.startswith("Error: ")
        assert len(said.splitlines()) == 1
    crema_command("report", *[measured.path] * 3, code=2)
    crema_command("export", measured.path, "--to", "trace", "--table", "chunks", code=2)


@pytest.mark.parametrize(
    "arguments",
    [
        ["report", "{a}", "-o", "{b}"],
        ["report", "-o", "{a}", "{b}"],  # -o *.h5
        ["report", "{a}", "{b}", "-o", "{b}"],
        ["report", "--scaling", "{a}", "-o", "{b}"],
        ["export", "{a}", "--to", "trace", "-o", "{b}"],
        ["scaling", "--csv", "{a}", "{b}"],  # --csv *.h5
        ["scaling", "--extra-p", "{a}", "{b}"],
    ],
)
def test_a_run_file_is_not_written_over(measured, tmp_path, arguments):
    files = {name: shutil.copy(measured.path, tmp_path / f"{name}.h5") for name in "ab"}
    before = measured.path.read_bytes()
    said = crema_command(*(a.format(**files) for a in arguments), code=1)
    assert "nothing is written over it" in said
    for path in files.values():
        assert path.read_bytes() == before


# ---------------------------------------------------------------- two runs


def changed(source, path, cause=None, factor=1.0, least_s=4.0, **attributes):
    """A copy in which a cause has so many times its seconds, and a fifth of the capacity more or so many seconds of its two threads."""
    shutil.copy(source, path)
    with h5py.File(path, "a") as f:
        rows = f["summary/bottlenecks"][:]
        at = np.flatnonzero(rows["name"] == (cause or "").encode())
        capacity = f["summary/waterfall"]["thread_seconds"].sum()
        rows["thread_seconds"][at] = factor * rows["thread_seconds"][at] + (factor > 1) * max(
            0.2 * capacity, least_s
        )
        f["summary/bottlenecks"][:] = rows
        f.attrs.update(attributes)
    return path


def test_a_run_does_not_differ_from_itself(measured):
    found = compare(measured.path, measured.path)
    assert found.moved == []
    assert found.sentence().startswith("As fast within 3 %: ")
    assert "differs" not in found.sentence() and " it " not in found.sentence()
    assert found.about_causes() == "No cause changed by more than the noise."
    assert found.noise.startswith("Within-run noise only")
    assert found.settings == {}
    assert set(found.metrics) <= set(METRICS)
    assert all(before == after for before, after, _ in found.metrics.values())


def with_metrics(source, path, **factors):
    """A copy in which these metrics have so many times their values, and the seconds those of as many events."""
    shutil.copy(source, path)
    with h5py.File(path, "a") as f:
        rows = f["summary/workflow"][:]
        for name, factor in factors.items():
            rows["value"][rows["name"] == name.encode()] *= factor
        f["summary/workflow"][:] = rows
        for table in ("summary/bottlenecks", "summary/waterfall"):
            rows = f[table][:]
            rows["thread_seconds"] *= factors.get("total_events", 1.0)
            f[table][:] = rows
    return path


def test_noise_that_is_not_known_is_no_judgement(measured, tmp_path):
    after = changed(measured.path, tmp_path / "b.h5", "input", 3.0)
    for path in (measured.path, after):
        shutil.copy(path, tmp_path / f"few-{path.name}")
    few = [tmp_path / f"few-{path.name}" for path in (measured.path, after)]
    for path in few:
        with h5py.File(path, "a") as f:
            f["chunks"].resize(15, axis=0)
    found = compare(*few)
    assert found.moved == []
    assert "Noise unknown: input took" in found.about_causes()
    assert "fewer than 16 chunks" in found.about_causes()


# Wall time and capacity grow by a half; sentence by what else differs: seconds of causes, metrics, settings, chunks.
SENTENCES = {
    "nothing": ({}, {}, {}, "no cause changed by more than the noise."),
    "threads": (
        {}, {"total_cores": 1 / 1.5}, {},
        ", because its threads were 1.33 on average in place of 2.",
    ),
    "a cause": ({"compute": 1.8}, {}, {}, ", because of compute ("),
    "bytes": (
        {"compute": 1.8}, {"total_bytes_read_coffea": 5.0}, {"chunksize": np.int64(100)},
        ", because it reads 5 times as many bytes (chunksize 500 -> 100).",
    ),
    "chunks": (
        {"opening": 4.0}, {"num_chunks": 5.0, "total_bytes_read_coffea": 1.5}, {},
        ", because it has 5 times as many chunks.",
    ),
    "bytes that a little more were read": (
        {"compute": 1.8}, {"total_bytes_read_coffea": 1.1}, {}, "; it reads 10 % more bytes.",
    ),
    "fewer bytes": (
        {"compute": 1.8}, {"total_bytes_read_coffea": 0.5}, {}, "; it reads 50 % fewer bytes.",
    ),
    "another cause than bytes": (
        {"sleep": 1.8}, {"total_bytes_read_coffea": 5.0}, {},
        ", because of sleep (",
    ),
    "the code too": (
        {"compute": 1.8}, {"total_bytes_read_coffea": 5.0}, {"site": "cafe"},
        "; it reads 5 times as many bytes; set-up differs: site unknown -> cafe.",
    ),
    "a small cause": (
        {"compute": 1.2}, {"total_bytes_read_coffea": 5.0}, {},
        "; the cause is not known: what changed by more than the noise explains less than half of it; it reads 5 times as many bytes.",
    ),
    "few chunks and a little": (
        {"compute": 1.3}, {"total_bytes_read_coffea": 5.0}, {"n_chunks": 15},
        "; the cause is not known: a run has fewer than 16 chunks, which show no noise; it reads 5 times as many bytes.",
    ),
    "few chunks and much": (
        {"compute": 1.8}, {"total_bytes_read_coffea": 5.0}, {"n_chunks": 15},
        ", because it reads 5 times as many bytes.",
    ),
    "few chunks and nothing that explains": (
        {"compute": 1.8}, {}, {"n_chunks": 15},
        "; the cause is not known: a run has fewer than 16 chunks, which show no noise.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SENTENCES)
def test_a_cause_is_named_only_where_the_runs_show_it(measured, tmp_path, name):
    causes, factors, attributes, words = SENTENCES[name]
    n_chunks = attributes.get("n_chunks", 200)
    a, b = (
        worked(repeated(measured.path, tmp_path / f"{side}.h5", np.random.default_rng(7)), n_chunks)
        for side in "ab"
    )
    with h5py.File(b, "a") as f:
        edit(f, "summary/bottlenecks", "name", "thread_seconds", causes)
        f.attrs.update({k: v for k, v in attributes.items() if k != "n_chunks"})
        rows = f["summary/waterfall"][:]
        rows["thread_seconds"][0] *= 1.0 if "total_cores" in factors else 1.5
        f["summary/waterfall"][:] = rows
        edit(f, "summary/workflow", "name", "value", {"wall_time": 1.5} | factors)
    sentence = compare(a, b).sentence()
    assert sentence.startswith("50 % slower: ") and words in sentence
    assert sentence.endswith(words) or words.endswith("(")
    back = compare(b, a).sentence()
    assert back.startswith("33 % faster: ")
    assert ("because" in back) == ("because" in sentence)


def worked(path, n_chunks):
    """The same run with 600 s of compute, opening and sleep each, 1,800 in all; they are what its chunks took."""
    with h5py.File(path, "a") as f:
        causes = f["summary/bottlenecks"][:]
        causes["thread_seconds"] = 0.0
        for name in ("compute", "opening", "sleep"):
            causes["thread_seconds"][causes["name"] == name.encode()] = 600.0
        f["summary/bottlenecks"][:] = causes
        waterfall = f["summary/waterfall"][:]
        waterfall["thread_seconds"][0] = 1800.0
        f["summary/waterfall"][:] = waterfall
        _replace(f, "chunks", f["chunks"][:n_chunks])
    return path


def edit(f, table, key, column, factors):
    rows = f[table][:]
    for name, factor in factors.items():
        assert name.encode() in rows[key], name
        rows[column][rows[key] == name.encode()] *= factor
    f[table][:] = rows


def test_a_wall_time_is_told_in_words_that_fit(measured, tmp_path):
    def sentence(**factors):
        after = with_metrics(measured.path, tmp_path / "b.h5", **factors)
        return compare(measured.path, after).sentence()

    assert sentence(wall_time=1.02).startswith("As fast within 3 %: ")
    assert sentence(wall_time=1.17).startswith("17 % slower: ")
    assert sentence(wall_time=0.9).startswith("10 % faster: ")
    assert sentence(wall_time=3.0).startswith("Takes 3 times as long: ")
    assert sentence(wall_time=0.25).startswith("4 times as fast: ")
    more = sentence(wall_time=2.0, total_events=2.0)
    assert more.startswith("As fast per event within 3 %: ")
    assert "4,000 -> 8,000 events" in more and "reads 50 % fewer bytes per event" in more
    repeats = [with_metrics(measured.path, tmp_path / f"{x}.h5", wall_time=x) for x in (1, 1.5, 2)]
    found = compare(repeats, [measured.path, *repeats[1:]])
    assert found.sentence().startswith("Not slower or faster beyond the noise of ± ")


@pytest.mark.parametrize(
    ("conditions", "status"),
    [
        (["wall_time>+10%"], 3),
        (["wall_time > +20 %"], 0),
        (["event_rate_wall_clock<-10%"], 0),
        (["num_chunks>0%"], 0),
        (["wall_time>-1%", "nothing<1%"], 3),
        (["wall_time<1%", "nothing<1%"], 2),
        (["unknown_metric>+10%"], 2),
        (["wall_time>=10%"], 2),
        (["wall_time>10"], 2),
        ([""], 2),
    ],
)
def test_a_condition_decides_the_status(measured, tmp_path, monkeypatch, conditions, status):
    monkeypatch.setattr(_errors, "CHECKED_BYTES", 0)  # its copy was changed
    after = with_metrics(measured.path, tmp_path / "b.h5", wall_time=1.17)
    words = [word for text in conditions for word in ("--fail-if", text)]
    ran = CliRunner().invoke(main, ["diff", str(measured.path), str(after), *words])
    assert ran.exit_code == status
    is_usage = "is not a condition" in ran.stderr
    assert is_usage == (conditions[0] in ("wall_time>=10%", "wall_time>10", ""))
    assert is_usage or ran.stderr.count("\n") == len(conditions)
    assert is_usage or "17 % slower" in ran.stdout


def test_markdown_has_no_markup_of_a_user(measured, tmp_path, monkeypatch):
    monkeypatch.setattr(_errors, "CHECKED_BYTES", 0)
    nasty = "<b>|`x` [a](http://b) @all #1\n# head"
    after = changed(measured.path, tmp_path / "b.h5", site=nasty)
    said = crema_command("diff", "--markdown", measured.path, after)
    assert said.startswith("**As fast within 3 %: ")
    (row,) = [line for line in said.splitlines() if line.startswith("| site")]
    assert row == "| site | – | \\<b>\\|\\`x\\` \\[a\\](http://b) &#64;all &#35;1\\\\n&#35; head |"
    assert "| wall time |" in said and "\n| --- | ---: |" in said


def test_runs_of_a_directory_are_compared_in_their_order(measured, tmp_path, monkeypatch):
    monkeypatch.setattr(_errors, "CHECKED_BYTES", 0)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CREMA_RUNS", raising=False)
    assert "there is no run file in" in crema_command("diff", code=1)
    for i, name in enumerate(("z", "first", "last")):
        changed(measured.path, tmp_path / f"{name}.h5", run_label=name)
        os.utime(tmp_path / f"{name}.h5", (1000 + i, 1000 + i))
        if i == 0:
            assert "z.h5 is the only run there: name two" in crema_command("diff", ".", code=1)

    def sides(*words):
        ran = CliRunner().invoke(main, ["diff", *words, "--json"])
        found = json.loads(ran.stdout)
        assert ran.stderr.count("\n") == (len(words) < 2 or "--repeat" in words)
        return found["before"] + found["after"]

    assert sides() == sides(".") == ["first (first.h5)", "last (last.h5)"]
    assert "last.h5 is the newest run: name two" in crema_command("diff", "last", code=1)
    assert sides("z") == sides("z", "last") == ["z (z.h5)", "last (last.h5)"]


def test_the_cause_that_moved_is_named(measured, tmp_path, monkeypatch):
    monkeypatch.setattr(_errors, "CHECKED_BYTES", 0)  # its copy was changed
    after = changed(measured.path, tmp_path / "b.h5", "merging", 3.0, chunksize=np.int64(7))
    found = compare(measured.path, after)
    assert [change.name for change in found.moved] == ["merging"]
    assert found.settings["chunksize"] == ("500", "7")
    assert "merging changed most" in found.about_causes()
    told = as_json("diff", measured.path, after)
    assert told["changes"][0]["name"] == "merging"
    assert told["changes"][0]["noise_s"] is None
    page = tmp_path / "two.html"
    assert crema_command("report", measured.path, after, "-o", page).strip() == str(page)
    text = page.read_text(encoding="utf-8")
    assert "merging" in text
    assert "default-src 'none'" in text


def test_a_second_of_what_a_run_has_once_is_not_named(measured, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as copy, h5py.File(measured.path) as f:
        for name in f:
            f.copy(name, copy)
        copy.attrs.update(f.attrs)
        for table in ("bottlenecks", "waterfall"):
            rows = copy[f"summary/{table}"][:]
            rows["thread_seconds"] *= 4 / f["summary/waterfall"]["thread_seconds"].sum()
            if table == "bottlenecks":
                rows["thread_seconds"][rows["name"] == b"startup"] = 0.5
            copy[f"summary/{table}"][:] = rows
        metrics = copy["summary/workflow"][:]
        metrics["value"][metrics["name"] == b"wall_time"] = 2.0  # of two threads
        copy["summary/workflow"][:] = metrics
    a = tmp_path / "a.h5"
    later = changed(a, tmp_path / "b.h5", "startup", 1.0001, least_s=2.0)
    assert compare(a, later).moved == []
    later = changed(a, tmp_path / "c.h5", "startup", 1.0001, least_s=3.0)
    assert [change.name for change in compare(a, later).moved] == ["startup"]


def test_noise_of_repeats_is_theirs(measured, tmp_path):
    before = [changed(measured.path, tmp_path / f"a{i}.h5", "tail", 1 + 0.01 * i) for i in range(3)]
    after = [changed(measured.path, tmp_path / f"b{i}.h5", "tail", 1 + 0.01 * i) for i in range(3)]
    found = compare(before, after)
    assert found.noise == "Noise: between 3 and 3 repeats."
    assert found.moved == []
    found = compare([measured.path] * 3, [before[1]] * 3)
    assert [change.name for change in found.moved] == ["tail"]


def test_sides_need_runs(measured):
    with pytest.raises(ValueError, match="each side needs a run file"):
        compare([], measured.path)


def repeated(source, path, rng, slower=1.0):
    """A copy of the run with 200 chunks whose seconds scatter as in any repeat; `slower`: all of them wait longer."""
    shutil.copy(source, path)
    with h5py.File(path, "a") as f:
        rows = np.repeat(f["chunks"][:1], 200)
        rows["n_events"] = np.random.default_rng(0).integers(10_000, 50_000, 200)  # the same work
        cpu_s = rows["n_events"] * 2e-5 * rng.lognormal(0, 0.1, 200)
        waiting_s = rows["n_events"] * 2e-5 * rng.lognormal(0, 0.5, 200) * slower
        rows["cpu_s"], rows["open_s"], rows["wall_s"] = cpu_s, 0, cpu_s + waiting_s
        rows["t_end_ns"] = rows["t_end_ns"][0] + np.arange(200) * 10**8
        _replace(f, "chunks", rows)
        causes = f["summary/bottlenecks"][:]
        causes["thread_seconds"] = 0.0
        causes["thread_seconds"][causes["name"] == b"compute"] = cpu_s.sum()
        causes["thread_seconds"][causes["name"] == b"input"] = waiting_s.sum()
        causes["thread_seconds"][causes["name"] == b"tail"] = rng.uniform(1, 4)
        f["summary/bottlenecks"][:] = causes
        waterfall = f["summary/waterfall"][:]
        waterfall["thread_seconds"] = 0.0
        waterfall["thread_seconds"][0] = causes["thread_seconds"].sum()
        f["summary/waterfall"][:] = waterfall
    return path


def waiting_for_cores(path, seconds):
    """The same run, of which so many seconds were waited for a core, on hosts that ran for a minute."""
    with h5py.File(path, "a") as f:
        causes, metrics = f["summary/bottlenecks"][:], f["summary/workflow"][:]
        causes["thread_seconds"][causes["name"] == b"cores"] = seconds
        metrics["value"][metrics["name"] == b"wall_time"] = 60.0
        f["summary/bottlenecks"][:], f["summary/workflow"][:] = causes, metrics
    return path


def _replace(f, name, rows):
    del f[name]
    f.create_dataset(name, data=rows)


@pytest.mark.slow
def test_two_at_most_of_forty_pairs_of_repeats_name_a_cause_and_a_real_one_is_found(
    measured, tmp_path
):
    """Chunks scatter independently here; `tests/bench/pairs.py` has real runs."""
    rng = np.random.default_rng(7)
    a, b = tmp_path / "a.h5", tmp_path / "b.h5"
    named = found = 0
    for _ in range(40):
        repeated(measured.path, a, rng)
        named += bool(compare(a, repeated(measured.path, b, rng)).moved)
    for _ in range(10):
        moved = compare(a, repeated(measured.path, b, rng, slower=1.5)).moved
        found += [change.name for change in moved] == ["input"]
    assert named <= 2
    assert found >= 9


@pytest.mark.parametrize(("before", "after", "named"), [(100, 145, []), (20, 145, ["cores"])])
def test_other_load_of_the_hosts_is_named_only_if_it_is_much(
    measured, tmp_path, before, after, named
):
    """It lasts longer than a run: that chunks of one run differ little says nothing of the next run."""
    a, b = (
        waiting_for_cores(repeated(measured.path, tmp_path / name, np.random.default_rng(7)), s)
        for name, s in (("a.h5", before), ("b.h5", after))
    )
    found = compare(a, b)
    assert next(c.noise_s for c in found.changes if c.name == "cores") < after - before
    assert [change.name for change in found.moved] == named
