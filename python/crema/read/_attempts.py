"""Which rows of ``chunks`` returned, and which of them count."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .reader import RunFile

WITH_OPENING = 128  # in quality: when process() began is unknown, so wall_s has opening in it
_SUPERSEDED = 8  # in quality: a later attempt at the same chunk replaced it


def returned(run: RunFile, status: np.ndarray) -> np.ndarray:
    """Whether the process() of an attempt returned, also of a file that had become shorter (partial)."""
    labels = run.labels("chunks", "status")
    return np.isin(status, [labels["ok"], labels["partial"]])


def count(run: RunFile, status: np.ndarray, quality: np.ndarray) -> np.ndarray:
    """Whether the output of an attempt is in the result."""
    return returned(run, status) & (quality & _SUPERSEDED == 0)


def counted(run: RunFile, *columns: str) -> dict[str, np.ndarray]:
    """Columns of the attempts whose output is in the result."""
    rows = run.arrays("chunks", list(dict.fromkeys([*columns, "status", "quality"])))
    good = count(run, rows["status"], rows["quality"])
    return {name: rows[name][good] for name in columns}
