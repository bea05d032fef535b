"""Which rows of ``chunks`` returned, and which of them count."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

import numpy as np

from ..hook._failures import EXCEPTION

RunFile = Any  # the reader uses this module

WITH_OPENING = 128  # in quality: when process() began is unknown, so wall_s has opening in it
SUPERSEDED = 8  # in quality: a later attempt at the same chunk replaced it


def returned(run: RunFile, status: np.ndarray) -> np.ndarray:
    """Whether the process() of an attempt returned, also of a file that had become shorter (partial)."""
    labels = run.labels("chunks", "status")
    return np.isin(status, [labels["ok"], labels["partial"]])


def count(run: RunFile, status: np.ndarray, quality: np.ndarray) -> np.ndarray:
    """Whether the output of an attempt is in the result."""
    return returned(run, status) & (quality & SUPERSEDED == 0)


def counted(run: RunFile, *columns: str) -> dict[str, np.ndarray]:
    """Columns of the attempts whose output is in the result."""
    rows = run.arrays("chunks", list(dict.fromkeys([*columns, "status", "quality"])))
    good = count(run, rows["status"], rows["quality"])
    return {name: rows[name][good] for name in columns}


def done_since(rows: dict[str, np.ndarray], good: np.ndarray) -> np.ndarray:
    """Whether an attempt at the same chunk that counts ended after each one: a later pass does what an earlier one did not, not the other way round."""
    last: dict[int, int] = {}
    for i in np.flatnonzero(good).tolist():
        chunk, end = int(rows["chunk_id"][i]), int(rows["t_end_ns"][i])
        last[chunk] = max(end, last.get(chunk, end))
    pairs = zip(rows["chunk_id"].tolist(), rows["t_end_ns"].tolist(), strict=True)
    return np.array([chunk in last and last[chunk] > end for chunk, end in pairs], bool)


@dataclasses.dataclass(frozen=True)
class Failure:
    """Attempts that failed in one file with one exception."""

    file: str
    dataset: str
    what: str  # type and message of the exception
    rows: list[int]  # of chunks, one per attempt
    done_later: int  # of them, those whose chunk a later attempt did

    def __str__(self) -> str:
        n, done = len(self.rows), self.done_later
        later = "" if not done else ", done later" if done == n else f", {done} of them done later"
        return (
            f"{n} attempt{'s' * (n > 1)} failed in {self.file} ({self.dataset}): {self.what}{later}"
        )


def failures(run: RunFile) -> list[Failure]:
    """Attempts that ended with an exception, by file and exception, most of them first."""
    names = ("chunk_id", "file_id", "dataset_id", "status", "quality", "t_end_ns")
    rows = run.arrays("chunks", list(names))
    failed = np.flatnonzero(rows["status"] == run.labels("chunks", "status")["error"])
    if not len(failed):
        return []
    raised = _exceptions(run)
    done = done_since(rows, count(run, rows["status"], rows["quality"]))
    files, datasets = run.names("file"), run.names("dataset")
    found: dict[tuple[str, str, str], list[int]] = collections.defaultdict(list)
    for i in failed[np.argsort(rows["t_end_ns"][failed], kind="stable")].tolist():
        of_chunk = raised[int(rows["chunk_id"][i])]
        what = of_chunk.popleft() if of_chunk else "exception not recorded"
        file, dataset = int(rows["file_id"][i]), int(rows["dataset_id"][i])
        found[
            files[file] if file < len(files) else "?",
            datasets[dataset] if dataset < len(datasets) else "?",
            what,
        ].append(i)
    listed = [Failure(*names, at, int(done[at].sum())) for names, at in found.items()]
    return sorted(listed, key=lambda each: -len(each.rows))


def _exceptions(run: RunFile) -> dict[int, collections.deque[str]]:
    """Of each chunk, by its hash, in order of time."""
    found: dict[int, collections.deque[str]] = collections.defaultdict(collections.deque)
    texts = {
        i: n.removeprefix(EXCEPTION)
        for i, n in enumerate(run.names("metric"))
        if n.startswith(EXCEPTION)
    }
    if texts:
        rows = run.arrays("custom", ["t_ns", "metric_id", "chunk_id"])
        for i in np.argsort(rows["t_ns"], kind="stable").tolist():
            if int(rows["metric_id"][i]) in texts:
                found[int(rows["chunk_id"][i])].append(texts[int(rows["metric_id"][i])])
    return found
