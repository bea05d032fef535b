"""Replaces functions of other packages until that is undone."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def replace(
    owner: Any,
    name: str,
    make: Callable[[Callable], Callable],
    undo: list[Callable[[], None]],
) -> None:
    """Replace a function of a class or module by the result of `make`, and append to `undo` what puts it back; without that function, do nothing."""
    before = getattr(owner, "__dict__", {}).get(name)
    function = before.__func__ if isinstance(before, classmethod) else before
    if not callable(function):
        return  # another version of the package
    after: Any = functools.wraps(function)(make(function))
    after = classmethod(after) if isinstance(before, classmethod) else after
    setattr(owner, name, after)

    def put_back() -> None:
        if owner.__dict__.get(name) is after:  # otherwise another package replaced it meanwhile
            setattr(owner, name, before)

    undo.append(put_back)
