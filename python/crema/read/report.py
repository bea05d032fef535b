"""Prints a run file to a terminal. Every number is read from the file; nothing is computed here."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ..hook._printable import printable
from ._attempts import failures
from ._numbers import readable
from .code.looks import Looks, NoLooksError, in_words
from .compare import METRICS
from .reader import RunFile, silence
from .reader import open as open_run

if TYPE_CHECKING:
    import pandas as pd

    from .code.looks import Line
    from .compare import Comparison

ROWS_MAX = 20  # of a table with a row per dataset, worker, section
_WIDE = 120  # columns of a terminal that have room for sentences in a table
_SOURCE_LEAST = 12  # columns: less are not worth a piece of a line of code
BOTTLENECKS_SHOWN = 5
FAILURES_SHOWN = 3
BOTTLENECK_LEAST = 0.01  # of the capacity

# Title -> rows of summary/workflow, what people call them.
SECTIONS: dict[str, dict[str, str]] = {
    "Throughput": {
        "data_rate_gbps": "Data rate, in bits",
        "data_rate_mb_s": "Data rate",
        "wire_rate_gbps": "Network interfaces",
        "total_bytes_read_coffea": "Bytes read",
        "total_bytes_uncompressed": "Bytes, uncompressed",
        "compression_ratio": "Compression ratio",
    },
    "Event processing": {
        "total_events": "Events",
        "event_rate_wall_clock": "Event rate, wall clock",
        "event_rate_aggregated": "Event rate, per busy slot",
        "event_rate_core_averaged": "Event rate, per thread",
        "event_rate_per_cpu_s": "Events per CPU second",
    },
    "Resources": {
        "time_avg_workers": "Workers, average",
        "peak_workers": "Workers, peak",
        "total_cores": "Threads, average",
        "cores_per_worker": "Threads per worker",
        "avg_memory_per_worker": "Memory per worker, average",
        "peak_memory_per_worker": "Memory per worker, peak",
        "memory_utilization_max": "Memory, most of its limit",
        "cpu_pct_avg": "CPU, of one core",
        "slot_busy_pct": "Slots busy",
    },
    "Timing": {
        "wall_time": "Wall time",
        "process_wall_time": "process(), wall time",
        "process_cpu_time": "opening and process(), CPU time",
        "num_chunks": "Chunks",
        "avg_cpu_time_per_chunk": "process() per chunk",
        "chunk_wall_p95": "process() per chunk, 95 %",
        "chunk_wall_max": "process() per chunk, longest",
    },
    "Efficiency": {
        "core_occupancy": "Slots busy with chunks",
        "core_efficiency": "Slots in process()",
        "cpu_efficiency": "CPU efficiency",
        "speedup": "Mean busy slots",
        "noncpu_fraction_task": "Not on CPU, of task time",
        "processor_cpu_percentage": "Processor tasks on CPU",
        "total_serialization_overhead_seconds": "Serialization",
        "total_compression_overhead_seconds": "Compression",
    },
}

_STATUS_MARKS = {"estimated": "≈", "incomplete": "incomplete", "unavailable": "unavailable"}
_VERDICT_STYLES = {"COMPLETE": "bold green", "PARTIAL": "bold yellow", "OPEN": "bold blue"}


def print_report(path: str | os.PathLike, *, console: Console | None = None) -> None:
    """Print verdict and tables of a run file.

    Parameters
    ----------
    path : path
        Run file, sealed or live.
    console : rich.console.Console, optional
        Standard output if not given.

    Raises
    ------
    FileNotFoundError, RunFileError
        As `crema.open` does.
    """
    with open_run(path) as run:
        if console is not None:
            console.print(render(run))
            return
        console = Console()
        if console.encoding.startswith("utf") or console.is_jupyter:
            console.print(render(run))
            return
        with console.capture() as printed:
            console.print(render(run))
        text = printed.get().encode(console.encoding, "replace").decode(console.encoding)
        console.file.write(text)


def render(run: RunFile) -> Group:
    """Everything that `print_report` prints."""
    run = run.as_shown()
    if run.live:
        silent = silence(run.path)
        line = [Text(f"  this file {silent}", style="bold red")] if silent else []
        return Group(verdict(run), *line, _live(run))
    parts = [
        *metrics(run),
        _split(run),
        _waterfall(run),
        *_datasets(run),
        *_sections(run),
        *_code(run),
    ]
    return Group(verdict(run), *failed(run), *_bottlenecks(run), *parts, *_monitor(run))


def verdict(run: RunFile) -> Text:
    """Whether the file has everything, and what is missing; a notebook shows it as it is."""
    run = run.as_shown()
    attributes = run.attributes
    label = attributes.get("run_label") or attributes.get("processor_name") or ""
    head = Text.assemble(
        ("crema  ", "bold"),
        (run.verdict, _VERDICT_STYLES.get(run.verdict, "bold red")),
        f"  {label}  run {run.run_id}",
    )
    lines = [head, *_what("note", run.notes), *_what("missing", run.reasons)]
    if attributes.get("exception"):
        lines.append(Text(f"  the analysis raised: {attributes['exception']}", style="red"))
    lines.append(Text(f"  {printable(run.path)}", style="dim"))
    return Text("\n").join(lines)


Rows = list[tuple[str, ...]]


def difference_tables(found: Comparison) -> list[tuple[str, tuple[str, ...], Rows]]:
    """Title, headings and rows of what differs between two runs, set-up first."""
    numbers = []
    for name, (before, after, unit) in found.metrics.items():
        change = f"{found.change_percent(name):+.1f} %".replace("-0.0", "+0.0") if before else "–"
        if before > 0 and after >= 2 * before:
            change = f"{readable(after / before)} times"
        numbers.append((METRICS[name], quantity(before, unit), quantity(after, unit), change))
    causes = [
        (c.name.replace("_", " "), *map(seconds, (c.before_s, c.after_s, c.difference_s, c.noise_s)),
         "changed" if c.moved else "")
        for c in found.changes
        if c.moved or c.share >= BOTTLENECK_LEAST
    ]  # fmt: skip
    set_up = [
        (name, before or "–", after or "–") for name, (before, after) in found.settings.items()
    ]
    tables = [
        ("Set-up that differs", ("", "before", "after"), set_up),
        (f"Causes, {found.unit}", ("", "before", "after", "difference", "noise ±", ""), causes),
        ("Numbers", ("", "before", "after", "change"), numbers),
    ]
    return [table for table in tables if table[2]]


def _difference_lines(found: Comparison) -> list[str]:
    """Below the first sentence."""
    more = [] if found.sentence() == found.about_causes() else [found.about_causes()]
    partial = [
        f"Records are missing from {label}: its numbers may be too small."
        for label in found.partial
    ]
    return [*more, found.noise, *partial]


def difference(found: Comparison) -> Group:
    """What `crema diff` prints."""
    parts: list[Any] = []
    for title, headings, rows in difference_tables(found):
        table = _table(title, *headings)
        if len(headings) == 3:  # settings, which may be long
            for column in table.columns[1:]:
                column.justify, column.no_wrap, column.overflow = "left", False, "fold"
        for row in rows:
            table.add_row(*map(escape, row))
        parts.append(table)
    lines = [Text(line) for line in _difference_lines(found)]
    first = parts[:1] if found.settings else []
    return Group(Text(found.sentence(), style="bold"), *first, *lines, *parts[len(first) :])


def difference_as_markdown(found: Comparison) -> str:
    """What `crema diff --markdown` prints; nothing of a user's text is Markdown or HTML."""

    def plain(text: str) -> str:
        text = re.sub(r"([\\`*_{}\[\]<|~!])", r"\\\1", " ".join(text.split()))
        return re.sub(r"[@#&]", lambda sign: f"&#{ord(sign[0])};", text)  # of people and issues

    sides = f"{', '.join(found.before)} → {', '.join(found.after)}"
    lines = [f"**{plain(found.sentence())}**", f"\nRuns: {plain(sides)}"]
    lines += [f"\n{plain(line)}" for line in _difference_lines(found)]
    for title, headings, rows in difference_tables(found):
        lines += ["", f"{title}:", ""]
        rule = tuple(
            "---" if i == 0 or len(headings) == 3 else "---:" for i in range(len(headings))
        )
        for row in (headings, rule, *rows):
            lines.append(f"| {' | '.join(row if row is rule else map(plain, row))} |")
    return "\n".join(lines)


