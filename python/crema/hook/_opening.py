"""Notices when coffea has built the events of a chunk: there opening ends and process() begins.

`NanoEventsFactory.events` returns in the thread that works on the chunk, whatever executor and
settings the Runner has. It is replaced while some run is being measured in this process.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

_lock = threading.Lock()
_users = 0
_undo: Callable[[], None] | None = None


def watch(opened: Callable[[], None]) -> None:
    """Call `opened` after each call of `events` from now on; each `watch` needs an `unwatch`."""
    global _users, _undo
    with _lock:
        _users += 1
        if _undo is None:
            _undo = _replace(opened)


def unwatch() -> None:
    """Undo one `watch`."""
    global _users, _undo
    with _lock:
        _users -= 1
        if _users == 0 and _undo is not None:
            _undo()
            _undo = None


def watched() -> bool:
    """Whether the end of opening is noticed in this process."""
    return _undo is not None


def _replace(opened: Callable[[], None]) -> Callable[[], None] | None:
    """Return what puts the function back; None if coffea has another one, or none."""
    factory = getattr(sys.modules.get("coffea.nanoevents"), "NanoEventsFactory", None)
    before = getattr(factory, "__dict__", {}).get("events")
    if not callable(before):
        return None

    @functools.wraps(before)
    def events(*args: Any, **kwargs: Any) -> Any:
        made = before(*args, **kwargs)
        opened()
        return made

    factory.events = events

    def put_back() -> None:
        if factory.__dict__.get("events") is events:  # otherwise another package replaced it
            factory.events = before

    return put_back
