"""Stacks with their seconds for the canvas of the page: frames as a tree, seconds by frame, state, dataset and worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..code.looks import STATES, Looks, Node, NoLooksError
from ..plots._style import STATES as COLOURS
from .packed import NONE, encode

if TYPE_CHECKING:
    from ..reader import RunFile

FRAMES_MAX = 20_000
ROWS_MAX = 200_000
_LEAST = 1e-4  # of all seconds: frames with less are part of their callers


def pack(run: RunFile, *, frames_max: int = FRAMES_MAX, rows_max: int = ROWS_MAX) -> tuple[str, str]:  # fmt: skip
    """Data for the canvas.

    Returns
    -------
    str
        Base64 of the deflated columns; empty if the file has no looks.
    str
        What is left out, as a sentence; empty if nothing is.
    """
    try:
        looks = Looks(run)
    except NoLooksError:
        return "", ""
    nodes, where = looks.grown()
    whole_s = float(nodes[0].whole.sum())
    if not whole_s > 0:
        return "", ""
    kept, least_s = _kept(nodes, whole_s, frames_max)
    said = []
    if least_s > 0:
        said.append(f"Frames with less than {least_s:.2g} s are part of their callers.")
    columns = ["dataset_id", "worker_id"]
    rows = _rows(looks, where, kept, columns)
    while len(rows) > rows_max and columns:
        what = columns.pop()
        said.append(f"There are too many rows to choose a {what.removesuffix('_id')}: see crema hot.")  # fmt: skip
        rows = _rows(looks, where, kept, columns)
    unit_s = max(1e-6, whole_s / 2e9)
    names = sorted({node.name for i, node in enumerate(nodes) if kept[i] == i})
    position = {name: i for i, name in enumerate(names)}
    shown = [i for i in range(len(nodes)) if kept[i] == i]
    number = {i: n for n, i in enumerate(shown)}
    owners = ["", "user", "library", "standard", "crema"]
    header = {
        "unit_s": unit_s,
        "names": names,
        "owners": owners,
        "phases": [nodes[i].name for i in shown if nodes[i].depth == 1],
        "states": list(STATES),
        "colours": [COLOURS[state] for state in STATES],
        "datasets": run.names("dataset") if "dataset_id" in columns else [],
        "workers": run.names("worker") if "worker_id" in columns else [],
    }
    table = np.array(rows, dtype=np.float64).reshape(-1, 5)
    data = {
        "name": [position[nodes[i].name] for i in shown],
        "parent": [number.get(nodes[i].parent, NONE) for i in shown],
        "owner": [owners.index(nodes[i].owner) for i in shown],
        "node": [number[int(i)] for i in table[:, 0]],
        "state": table[:, 1],
        "dataset": table[:, 2],
        "worker": table[:, 3],
        "took": np.round(table[:, 4] / unit_s),
    }
    return encode(header, data), " ".join(said)


def _kept(nodes: list[Node], whole_s: float, frames_max: int) -> tuple[list[int], float]:
    """For each node that one which has its seconds: itself, or the caller that is large enough; and how large that is."""
    wholes = np.array([node.whole.sum() for node in nodes])
    least_s = _LEAST * whole_s
    while np.count_nonzero(wholes >= least_s) > frames_max:
        least_s *= 2
    if not (wholes < least_s).any():
        least_s = 0.0
    kept: list[int] = []
    for i, node in enumerate(nodes):  # callers come first, and have at least as many seconds
        is_kept = i == 0 or (wholes[i] >= least_s and kept[node.parent] == node.parent)
        kept.append(i if is_kept else kept[node.parent])
    return kept, least_s


def _rows(
    looks: Looks, where: dict[tuple[int, int], int], kept: list[int], columns: list[str]
) -> list[tuple[int, int, int, int, float]]:
    """Seconds by node, state, dataset and worker; NONE where one is not told apart."""
    position = {state: i for i, state in enumerate(STATES)}
    found: dict[tuple[int, int, int, int], float] = {}
    for stack, phase, state, *ids, seconds in looks.sums("stack_id", "phase", "state", *columns):
        of = dict(zip(columns, ids, strict=True))
        at = position.get(looks.states.get(state, ""), len(STATES) - 1)
        ids = [of.get(column, NONE) for column in ("dataset_id", "worker_id")]
        key = (kept[where[stack, phase]], at, ids[0], ids[1])
        found[key] = found.get(key, 0.0) + seconds
    return [(*key, seconds) for key, seconds in found.items()]