def run_list(frame: pd.DataFrame, width: int) -> Table | Text:
    """What `crema runs` prints of the table that `crema.runs` makes; label and file are on a line below if there is not enough room."""
    title = f"{len(frame):,} run{'s' * (len(frame) != 1)}"
    headings = ("began", "verdict", "wall s", "events", "rate", "threads")

    def known(row: Any, name: str) -> float:
        value = getattr(row, name, math.nan)
        return float(value) if value is not None else math.nan

    rows = [
        (
            f"{row.t_run_start:%Y-%m-%d %H:%M}" if row.t_run_start == row.t_run_start else "–",
            printable(row.verdict),
            seconds(known(row, "wall_time")),
            quantity(known(row, "total_events"), "count"),
            quantity(1000 * known(row, "event_rate_wall_clock"), "Hz"),
            quantity(known(row, "total_cores"), "count"),
            printable(row.run_label),
            printable(row.file),
        )
        for row in frame.itertuples()
    ]
    widest = [
        max(map(len, column)) for column in zip((*headings, "label", "file"), *rows, strict=True)
    ]
    if width < sum(widest) + 3 * len(widest):
        return _two_lines(title, headings, rows, widest)
    table = _table(title, *headings, "label", "file")
    for i in (-2, -1):
        table.columns[i].justify = "left"
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _two_lines(
    title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], widest: Sequence[int]
) -> Text:
    """A line of numbers for each run, and one of its label and file."""

    def line(cells: Sequence[str]) -> str:
        first, *rest = zip(cells, widest, strict=False)
        return "  ".join([first[0].ljust(first[1]), *(cell.rjust(n) for cell, n in rest)])

    n = len(headings)
    lines = [Text(title, style="bold"), Text(line(headings), style="bold")]
    for row in rows:
        lines += [Text(line(row[:n])), Text("  " + "  ".join(filter(None, row[n:])), style="dim")]
    return Text("\n").join(lines)


