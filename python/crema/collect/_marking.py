"""Marks what the code in a block submits to Dask with its run, which distinguishes several runs on one cluster.

The mark is an annotation that is there only while Dask's client sends a graph. One around the whole
block would become part of every layer that is made in it: Dask does not fuse such layers with those
made before, and warns about them on every dataframe.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

from ..hook import _records

_SUBMIT = "_graph_to_futures"  # through which every submission of a client goes
_open: set[str] = set()  # runs whose blocks are open
_sent: dict[tuple[str, str], int] = {}  # by run and client: submissions of the block
_undo: list[Callable[[], None]] = []
_lock = threading.Lock()
_entered: contextvars.ContextVar[tuple[str, ...]] = contextvars.ContextVar("marks", default=())


@contextlib.contextmanager
def marked(run_id: str) -> Iterator[None]:
    """Mark what the calling context submits inside, on any client."""
    with _lock:
        _entered.set((*(each for each in _entered.get() if each in _open), run_id))
        _open.add(run_id)
        for run in [each for each in _sent if each[0] not in _open]:
            del _sent[run]
        if not _undo:
            from distributed import Client

            # Without it, in another version of Dask, tasks have no mark and count as every run's.
            replace(Client, _SUBMIT, _marking, _undo)
    try:
        yield
    finally:
        with _lock:
            _open.discard(run_id)
            while not _open and _undo:
                _undo.pop()()


def sent(run_id: str, client_id: str) -> int:
    """How often a client submitted something in the block of a run; asked once, after the block."""
    return _sent.pop((run_id, client_id), 0)


def _marking(original: Callable) -> Callable:
    import dask

    def submit(self: Any, *args: Any, **kwargs: Any) -> Any:
        run_id = next((each for each in reversed(_entered.get()) if each in _open), None)
        if run_id is None:
            return original(self, *args, **kwargs)
        with dask.annotate(**{_records.MARK_RUN: run_id}):
            futures = original(self, *args, **kwargs)
        with _lock:
            _sent[run_id, self.id] = _sent.get((run_id, self.id), 0) + 1
        return futures

    return submit


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
