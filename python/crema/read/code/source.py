"""Source text of the user's lines, as the client kept it in the attributes of the run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from .._values import text as plain

if TYPE_CHECKING:
    from ..reader import RunFile

MODULE = "processor_module"  # attribute: module of the processor
PREFIX = "source."  # and a number: attributes that hold JSON lists of file, line and text


def package(run: RunFile) -> str:
    """Outermost package of the processor; empty if it is not known, or a script."""
    name = plain(run.file.attrs.get(MODULE, "")).partition(".")[0]
    return "" if name == "__main__" else name


def lines(run: RunFile) -> dict[tuple[str, int], str]:
    """Text of each line that the file has, by file and number, without its indentation."""
    found: dict[tuple[str, int], str] = {}
    n = 0
    while (name := f"{PREFIX}{n}") in run.file.attrs:
        n += 1
        try:
            rows = json.loads(plain(run.file.attrs[name]))
            found.update(((str(file), int(line)), str(text)) for file, line, text in rows)
        except (TypeError, ValueError, RecursionError):  # a user's own attribute of that name
            continue
    return found
