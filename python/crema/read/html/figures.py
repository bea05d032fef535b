"""Pictures of the registry as SVG elements for a page: without styles, and with text as text."""

from __future__ import annotations

import io
import logging
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..plots import Plot

logger = logging.getLogger("crema")

WIDTH_INCHES = 9.0
NARROW_INCHES = 4.4  # a telephone's, at the same size of text
_STYLE = re.compile(r' style="([^"]*)"')
_FONT = re.compile(r"(?:(\w+) )?([\d.]+)px (.*)")


def draw(entry: Plot, of: Any, *, inches: float = WIDTH_INCHES) -> tuple[str, str]:
    """Draw a picture as an SVG element, or return the reason why there is nothing to draw or an error stopped it.

    Parameters
    ----------
    entry : Plot
        From the registry.
    of : RunFile or Series
        What is drawn.
    inches : float, optional
        Width.

    Returns
    -------
    str
        The element, empty if there is nothing to draw. It has no style attribute, so that a page may forbid them.
    str
        Why there is nothing to draw, empty if there is.
    """
    kind = "wide" if inches == WIDTH_INCHES else "narrow"
    try:
        svg, empty = _drawn(entry, of, inches)
    except Exception as error:  # values that no sink writes must not cost the other pictures
        logger.debug("crema: the picture %s cannot be drawn", entry.name, exc_info=True)
        return "", f"it cannot be drawn: {type(error).__name__}: {error}"
    return (_plain(svg, entry, kind) if svg else ""), empty


def _drawn(entry: Plot, of: Any, inches: float) -> tuple[str, str]:
    """The picture as matplotlib writes it, or why there is nothing to draw."""
    from matplotlib import style
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import TightLayoutEngine

    own = {"svg.fonttype": "none", "svg.hashsalt": entry.name, "font.size": 10}
    with style.context(
        own, after_reset=True
    ):  # a page has its own style, whatever the session's is
        figure = Figure(figsize=(inches, entry.height), layout="none")
        ax = figure.add_subplot()
        entry.draw(of, ax)
        if empty := getattr(ax, "crema_empty", ""):
            return "", empty
        # Once, and not as an engine of the figure: savefig would draw all of it twice for that.
        TightLayoutEngine(pad=0.4).execute(figure)
        out = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(out, format="svg", transparent=True, metadata=nothing, dpi=110)
    return out.getvalue(), ""


def standalone(svg: str) -> str:
    """The element as a separate file, dark on white."""
    return '<?xml version="1.0" encoding="utf-8"?>\n' + svg.replace(
        "<svg ", '<svg font-family="sans-serif" xml:space="preserve" ', 1
    )


def _plain(text: str, entry: Plot, kind: str) -> str:
    """The svg element: style attributes become separate attributes, ids are unique to this picture."""
    svg = text[text.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<style[^>]*>.*?</style>", "", svg, flags=re.DOTALL)
    svg = _STYLE.sub(_attributes, svg)
    svg = re.sub(r' id="(?!p[0-9a-f]|m[0-9a-f]|h[0-9a-f]|image)[^"]*"', "", svg)
    svg = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{entry.name}-{kind}-", svg)
    svg = re.sub(r'(<svg [^>]*?)width="[^"]*" height="[^"]*"', r"\1", svg, count=1)
    label = entry.question.replace('"', "")
    head = f'<svg class="{kind}" role="img" aria-label="{label}" stroke-linejoin="round" stroke-linecap="butt" '
    svg = svg.replace("<svg ", head, 1)
    return re.sub(r"\n\s*", "\n", svg)


def _attributes(match: re.Match[str]) -> str:
    out = []
    for declaration in match[1].split(";"):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        if name == "font":
            found = _FONT.match(value)
            if found:
                out.append(f'font-size="{found[2]}px"')
                if found[1]:
                    out.append(f'font-weight="{found[1]}"')
        elif name and name != "-inkscape-stroke":
            out.append(f'{name}="{value}"')
    return " " + " ".join(out) if out else ""
