"""What the collector noted about a run: each note is in an attribute of the run file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

REPEATED = "coffea.repeated_files"
DIRECT = "coffea.direct_calls"
FAILED = "coffea.failed_calls"
INNER = "inner_runs"
STEPPED = "clock_stepped_s"
UNFINISHED = "tasks_unfinished"

# Attributes that are JSON lists of names: the code and the text of the note on each of them.
_OF_NAMES = {
    REPEATED: (
        "input_repeated",
        "a dataset lists it more than once: the result counts its events as often",
    ),
    DIRECT: (
        "input_direct",
        "it was called without a Runner: what was read that way is in no chunk",
    ),
    INNER: ("chunks_inner", "its block was inside this one: its Runners' chunks are there"),
    FAILED: (
        "result_missing",
        "a Runner ended with this exception: the chunks it had finished count, though they are in no result",
    ),
}
_OF_STEP = (
    "the wall clock of this host was set by {} s during the run: times after that, and what Dask and coffea measured across "
    "it, are off by as much; the length of the run is not"
)


_UNFINISHED = (
    "tasks of the run were still running or waiting when the block ended: what they did after that is not in this file; "
    "wait for the results inside the block"
)


def of_attributes(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The notes that these root attributes contain: ``code``, ``subject``, ``count``, ``text`` of each."""
    found = [
        (code, name, text)
        for attribute, (code, text) in _OF_NAMES.items()
        for name in _names(attributes.get(attribute))
    ]
    if STEPPED in attributes:
        found.append(("clock_stepped", "run", _OF_STEP.format(attributes[STEPPED])))
    notes = [
        {"code": code, "subject": subject, "count": 0, "text": text}
        for code, subject, text in found
    ]
    if UNFINISHED in attributes:
        n = int(attributes[UNFINISHED])
        notes.append({"code": "still_running", "subject": "run", "count": n, "text": _UNFINISHED})
    return notes


def _names(listed: Any) -> list[str]:
    try:
        names = json.loads(listed or "[]")
    except (TypeError, ValueError, RecursionError):  # a user's own attribute of that name
        return []
    return [str(name) for name in names] if isinstance(names, list) else []
