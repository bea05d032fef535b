"""What a chunk read: bytes requested from the file, branches touched, and the size of their baskets.

coffea keeps this in the factory that created the events: its log of materialised columns and its
open file. `process()` can reach the factory through the events. A checkpointer receives neither, so
the factory is searched among the callers, where coffea's work function holds it. What is not found
there is unknown, never zero.
"""

from __future__ import annotations

import bisect
import functools
import sys
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

_WORK_FUNCTION = "_work_function"  # coffea's, which opens the file and calls process()
_FRAMES_MAX = 200
REQUESTS = {"n_requests": "num_requests", "n_request_chunks": "num_requested_chunks"}
_IDENTITY = ("dataset", "filename", "treename", "fileuuid", "entrystart", "entrystop")


class Sizes(NamedTuple):
    """Baskets of some branches that an entry range needs; -1 unknown."""

    compressed_b: int
    uncompressed_b: int
    exact: bool  # otherwise the branch's uncompressed size, apportioned by compressed bytes


UNKNOWN_SIZES = Sizes(-1, -1, False)


class Whole(NamedTuple):
    """A file and its tree; -1 unknown."""

    size_b: int = -1
    n_entries: int = -1
    tree_b: int = -1  # compressed size of all branches
    n_branches: int = -1


def factory_of_callers(depth: int = 1) -> Any:
    """The factory of the chunk that a caller of the calling function is processing; None if there is none."""
    frame = sys._getframe(depth + 1)
    for _ in range(_FRAMES_MAX):
        if frame is None:
            return None
        if frame.f_code.co_name == _WORK_FUNCTION:
            return frame.f_locals.get("factory")
        frame = frame.f_back
    return None


def factory_of_events(events: Any) -> Any:
    """The factory that made NanoEvents; None for anything else."""
    attrs = getattr(events, "attrs", None)
    return attrs.get("@events_factory") if attrs is not None else None


def n_events(factory: Any) -> int:
    """Events of the range that the file actually has; -1 unknown."""
    return len(factory) if factory is not None else -1


def requested_b(factory: Any) -> int:
    """Compressed bytes requested of the file so far, including opening; -1 if the source does not count them."""
    if factory is None:
        return -1
    file = getattr(factory, "file_handle", None)
    source = getattr(getattr(file, "file", None), "source", None)
    count = getattr(source, "num_requested_bytes", None)
    return count if isinstance(count, int) else -1


def requested(factory: Any, what: str) -> int:
    """``num_requests`` to the source of the file so far, or ``num_requested_chunks``; -1 if it is no file of uproot's.

    Raises
    ------
    AttributeError
        If the file, or its source, does not count them.
    """
    if factory is None:
        return -1
    handle = factory.file_handle
    if handle is not None and not type(handle).__module__.startswith("uproot"):
        return -1
    return getattr(handle.file.source, what) + 0


def touched(factory: Any) -> frozenset[str] | None:
    """Names of the branches read so far, including preloaded ones; None if they are not tracked."""
    log = getattr(factory, "access_log", None)
    if log is None:
        return None
    preloaded = getattr(getattr(factory, "_mapping", None), "preloaded_arrays", None)
    return frozenset(entry.branch for entry in log).union(preloaded or ())


@functools.lru_cache(maxsize=8)
def branches_of_columns(columns: frozenset[str]) -> frozenset[str]:
    """Branches behind the columns of coffea's report, such as "Muon_pt-data" and "nMuon-offsets"."""
    return frozenset(column.rpartition("-")[0] for column in columns)


def sizes(factory: Any, names: Iterable[str]) -> Sizes:
    """Sizes of the baskets that the factory's entry range needs of the branches `names`, from the tree's own bookkeeping.

    A basket that the range only cuts counts fully, since it is read and decompressed as a whole. Nothing is read here. Sources without
    baskets (RNTuple, Parquet) are unknown.
    """
    if factory is None:
        return UNKNOWN_SIZES
    try:
        tree, start, stop = _tree(factory)
        parts = [_branch_sizes(tree[name], start, stop) for name in names]
    except Exception:
        return UNKNOWN_SIZES
    return Sizes(
        sum(part.compressed_b for part in parts),
        sum(part.uncompressed_b for part in parts),
        all(part.exact for part in parts),
    )


def whole(factory: Any) -> Whole:
    """Size of the file and of its tree, according to their headers.

    They are already in memory: nothing is read, and no branch is looked at, because a tree may have thousands.
    """
    if factory is None:
        return Whole()
    try:
        uuid, path, _, _ = _partition(factory)
        tree = factory._mapping._column_source(uuid, path)
    except Exception:
        tree = None
    opened = getattr(factory, "file_handle", None)
    return Whole(
        size_b=max(_number(lambda: opened.file.fEND), _number(lambda: tree.file.fEND)),
        n_entries=_number(lambda: tree.num_entries),
        tree_b=_number(lambda: tree.member("fZipBytes")),
        n_branches=_number(lambda: len(tree.member("fLeaves"))),
    )


def _number(read: Callable[[], Any]) -> int:
    try:
        return max(int(read()), -1)
    except Exception:  # RNTuple and Parquet lack this member
        return -1


def identity(events: Any, factory: Any) -> dict[str, Any]:
    """The metadata that coffea would give for the chunk `events`.

    Raises
    ------
    Exception
        Of any kind, if these are not NanoEvents of a range of a file.
    """
    given = getattr(events, "metadata", None) or {}
    known = {name: given[name] for name in _IDENTITY if name in given}
    if len(known) == len(_IDENTITY):
        return known
    uuid, tree, start, stop = _partition(factory)
    file = getattr(factory, "file_handle", None)
    return {
        "dataset": "",
        "filename": str(getattr(file, "file_path", "")),
        "treename": tree,
        "fileuuid": uuid,
        "entrystart": start,
        "entrystop": stop,
    } | known


def _partition(factory: Any) -> tuple[str, str, int, int]:
    from coffea.nanoevents.util import key_to_tuple

    uuid, tree, entries = key_to_tuple(factory._partition_key)
    start, stop = entries.split("-")
    return uuid, tree, int(start), int(stop)


def _tree(factory: Any) -> tuple[Any, int, int]:
    """The TTree of the factory, and its entry range."""
    uuid, path, start, stop = _partition(factory)
    tree = factory._mapping._column_source(uuid, path)
    if not hasattr(tree, "branches"):
        raise TypeError("not a TTree")
    return tree, start, stop


def _branch_sizes(branch: Any, start: int, stop: int) -> Sizes:
    offsets = branch.entry_offsets
    n = len(offsets) - 1
    if start >= stop or n == 0:
        return Sizes(0, 0, True)
    first = max(bisect.bisect_right(offsets, start) - 1, 0)
    last = min(bisect.bisect_left(offsets, stop), n)
    n_written = n - len(branch.embedded_baskets)  # the rest is in the tree itself
    written = sum(branch.basket_compressed_bytes(i) for i in range(first, min(last, n_written)))
    embedded = range(max(first, n_written), last)
    compressed_b = written + sum(branch.basket_compressed_bytes(i) for i in embedded)
    uncompressed_b = sum(branch.basket_uncompressed_bytes(i) for i in embedded)
    if written:
        whole_b, all_b = branch.uncompressed_bytes, branch.compressed_bytes
        uncompressed_b += round(whole_b * written / all_b)
    return Sizes(compressed_b, uncompressed_b, not written or written == branch.compressed_bytes)
