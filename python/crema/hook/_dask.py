"""Reads what Dask's objects say: a value of another kind than Dask's own raises, so that a change of Dask is noticed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from . import _records


def or_else(read: Callable[[], Any], otherwise: Any) -> Any:
    """Return the result of `read`, or `otherwise` if it raises."""
    try:
        return read()
    except Exception:
        return otherwise


def text(value: Any) -> str:
    """The value, which is a text."""
    if not isinstance(value, str):
        raise TypeError(f"a {type(value).__name__} where Dask had a text")
    return value


def mapping(value: Any) -> Any:
    """The value, which is a mapping."""
    if not isinstance(value, Mapping):
        raise TypeError(f"a {type(value).__name__} where Dask had a mapping")
    return value


def u16(value: int) -> int:
    """The value, or the largest one that a column of 16 bits holds beside its unknown."""
    return min(int(value), _records.UNKNOWN_U16 - 1)


def key_split(key: Hashable) -> str:
    """Dask's prefix of a task's key."""
    from dask.utils import key_split

    return key_split(key)
