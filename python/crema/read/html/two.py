"""The comparison of two runs as a page."""

from __future__ import annotations

import html
import math
import os
import pathlib
from typing import TYPE_CHECKING

from .. import _output
from .._numbers import readable
from ..report import difference_tables
from .page import document, write_text
from .tables import table

if TYPE_CHECKING:
    from ..compare import Change, Comparison

_ROW, _LEFT, _WIDTH = 26, 170, 900
_SHOWN = 12


def write_comparison(found: Comparison, path: str | os.PathLike) -> pathlib.Path:
    """Write the page; an existing file is replaced.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    page = _output.file(path)
    write_text(page, document("Two runs", _body(found)))
    return page


def _body(found: Comparison) -> str:
    partial = "".join(
        f'<p class="missing">records are missing from {html.escape(label)}: its numbers may be too small</p>'
        for label in found.partial
    )
    moved = "".join(f"<li>{_sentence(change, found.unit)}</li>" for change in found.moved)
    sides = f"{', '.join(found.before)} → {', '.join(found.after)}"
    tables = {title: table(title, head, rows) for title, head, rows in difference_tables(found)}
    return (
        f"<header><h1>What changed?</h1><p class=faint>{html.escape(sides)}</p>{partial}</header>"
        f"<p><b>{html.escape(found.sentence())}</b></p>"
        + tables.get("Set-up that differs", "")
        + (f'<ol class="findings">{moved}</ol>' if moved else f"<p>{html.escape(found.about_causes())}</p>")
        + f'<p class="faint small">{html.escape(found.noise)}</p>'
        + f"<figure data-name=causes>{_bars(found)}</figure>"
        + tables.get("Numbers", "")
        + table(
            f"All causes, {found.unit}",
            ("cause", "before", "after", "difference", "noise ±", "changed"),
            (
                (c.name.replace("_", " "), c.before_s, c.after_s, c.difference_s, c.noise_s,
                 "yes" if c.moved else "no")
                for c in found.changes
            ),
        )
    )  # fmt: skip


def _sentence(change: Change, unit: str) -> str:
    way = "more" if change.difference_s > 0 else "less"
    noise = (
        f"the noise is ±{readable(change.noise_s, 2)}"
        if math.isfinite(change.noise_s)
        else "a run has it only once, so its noise is not known"
    )
    name = html.escape(change.name.replace("_", " "))
    return (
        f"<b>{name}: {readable(abs(change.difference_s))} {unit} {way}</b><br>"
        f'<span class="evidence">{readable(change.before_s)} before, {readable(change.after_s)} after; {noise}.</span>'
    )


def _bars(found: Comparison) -> str:
    """Differences of the causes as bars left and right of nothing, with their noise; bold where one moved."""
    shown = [c for c in found.changes if math.isfinite(c.difference_s)][:_SHOWN]
    reach = max(
        [1e-12]
        + [abs(c.difference_s) + (c.noise_s if math.isfinite(c.noise_s) else 0) for c in shown]
    )
    middle, scale = _LEFT + (_WIDTH - _LEFT) / 2, 0.42 * (_WIDTH - _LEFT) / reach
    parts = [
        f'<line x1="{middle}" x2="{middle}" y1="0" y2="{_ROW * len(shown)}" stroke="#6b7280"/>'
    ]
    for i, change in enumerate(shown):
        y, width = _ROW * i, abs(change.difference_s) * scale
        x = middle if change.difference_s > 0 else middle - width
        colour = "#e9a23b" if change.difference_s > 0 else "#2b6ca3"
        weight = ' font-weight="bold"' if change.moved else ""
        opacity = 1 if change.moved else 0.4
        parts.append(
            f'<text x="{_LEFT - 8}" y="{y + 17}" text-anchor="end" font-size="13px"{weight}>'
            f"{html.escape(change.name.replace('_', ' '))}</text>"
            f'<rect x="{x:.2f}" y="{y + 4}" width="{max(width, 0.5):.2f}" height="{_ROW - 8}" fill="{colour}" opacity="{opacity}"/>'
        )
        if math.isfinite(change.noise_s):
            end = middle + change.difference_s * scale
            low, high = end - change.noise_s * scale, end + change.noise_s * scale
            parts.append(
                f'<line x1="{low:.2f}" x2="{high:.2f}" y1="{y + 13}" y2="{y + 13}" stroke="#222222" stroke-width="1.5"/>'
            )
    height = _ROW * len(shown) + 24
    parts.append(
        f'<text x="{middle}" y="{height - 6}" text-anchor="middle" font-size="12px" fill="#6b7280">'
        f"less ← difference in {html.escape(found.unit)} → more; line: noise</text>"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="Which cause changed?" '
        f'viewBox="0 0 {_WIDTH} {height}">{"".join(parts)}</svg>'
    )
