"""The tables of the report. All text from the file goes through `html.escape`."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...hook._printable import printable
from .._attempts import failures
from ..code.looks import Looks, NoLooksError, in_words
from ..report import FAILURES_SHOWN, percent, quantity, seconds

if TYPE_CHECKING:
    from ..reader import RunFile

_ROWS_MAX = 100
_UNITS = {"bytes": "B", "seconds": "s", "bytes/s": "B/s"}  # Dask's, as written here


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[Any]], note: str = "") -> str:
    """An HTML table with at most 100 rows and the number of further ones. Strings are escaped."""
    rows = list(rows)
    if not rows:
        return ""
    shown = rows[:_ROWS_MAX]
    left = [
        " class=text" if any(map(_is_text, cells)) else "" for cells in zip(*shown, strict=True)
    ]
    cells = "".join(f"<th{k}>{html.escape(name)}</th>" for name, k in zip(head, left, strict=True))
    body = "".join(
        f"<tr>{''.join(f'<td{k}>{_cell(v)}</td>' for v, k in zip(row, left, strict=True))}</tr>"
        for row in shown
    )
    more = len(rows) - _ROWS_MAX
    note = " ".join(
        filter(None, [note, f"{more:,} more rows are in the file." if more > 0 else ""])
    )
    foot = f'<p class="faint small">{html.escape(note)}</p>' if note else ""
    return f'<h3>{html.escape(title)}</h3><div class="scroll"><table><tr>{cells}</tr>{body}</table></div>{foot}'


class Text(str):
    """A left-aligned cell, whatever it begins with."""


def _is_text(value: Any) -> bool:
    """Whether its column is one of text: a quantity begins with a digit, and a dash is what is not known."""
    if isinstance(value, Text):
        return True
    quantity = isinstance(value, str) and (value[:1].isdigit() or value[:1] in "–-")
    return isinstance(value, str) and not (quantity and len(value) < 24)


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return html.escape(value)
    return f"{value:,}" if isinstance(value, (int, np.integer)) else seconds(value)


def reasons(run: RunFile) -> str:
    """The reasons of the verdict, and the notes."""
    lines = []
    for word, of in (("missing", run.reasons), ("note", run.notes)):
        for reason in of[:10]:
            text = (
                reason.get("text") or reason.get("code", "") if isinstance(reason, dict) else reason
            )
            lines.append(f'<p class="missing">{word}: {html.escape(str(text))}</p>')
        if len(of) > 10:
            lines.append(f'<p class="missing">and {len(of) - 10:,} more in the file</p>')
    lines += [
        f'<p class="missing">failed: {html.escape(str(f))}</p>'
        for f in failures(run)[:FAILURES_SHOWN]
    ]
    if run.attributes.get("exception"):
        lines.append(
            f'<p class="missing">the analysis raised: {html.escape(str(run.attributes["exception"]))}</p>'
        )
    return "".join(lines)


def _workers(run: RunFile) -> str:
    rows = sorted(run.rows("summary/per_worker"), key=lambda r: -r.thread_s)
    return table(
        "Workers",
        ("worker", "chunks", "events", "thread s", "CPU s", "idle s", "wasted s", "rate", "memory peak", "straggler score"),
        (
            (r.worker, r.n_chunks, r.n_events, r.thread_s, r.cpu_s, r.idle_s, r.wasted_s,
             quantity(r.event_rate_hz, "Hz"), quantity(r.rss_peak_b, "B"), r.straggler_score)
            for r in rows
        ),
    )  # fmt: skip


def _lines(run: RunFile) -> str:
    try:
        lines = Looks(run).lines()
    except NoLooksError:
        return ""
    return table(
        "Lines of your code",
        ("line", "function", "s", "from", "to", "share", "what the thread did", "text"),
        (
            (Text(each.name), Text(each.function), each.seconds, each.lo_s, each.hi_s, percent(each.share),
             Text(in_words(each.states, each.places)), Text(each.source))
            for each in lines
        ),
        "Each second counts once, at the innermost line that is yours; from and to are bounds of a sample, 95 of 100.",
    )  # fmt: skip


def _datasets(run: RunFile) -> str:
    return table(
        "Datasets",
        ("dataset", "files", "chunks", "events", "opening s", "process() s", "of both CPU s", "garbage s", "read", "rate",
         "per event"),
        (
            (r.dataset, r.n_files, r.n_chunks, r.n_events, r.open_s, r.wall_s, r.cpu_s, r.gc_s, quantity(r.bytes_b, "B"),
             quantity(r.event_rate_hz, "Hz"), quantity(1e6 * r.s_per_event, "µs"))
            for r in sorted(run.rows("summary/per_dataset"), key=lambda r: -sum(s for s in (r.open_s, r.wall_s) if math.isfinite(s)))
        ),
    )  # fmt: skip


def _activities(run: RunFile) -> str:
    rows = sorted(run.rows("summary/per_activity"), key=lambda r: (r.unit, -abs(r.value)))
    return table(
        "Activities",
        ("activity", "task prefix", "where", "side", "value", "of the threads"),
        (
            (r.activity, r.task_prefix or "–", r.context, r.side,
             quantity(r.value, _UNITS.get(r.unit, r.unit)),
             percent(r.fraction_of_thread_seconds))
            for r in rows
        ),
        "Transfers, gather_dep and get_data run in parallel with tasks and are not part of the sum.",
    )  # fmt: skip


def _sections(run: RunFile) -> str:
    return table(
        "Sections",
        ("section", "entries", "s", "own s", "CPU s", "95 % s", "longest s"),
        (
            (r.section, r.n, r.wall_s, r.self_s, r.cpu_s, r.dur_p95_s, r.dur_max_s)
            for r in sorted(run.rows("summary/per_section"), key=lambda r: -r.self_s)
        ),
    )


def _stragglers(run: RunFile) -> str:
    rows = sorted(run.rows("summary/stragglers"), key=lambda r: -r.excess_s)[:_ROWS_MAX]
    if not rows:
        return ""
    columns = ["file_id", "worker_id", "entry_start", "entry_stop", "wall_s", "open_s"]
    chunks = run.arrays("chunks", columns)
    took_s = chunks["wall_s"] + np.nan_to_num(chunks["open_s"])
    rows = [r for r in rows if 0 <= r.chunk_row < len(took_s)]
    files, workers = run.names("file"), run.names("worker")

    def name(of: list[str], i: int) -> str:
        return of[i] if i < len(of) else "?"

    return table(
        "Stragglers: chunks far slower than their events explain",
        ("file", "entries", "worker", "took s", "expected s", "excess s", "score"),
        (
            (name(files, chunks["file_id"][r.chunk_row]),
             f"{chunks['entry_start'][r.chunk_row]:,}–{chunks['entry_stop'][r.chunk_row]:,}",
             name(workers, chunks["worker_id"][r.chunk_row]), float(took_s[r.chunk_row]),
             r.predicted_s, r.excess_s, r.score)
            for r in rows
        ),
        "Took, expected: opening the file and process().",
    )  # fmt: skip


_AGAIN = """\
run = crema.open({path!r})
items = run.failed_items()        # what failed or is missing; fileset=... if names were cut
if items:
    runner(items, processor_instance=instance)
