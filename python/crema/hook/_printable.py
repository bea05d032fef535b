"""Texts from users as they are shown: on one line, and without what a terminal would obey."""

from __future__ import annotations

import re
from typing import Any

# Control characters but the tab, separators of lines, marks that change the direction of writing, bytes that are not UTF-8.
_CONTROL = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(value: Any) -> str:
    """The value as text in which such characters are escapes, as Python writes them."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), str(value))


def all_printable(value: Any) -> Any:
    """The same of every text in lists and dicts; other values stay."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {all_printable(key): all_printable(item) for key, item in value.items()}
    return [all_printable(item) for item in value] if isinstance(value, list) else value