def _what(word: str, reasons: Sequence[Any]) -> list[Text]:
    """A line for each reason or note."""
    lines = []
    for reason in reasons[:ROWS_MAX]:
        line = str(reason)
        if isinstance(reason, dict):
            line = str(reason.get("text") or reason.get("code", ""))
            subject = str(reason.get("subject", ""))
            if subject and subject not in line:
                line += f" [{subject}]"
            if reason.get("count") and str(reason["count"]) not in line:
                line += f" ({reason['count']} records)"
        lines.append(Text(f"  {word}: {line}", style="yellow"))
    if len(reasons) > ROWS_MAX:
        lines.append(Text(f"  and {len(reasons) - ROWS_MAX} more in the file", style="yellow"))
    return lines


def failed(run: RunFile) -> list[Text]:
    """A line for each file and exception with which attempts failed, the most frequent ones."""
    found = failures(run)
    lines = [Text(f"  failed: {each}", style="yellow") for each in found[:FAILURES_SHOWN]]
    if rest := sum(len(each.rows) for each in found[FAILURES_SHOWN:]):
        lines.append(
            Text(f"  and {rest:,} more attempts failed: crema report lists them", style="yellow")
        )
    return lines


def metrics(run: RunFile) -> list[Table]:
    """Metrics of the whole run, one table per subject.

    Raises
    ------
    KeyError
        If the file has no summaries: it is live.
    """
    workflow = {row.name: row for row in run.rows("summary/workflow")}
    tables = [_metrics(title, rows, workflow) for title, rows in SECTIONS.items()]
    return [table for table in tables if table is not None]


def _live(run: RunFile) -> Table:
    table = _table("So far", "table", "rows")
    for name in run:
        table.add_row(name, f"{len(run.file[name]):,}")
    return table


class _ByRoom:
    """One of two forms: the wide one where the terminal has so many columns."""

    def __init__(self, least: int, wide: Table, narrow: Group) -> None:
        self._least, self._wide, self._narrow = least, wide, narrow

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self._wide if options.max_width >= self._least else self._narrow