events = run.chunk({row}).events()  # exactly the chunk of the first row above"""


def _failed(run: RunFile) -> str:
    found = failures(run)
    if not found:
        return ""
    rows = table(
        "Failed attempts",
        ("file", "dataset", "exception", "attempts", "done later", "first row in chunks"),
        (
            (Text(f.file), Text(f.dataset), Text(f.what), len(f.rows), f.done_later, f.rows[0])
            for f in found
        ),
    )
    snippet = _AGAIN.format(path=printable(run.path), row=found[0].rows[0])
    return f"{rows}<p>Again, in Python:</p><pre>{html.escape(snippet)}</pre>"


def _wasted(run: RunFile) -> str:
    return _failed(run) + table(
        "Wasted work",
        ("worker", "what", "reason", "attempts", "later done", "events", "s"),
        (
            (r.worker, r.what, r.reason, r.n_attempts, r.n_recovered, r.n_events, r.wall_s)
            for r in sorted(run.rows("summary/wasted"), key=lambda r: -r.wall_s)
        ),
    )


def _branches(run: RunFile) -> str:
    names = run.names("branch")
    if not names:
        return ""
    shown = ", ".join(sorted(names)[:400])
    rest = f" and {len(names) - 400:,} more" if len(names) > 400 else ""
    return f"<h3>{len(names):,} branches were touched</h3><p class=small>{html.escape(shown)}{rest}</p>"


def _streams(run: RunFile) -> str:
    streams = run.rows("dict/stream")
    gaps = run.rows("gaps")
    return table(
        "Records of each stream",
        ("stream", "expected", "received", "lost", "repeats", "late", "closed"),
        (
            (f"{streams[r.stream_id].kind} {streams[r.stream_id].pid} on {streams[r.stream_id].host}"
             if r.stream_id < len(streams) else "?",
             r.expected, r.received, r.lost, r.duplicates, r.late, "yes" if r.closed else "no")
            for r in sorted(run.rows("summary/completeness"), key=lambda r: -r.lost)
        ),
    ) + table(
        "Gaps",
        ("cause", "records lost", "first", "last", "closed"),
        ((g.cause, g.n_lost, g.first_seq, g.last_seq, "yes" if g.closed else "no") for g in gaps),
    )  # fmt: skip


def _limits(run: RunFile) -> str:
    return table(
        "Limits that were met",
        ("limit", "of", "value", "times", "what is missing"),
        (
            (r.name, r.part, quantity(r.limit, r.unit), r.met, r.lost)
            for r in (run.rows("summary/limits") if "summary/limits" in run else [])
            if r.met > 0
        ),
    )


def _monitor(run: RunFile) -> str:
    return table(
        "What measuring cost",
        ("part", "CPU s", "of the threads", "µs per chunk", "records", "written"),
        (
            (r.part, r.cpu_s, percent(r.fraction), 1e6 * r.cpu_s_per_chunk,
             f"{r.records:,}" if r.records >= 0 else "–", quantity(r.bytes_b, "B"))
            for r in run.rows("summary/monitor")
        ),
    )  # fmt: skip


def _environment(run: RunFile) -> str:
    return table(
        "Environment",
        ("attribute", "value"),
        (
            (name, Text(_text(value)))
            for name, value in sorted(run.attributes.items())
            if _known(value)
        ),
    )


def _text(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 400 else text[:400] + "…"


def _known(value: Any) -> bool:
    return value not in ("", -1) and not (isinstance(value, float) and not math.isfinite(value))


RENDER: dict[str, Callable[[RunFile], str]] = {
    "activities": _activities,
    "branches": _branches,
    "datasets": _datasets,
    "environment": _environment,
    "limits": _limits,
    "lines": _lines,
    "monitor": _monitor,
    "sections": _sections,
    "stragglers": _stragglers,
    "streams": _streams,
    "wasted": _wasted,
    "workers": _workers,
}
