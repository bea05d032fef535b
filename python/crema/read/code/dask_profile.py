"""The tree of Dask's own profiler in the attributes of a run: functions with seconds, where nothing was looked at.

Dask samples the threads of its workers anyway, and counts by function, not by line; it does not know what a thread waits for.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .._values import text as plain

if TYPE_CHECKING:
    from ..reader import RunFile

PREFIX = "dask_profile."  # and a number: attributes that hold a piece each
PIECE_BYTES = 4000
PIECES_MAX = 16
_FRAMES_MAX = 20_000
_OPENED_MAX = 1 << 24  # bytes of JSON: a file could hold anything
NONE = 0xFFFFFFFF


def attributes(
    tree: dict[str, Any], interval_s: float, owner_of: Callable[[str], tuple[str, str]]
) -> dict[str, str]:
    """Attributes that hold a tree of `Client.profile`, without what is rare if there is too much.

    Parameters
    ----------
    tree : dict
        With ``count``, ``description`` and ``children`` of each node.
    interval_s : float
        Between two samples of a thread.
    owner_of : callable
        Returns name and owner of a source file.
    """
    counts = _counts(tree)
    n = min(len(counts), _FRAMES_MAX)
    while n and tree.get("count", 0):
        frames, stacks = _flat(tree, max(counts[n - 1], 1), owner_of)
        content = {"interval_s": interval_s, "frames": frames, "stacks": stacks}
        packed = base64.b64encode(zlib.compress(json.dumps(content).encode(), 9)).decode()
        pieces = [packed[i : i + PIECE_BYTES] for i in range(0, len(packed), PIECE_BYTES)]
        if len(pieces) <= PIECES_MAX:
            return {f"{PREFIX}{i}": piece for i, piece in enumerate(pieces)}
        n //= 2
    return {}


def _counts(tree: dict[str, Any]) -> list[int]:
    """Samples of all nodes, most first."""
    counts, todo = [], [tree]
    while todo:
        inner = list(todo.pop().get("children", {}).values())
        counts += [int(child["count"]) for child in inner]
        todo += inner
    return sorted(counts, reverse=True)


def _flat(
    tree: dict[str, Any], least: int, owner_of: Callable[[str], tuple[str, str]]
) -> tuple[list[list[Any]], list[list[int]]]:
    """Frames (file, function, line, owner) and stacks (caller, frame, depth, samples of their own); callers come first.

    Dask's workers count a sample in all its frames but the innermost one: it is known only where its caller called nothing else,
    and belongs to the caller elsewhere.
    """
    frames: dict[tuple, int] = {}
    stacks: list[list[int]] = []
    todo: list[tuple[int, int, dict[str, Any], int]] = [(NONE, -1, tree, 0)]
    while todo:
        caller, depth, node, innermost = todo.pop()
        inner = list(node["children"].values())
        rest = max(int(node["count"]) - sum(int(child["count"]) for child in inner), 0)
        given = rest if len(inner) == 1 else 0
        large = [child for child in inner if int(child["count"]) + given >= least]
        own = innermost + int(node["count"]) - sum(int(child["count"]) + given for child in large)
        at = caller
        if depth >= 0:
            about = node["description"]
            file, owner = owner_of(str(about["filename"]))
            _, _, first = str(node["identifier"]).rpartition(";")
            line = int(first) if first.isdigit() else int(about["line_number"])
            frame = frames.setdefault((file, str(about["name"]), line, owner), len(frames))
            at = len(stacks)
            stacks.append([caller, frame, depth, max(own, 0)])
        todo += [(at, depth + 1, child, given) for child in large]
    return [list(frame) for frame in frames], stacks


def tables(run: RunFile) -> dict[str, dict[str, Any]] | None:
    """Columns of ``looks``, ``dict/frame`` and ``dict/stack`` that the tree stands for; None if the file has none."""
    pieces = []
    while (name := f"{PREFIX}{len(pieces)}") in run.file.attrs and len(pieces) < PIECES_MAX:
        pieces.append(plain(run.file.attrs[name]))
    if not pieces:
        return None
    try:
        raw = zlib.decompressobj().decompress(base64.b64decode("".join(pieces)), _OPENED_MAX)
        content = json.loads(raw)
        interval_s = float(content["interval_s"])
        frames = [
            (str(f), str(n), int(line), str(owner)) for f, n, line, owner in content["frames"]
        ]
        stacks = np.array(content["stacks"], dtype=np.int64).reshape(-1, 4)
    except (ValueError, TypeError, KeyError, RecursionError, zlib.error):  # a user's own attribute
        return None
    file, function, line, owner = (list(column) for column in zip(*frames, strict=True)) if frames else ([],) * 4  # fmt: skip
    n = len(stacks)
    ids = {name: np.full(n, NONE) for name in ("worker_id", "dataset_id", "section_id", "place_id")}
    looks = {"seconds": stacks[:, 3] * interval_s, "looks": stacks[:, 3], "stack_id": np.arange(n)}
    return {
        "looks": {**ids, **looks, "state": np.zeros(n, np.int64)},
        "frame": {"name": file, "function": function, "line": np.array(line), "owner": owner},
        "stack": {"parent_id": stacks[:, 0], "frame_id": stacks[:, 1], "depth": stacks[:, 2]},
    }