def _bottlenecks(run: RunFile) -> list[_ByRoom]:
    """What costs most, with the figures and what to try; nothing for a file that is too old to know."""
    rows = sorted(run.rows("summary/bottlenecks"), key=lambda row: row.rank)
    headings = ("What holds it back", "", "s", "share", "saves s")
    wide, numbers, why = _table(*headings, "because", "try"), _table(*headings), []
    for row in rows[:BOTTLENECKS_SHOWN]:
        if row.fraction >= BOTTLENECK_LEAST or grows(row):
            name = row.name.replace("_", " ") + (" ?" if row.status == "ambiguous" else "")
            cells = escape(name), seconds(row.thread_seconds), percent(row.fraction), _saving(row)
            wide.add_row(*cells, escape(row.evidence), escape(row.advice))
            numbers.add_row(*cells)
            said = (row.evidence, f"to try: {row.advice}" if row.advice else "")
            if any(said):
                why.append(Text(f"  {name}: {'; '.join(filter(None, said))}"))
    if any(row.status == "ambiguous" for row in rows):
        for table in (wide, numbers):
            table.caption = "? another cause explains the same seconds as well"
            table.caption_justify = "left"
    for column in wide.columns[4:]:
        column.justify, column.no_wrap = "left", False
    narrow = Group(numbers, *why, Text(""))
    return [_ByRoom(_WIDE, wide, narrow)] if wide.row_count else []


def grows(row: Any) -> bool:
    """Whether a cause is memory that will be full: it has cost no seconds yet."""
    return bool(row.name == "memory_growth" and row.evidence)


def _saving(row: Any) -> str:
    """How much shorter the run would be, with its bounds."""
    are_known = math.isfinite(row.lo) and math.isfinite(row.hi)
    bounds = f" ({readable(row.lo)} to {readable(row.hi)})" if are_known else ""
    return seconds(row.saving_s) + bounds


def _monitor(run: RunFile) -> list[Table]:
    rows = run.rows("summary/monitor")
    table = _table(
        "What measuring cost", "", "CPU s", "share", "µs per chunk", "records", "written", ""
    )
    for row in rows:
        table.add_row(
            escape(row.part),
            seconds(row.cpu_s),
            percent(row.fraction),
            f"{1e6 * row.cpu_s_per_chunk:,.0f}" if math.isfinite(row.cpu_s_per_chunk) else "–",
            f"{row.records:,}" if row.records >= 0 else "–",
            quantity(row.bytes_b, "B"),
            _STATUS_MARKS.get(row.status, ""),
        )
    return [table] if rows else []


def _metrics(title: str, names: dict[str, str], workflow: dict[str, Any]) -> Table | None:
    table = _table(title, "", "value", "")
    for name, label in names.items():
        row = workflow.get(name)
        if row is None or (row.status == "unavailable" and not math.isfinite(row.value)):
            continue
        table.add_row(label, quantity(row.value, row.units), _STATUS_MARKS.get(row.status, ""))
    return table if table.row_count else None


def _split(run: RunFile) -> Table:
    table = _table(
        "Where the task seconds went",
        "side",
        "CPU s",
        "not CPU s",
        "runtime s",
        "failed s",
        "bytes",
    )
    for row in run.rows("summary/split"):
        mark = "" if row.in_budget else " *"
        numbers = [seconds(v) for v in (row.cpu_s, row.noncpu_s, row.runtime_s, row.failed_s)]
        table.add_row(escape(row.side) + mark, *numbers, quantity(row.bytes_b, "B"))
    table.caption = "* runs in parallel with the others, not part of the sum"
    table.caption_justify = "left"
    return table


def _waterfall(run: RunFile) -> Table:
    table = _table("Thread-seconds of the run", "category", "s", "share", "")
    for row in sorted(run.rows("summary/waterfall"), key=lambda row: row.rank):
        share = row.fraction if math.isfinite(row.fraction) else 0.0
        bar = "█" * max(0, min(30, round(30 * share)))
        table.add_row(escape(row.category), seconds(row.thread_seconds), percent(row.fraction), bar)
    return table


def _datasets(run: RunFile) -> list[Table]:
    rows = run.rows("summary/per_dataset")
    table = _table(
        "Datasets",
        "dataset",
        "files",
        "chunks",
        "events",
        "opening s",
        "process() s",
        "CPU s",
        "read",
        "rate",
    )
    for row in rows[:ROWS_MAX]:
        table.add_row(
            escape(row.dataset),
            *(f"{n:,}" for n in (row.n_files, row.n_chunks, row.n_events)),
            *map(seconds, (row.open_s, row.wall_s, row.cpu_s)),
            quantity(row.bytes_b, "B"),
            quantity(row.event_rate_hz, "Hz"),
        )
    return _with_rest(table, rows)


def _sections(run: RunFile) -> list[Table]:
    rows = run.rows("summary/per_section")
    table = _table("Sections", "section", "entries", "s", "own s", "CPU s", "95 % s", "longest s")
    for row in rows[:ROWS_MAX]:
        numbers = (row.wall_s, row.self_s, row.cpu_s, row.dur_p95_s, row.dur_max_s)
        table.add_row(escape(row.section), f"{row.n:,}", *map(seconds, numbers))
    return _with_rest(table, rows)


