"""What a notebook shows of a run: the first screen of its page, and the page that a call has written. No script is needed."""

from __future__ import annotations

import html
import os
import pathlib
import re
import urllib.parse
from typing import TYPE_CHECKING

from ...hook._printable import printable

if TYPE_CHECKING:
    from ..reader import RunFile

_HEIGHT = 600


class Page(type(pathlib.Path())):  # type: ignore[misc]  # the class of this system's paths
    """The path of a page that was written, which a notebook shows with a link; equal to the path."""

    def _repr_html_(self) -> str:
        if not self.is_file():  # such as its parent
            return as_text(str(self))
        try:
            where = urllib.parse.quote(self.resolve().relative_to(pathlib.Path.cwd()).as_posix())
        except (OSError, ValueError):  # a notebook's server gives only what is below its directory
            return self.link()
        return f'<iframe src="{where}" style="width:100%;height:{_HEIGHT}px;border:1px solid #8888"></iframe>{self.link(where)}'

    def link(self, where: str = "") -> str:
        """An HTML link to the page."""
        to = html.escape(where or self.resolve().as_uri())
        return f'<p><a href="{to}" target="_blank">{html.escape(str(self))}</a></p>'


def first_screen(run: RunFile) -> str | None:
    """Verdict, headline, causes and where the thread-seconds went, as HTML; None, so that its text is shown, of a run in progress or a file that is closed or damaged."""
    try:
        run = run.as_shown()
        if not run.file or run.live:
            return None
        from ..plots import REGISTRY
        from . import figures, page

        svg, _ = figures.draw(REGISTRY["waterfall"], run)
        own = re.sub(r"[^0-9A-Za-z-]", "", run.run_id)  # which a file may give as anything
        svg = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{own}-", svg)
        # The page's style, for what is inside this element only.
        css = page.resource("page.css").replace(":root", "&").replace("body{", "&{")
        screen = page.first_screen(run, svg).replace(
            ' class="both"', ""
        )  # there is one for all widths
        return (
            f'<div class="crema"><style>.crema{{{css}}}</style>{screen}'
            f'<p class="faint small">{html.escape(printable(run.path))}</p></div>'
        )
    except Exception:
        return None


def as_text(text: str) -> str:
    """A text as HTML, as it is."""
    return f"<pre>{html.escape(text)}</pre>"


def page_of(path: os.PathLike) -> str:
    """A link to the page beside a run file, if it was written."""
    page = Page(pathlib.Path(path).with_suffix(".html"))
    return page.link() if page.is_file() else ""
