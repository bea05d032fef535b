"""The report of a run: a self-contained page.

The first screen is static HTML and SVG, for mail and JupyterLab run no scripts. Below it one script draws the task stream
and the chunks. The page forbids itself everything else: it loads nothing, and nothing leaves it.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import hashlib
import html
import importlib.resources
import os
import pathlib
import secrets
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .. import _output
from .._notes import STEPPED
from ..plots import REGISTRY
from ..reader import open as open_run
from . import figures, packed, packed_looks, tables
from .sentences import findings, headline

if TYPE_CHECKING:
    from ..reader import RunFile

# Headings of the figures, in order; each with what tables follow it.
_GROUPS = {
    "Budget": ("activities", "datasets", "sections"),
    "Code": ("lines",),
    "Timelines": (),
    "Tasks": (),
    "Chunks": ("stragglers",),
    "Workers": ("workers", "wasted"),
    "Data": ("branches",),
    "Trust": ("streams", "limits", "monitor", "environment"),
}
_FIRST = "waterfall"  # on the first screen


def write_report(
    run: str | os.PathLike | RunFile,
    path: str | os.PathLike | None = None,
    *,
    figures_to: str | os.PathLike | None = None,
) -> pathlib.Path:
    """Write the report of a run.

    Parameters
    ----------
    run : path or RunFile
        Sealed.
    path : path, optional
        Path of the page; by default beside the run file, with the ending ``.html``. An existing file is replaced.
    figures_to : path, optional
        Directory to which each figure is also written as ``NAME.svg``; created if it does not exist.

    Returns
    -------
    pathlib.Path
        Path of the page.

    Raises
    ------
    FileNotFoundError, RunFileError
        As `crema.open` does.
    KeyError
        If the file has no summaries: it is live.
    OSError
        If the page cannot be written, or would replace a run file.
    """
    with contextlib.ExitStack() as stack:
        if isinstance(run, (str, os.PathLike)):
            run = stack.enter_context(open_run(run))
        run = run.as_shown()
        if "summary/workflow" not in run.file:
            raise KeyError(f"{run.path} has no summaries: it is not sealed yet")
        page = _output.file(path or run.path.with_suffix(".html"))  # said before figures are drawn
        figures_dir = None if figures_to is None else _output.directory(figures_to)
        run.arrays("chunks", list(run.file["chunks"].dtype.names))  # at once: most are needed
        drawn = {name: figures.draw(entry, run) for name, entry in _entries()}
        if figures_dir is not None:
            _write_figures(figures_dir, drawn)
        first = drawn[_FIRST][0]
        first += figures.draw(REGISTRY[_FIRST], run, inches=figures.NARROW_INCHES)[0]
        data, left_out = packed.pack(run)
        write_text(page, document(_title(run), _body(run, first, drawn, left_out), data))
    return page


def document(title: str, body: str, data: str = "") -> str:
    """The page around a body: its policy, its style, its script, and what the script draws."""
    css, js = resource("page.css"), resource("page.js") + resource("flame.js")
    policy = (
        f"default-src 'none'; script-src {_hash(js)}; style-src {_hash(css)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{css}</style></head>\n<body><main>\n{body}\n</main>\n"
        f'<div id="tip" role="status"></div><script type="text/plain" id="data">{data}</script>\n'
        f"<script>{js}</script></body></html>\n"
    )


def write_text(path: pathlib.Path, text: str) -> None:
    """Write a file completely or not at all. What a link names is replaced, not the link; a device or a pipe is written to."""
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    path = path.resolve()
    fresh = path.parent / f".crema-{secrets.token_hex(8)}.html"
    try:
        with fresh.open("x", encoding="utf-8") as file:  # with the mode that the umask gives
            file.write(text)
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


# ---------------------------------------------------------------- parts


def _entries() -> Iterable[tuple[str, Any]]:
    return ((n, e) for n, e in REGISTRY.items() if n == e.name and not e.across)


def _title(run: RunFile) -> str:
    attributes = run.attributes
    return str(attributes.get("run_label") or attributes.get("processor_name") or run.run_id)


def _body(run: RunFile, first: str, drawn: dict[str, tuple[str, str]], left_out: str) -> str:
    parts = [first_screen(run, first)]
    parts.append("<nav>" + " ".join(f'<a href="#{g}">{g}</a>' for g in _GROUPS) + "</nav>")
    for group, names in _GROUPS.items():
        parts.append(f'<h2 id="{group}">{_HEADINGS.get(group, group)}</h2>')
        if group == "Tasks":
            parts.append(_canvases(left_out))
        nothing = []
        for name, entry in _entries():
            svg, why = drawn[name]
            if entry.group != group or name == _FIRST:
                continue
            if why:
                nothing.append(
                    f"<p class=faint><b>{html.escape(entry.question)}</b> {html.escape(why)}.</p>"
                )
            else:
                parts.append(f'<figure data-name="{name}">{svg}</figure>')
        if group == "Code":
            parts.append(flame(run))
        parts += nothing
        parts += [tables.RENDER[name](run) for name in names]
    return "\n".join(parts)


_HEADINGS = {
    "Budget": "Where the seconds went",
    "Code": "Lines of your code",
    "Tasks": "Task stream",
    "Trust": "Can it be trusted?",
}


def first_screen(run: RunFile, waterfall: str = "") -> str:
    """Verdict, headline, diagnosis and the picture given: HTML and SVG that need no script."""
    attributes = run.attributes
    when = datetime.datetime.fromtimestamp(attributes["t_run_start_ns"] * 1e-9, datetime.UTC)
    where = " · ".join(
        html.escape(str(attributes.get(name)))
        for name in ("processor_name", "backend", "facility", "user")
        if attributes.get(name)
    )
    tiles = "".join(
        f'<div class="tile"><b>{html.escape(value)}</b>{html.escape(label)}'
        + (f' <span class="doubt small">{html.escape(mark)}</span>' if mark else "")
        + "</div>"
        for label, value, mark in headline(run)
    )
    return (
        f"<header><h1>{html.escape(_title(run))}</h1>"
        f'<p><span class="verdict {html.escape(run.verdict)}">{html.escape(run.verdict)}</span>'
        f'<span class="faint">{when:%Y-%m-%d %H:%M:%S} UTC · {where} · run {html.escape(run.run_id)}</span></p>'
        f"{tables.reasons(run)}</header>"
        f'<div class="tiles">{tiles}</div>'
        f"<h3>What holds it back</h3>{_diagnosis(run)}"
        f'<figure data-name="{_FIRST}" class="both">{waterfall}</figure>'
    )


def _diagnosis(run: RunFile) -> str:
    items = []
    for f in findings(run):
        lines = [f"<b>{html.escape(f.finding)}</b>"]
        lines.append(html.escape(f.saving))
        if f.doubt:
            lines.append(f'<span class="doubt">{html.escape(f.doubt)}</span>')
        if f.evidence:
            lines.append(f'<span class="evidence">Evidence: {html.escape(f.evidence)}.</span>')
        if f.advice:
            lines.append(f'<span class="try">{html.escape(f.advice)}.</span>')
        items.append("<li>" + "<br>".join(line for line in lines if line) + "</li>")
    if not items:
        why = "no cause reaches 1 % of the thread-seconds"
        if STEPPED in run.attributes:
            why = "the wall clock was set during the run"
        return f'<p class="faint">The data support no diagnosis: {why}.</p>'
    return (
        f'<ol class="findings">{"".join(items)}</ol>'
        '<p class="faint small">Savings do not add up. Every number is from <code>/summary/bottlenecks</code> of the file.</p>'
    )


def flame(run: RunFile) -> str:
    """The icicle that a script draws; nothing without looks."""
    data, left_out = packed_looks.pack(run)
    if not data:
        return ""
    note = f'<p class="faint small">{html.escape(left_out)}</p>' if left_out else ""
    choices = "".join(
        f'<select data-of="{what}" aria-label="{what}"><option value="-1">all {what}s</option></select>'
        for what in ("phase", "state", "dataset", "worker")
    )
    return (
        "<div class=needs-script hidden><h3>From the outermost call to the innermost</h3>"
        '<p class="small faint">Click a frame to see it alone, one above it to go back; keys ↑ ↓ ← → Esc. '
        "The strip below a frame has the states of its seconds.</p>"
        f'<div class="bar" id="choices">{choices}<button id="outermost">all of it</button></div>'
        '<div class="bar" id="states"></div>'
        f'<div class="canvas"><canvas id="flame" tabindex="0" data-looks="{data}" '
        'aria-label="Icicle: each frame below its caller, as wide as its seconds"></canvas></div>'
        f'<div class="bar"><span id="frame"></span></div>{note}</div>'
    )


def _canvases(left_out: str) -> str:
    note = f'<p class="missing">{html.escape(left_out)}</p>' if left_out else ""
    return (
        f"{note}<div class=needs-script hidden>"
        '<div class="bar" id="sides"></div>'
        '<p class="small faint">Ctrl or ⌘ and wheel: zoom in time, with Shift in threads. Drag to move, double-click for all of it; '
        "keys + − ← → Esc. Click a task to mark it.</p>"
        '<div class="canvas"><canvas id="stream" tabindex="0" aria-label="Task stream: every task on its thread"></canvas></div>'
        '<div class="bar"><span id="range"></span><button id="whole">all of it</button></div>'
        "<h3>Chunks in this window: time in process() against events</h3>"
        '<div class="bar"><select id="dataset" aria-label="dataset"><option value="-1">all datasets</option></select>'
        '<span id="shown"></span></div>'
        '<div class="canvas"><canvas id="chunks" aria-label="Chunks: seconds against events"></canvas></div></div>'
    )


def _write_figures(directory: pathlib.Path, drawn: dict[str, tuple[str, str]]) -> None:
    for name, (svg, _) in drawn.items():
        if svg:
            (directory / f"{name}.svg").write_text(figures.standalone(svg), encoding="utf-8")


def resource(name: str) -> str:
    """The text of a file of this package."""
    return importlib.resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
