"""How much of its input an analysis touched: bytes and branches of its chunks, of those that the trees of its files hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .reader import RunFile

Columns = dict[str, np.ndarray]
NEEDED = ("file_id", "bytes_accessed_b", "n_branches")  # of chunks


def trees(run: RunFile) -> Columns:
    """What is known of each row of ``dict/file``; -1 unknown.

    Returns
    -------
    dict of ndarray
        ``dataset``; ``whole_b``, compressed bytes of the tree, or size of the file where that is unknown (RNTuple, Parquet, run files of
        earlier versions); ``branches`` of the tree.
    """
    table = run.file["dict/file"]
    names = ("dataset_id", "size_b", "tree_b", "n_branches")
    found = run.arrays("dict/file", [name for name in names if name in table.dtype.names])
    unknown = np.full(len(table), -1)
    tree_b = found.get("tree_b", unknown)
    return {
        "dataset": found["dataset_id"],
        "whole_b": np.where(tree_b > 0, tree_b, found["size_b"]),
        "branches": found.get("n_branches", unknown),
    }


def bytes_percent(chunks: Columns, of: Columns, by: np.ndarray) -> dict[int, float]:
    """Compressed bytes that chunks touched, of the files that they were read from.

    A basket that several chunks need counts for each of them, because each reads it.

    Parameters
    ----------
    chunks : dict of ndarray
        `NEEDED` columns of the chunks that count.
    of : dict of ndarray
        What `trees` returns.
    by : ndarray
        Group of each file, such as its dataset.

    Returns
    -------
    dict
        Group to percentage, where it is known.
    """
    known = _with_file(chunks, of) & (chunks["bytes_accessed_b"] >= 0)
    file = chunks["file_id"][known]
    sized = of["whole_b"][file] > 0
    file, touched = file[sized], chunks["bytes_accessed_b"][known][sized]
    groups, group = np.unique(by, return_inverse=True)
    touched_b = np.bincount(group[file], touched, len(groups))
    read = np.unique(file)
    whole_b = np.bincount(group[read], of["whole_b"][read], len(groups))
    found = zip(groups, touched_b, whole_b, strict=True)
    return {int(i): float(100 * part / whole) for i, part, whole in found if whole > 0}


def branches_percent(chunks: Columns, of: Columns, by: np.ndarray) -> dict[int, float]:
    """Branches that a chunk touched, of those of its tree, mean over chunks; arguments and result as of `bytes_percent`."""
    known = _with_file(chunks, of) & (chunks["n_branches"] >= 0)
    file = chunks["file_id"][known]
    sized = of["branches"][file] > 0
    file = file[sized]
    percent = 100 * chunks["n_branches"][known][sized] / of["branches"][file]
    group = by[file]
    return {int(i): float(percent[group == i].mean()) for i in np.unique(group)}


def _with_file(chunks: Columns, of: Columns) -> np.ndarray:
    return chunks["file_id"] < len(of["dataset"])