def hot_lines(lines: list[Line], width: int) -> list[Text]:
    """A row per line of code, as wide as the terminal if that leaves each name whole; 0: of any width."""
    seconds = [f"{line.seconds:,.2f}" for line in lines]
    states = [in_words(line.states, line.places) for line in lines]
    first = max(map(len, [*seconds, "seconds"]))
    name = max([len(line.name) for line in lines] + [4])
    words = max([len(words) for words in states] + [6])
    left = first + 8 + name + 4  # before the states
    if width:
        words = min(words, max(width - left - 2, 0))
    room = width - left - words - 2 if width else 1 << 16
    rows = [Text(f"{'seconds':>{first}}  share  {'line':{name}}  states", style="bold")]
    for line, s, said in zip(lines, seconds, states, strict=True):
        row = Text(f"{s:>{first}}  {100 * line.share:3.0f} %  ")
        row.append(f"{line.name:{name}}", style="bold" if line.file else "dim")
        row.append("  " + _cut(said, words).ljust(words if line.source else 0))
        if line.source and room >= _SOURCE_LEAST:
            row.append("  " + _cut(line.source, room), style="dim")
        row.rstrip()
        rows.append(row)
    return rows


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: max(room - 1, 0)] + "…" * (room > 0)


class _HotLines:
    """The hottest lines of the user's code, as wide as the terminal."""

    def __init__(self, looks: Looks) -> None:
        self._lines = looks.lines()[:ROWS_MAX]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text("Lines of your code", style="bold")
        for row in hot_lines(self._lines, options.max_width):
            row.no_wrap, row.overflow = True, "ignore"
            yield row
        yield Text("")


def _code(run: RunFile) -> list[Any]:
    """Seconds by line and by section, with what the threads did there; nothing for a file without looks."""
    try:
        looks = Looks(run)
    except NoLooksError:
        return []
    table = _table("Sections, by what their threads did", "section", "s", "")
    for name, states in list(looks.sections().items())[:ROWS_MAX]:
        cells = seconds(sum(states.values())), in_words(states)
        table.add_row(escape(name or "outside sections"), *cells)
    return [_HotLines(looks), *([table] if table.row_count > 1 else [])]


def _with_rest(table: Table, rows: Sequence[Any]) -> list[Table]:
    if len(rows) > ROWS_MAX:
        table.caption = f"and {len(rows) - ROWS_MAX} more in the file"
    return [table] if rows else []


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, title_style="bold")
    for i, column in enumerate(columns):
        left = i == 0 or column == ""
        table.add_column(column, justify="left" if left else "right", no_wrap=True)
    return table


def seconds(value: float) -> str:
    """A number of seconds; a dash if it is unknown."""
    return f"{value:z,.2f}" if math.isfinite(value) else "–"


def percent(fraction: float) -> str:
    """A fraction in percent; a dash if it is unknown."""
    return f"{100 * fraction:z.1f} %" if math.isfinite(fraction) else "–"


def quantity(value: float, unit: str) -> str:
    """A number with its unit for display; a dash if it is unknown.

    Bytes, rates and Hz are scaled by 1000, seconds stay seconds.
    """
    if value is None or not math.isfinite(value) or (unit == "B" and value < 0):
        return "–"
    if unit in ("B", "B/s"):
        return _scaled(value, [p + unit for p in ("", "k", "M", "G", "T", "P")])
    if unit == "Gbit/s":
        return _scaled(1e9 * value, ("bit/s", "kbit/s", "Mbit/s", "Gbit/s"))
    if unit in ("Hz", "1/s"):
        return _scaled(value, ("Hz", "kHz", "MHz", "GHz"))
    if unit == "count":
        return f"{value:,.0f}" if float(round(value, 2)).is_integer() else f"{value:,.2f}"
    number = f"{value:,.3g}" if abs(value) < 100 else f"{value:,.1f}"
    return number if unit in ("", "1") else f"{number} {unit}"


def _scaled(value: float, units: Sequence[str]) -> str:
    for unit in units[:-1]:
        if abs(float(f"{value:.3g}")) < 1000:  # 999.9 kB are 1 MB, not 1e+03 kB
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:,.3g} {units[-1]}"
