"""Run files with looks: a synthetic run to which the tables of looking are added, with seconds that a test knows."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Sequence

import h5py
import numpy as np

NONE = 0xFFFFFFFF
STATES = ("unknown", "cpu", "core", "gil", "input", "service", "file", "lock", "sleep", "native", "child", "page_fault")  # fmt: skip
PHASES = ("other", "opening", "process")
OWNERS = ("user", "library", "standard", "crema")


@dataclasses.dataclass(frozen=True)
class Look:
    """One row of ``looks``; a stack is of frames ``file:line:function:owner``, the outermost first."""

    seconds: float
    state: str = "cpu"
    stack: tuple[str, ...] = ()
    phase: str = "process"
    n: int = 20
    worker: int = 0
    dataset: int = 0
    section: int = NONE
    place: str = ""


def write_looks(path: str | os.PathLike, looks: Sequence[Look], source: str = "") -> pathlib.Path:
    """Write rows of ``looks`` with their dictionaries into a run file, in place of those that it has."""
    places: dict[str, int] = {}
    frames: dict[tuple[str, str, int, str], int] = {}
    stacks: dict[tuple[int, int], int] = {}
    depths: list[int] = []
    rows = []
    for look in looks:
        at = NONE
        for depth, text in enumerate(look.stack):
            file, line, function, owner = text.rsplit(":", 3)
            frame = frames.setdefault((file, function, int(line), owner), len(frames))
            if (at, frame) not in stacks:
                stacks[at, frame] = len(stacks)
                depths.append(depth)
            at = stacks[at, frame]
        place = places.setdefault(look.place, len(places)) if look.place else NONE
        phase, state = PHASES.index(look.phase), STATES.index(look.state)
        row = (look.seconds, look.n, look.worker, 0, look.dataset, look.section, place, at)
        rows.append((*row, phase, state))
    ids = ["worker_id", "task_prefix_id", "dataset_id", "section_id", "place_id", "stack_id"]
    dtype = [("seconds", "f8"), ("looks", "i8"), *((name, "u4") for name in ids)]
    dtype += [("phase", _enum(PHASES)), ("state", _enum(STATES))]
    with h5py.File(path, "r+") as file:
        _put(file, "looks", rows, dtype)
        _put(file, "dict/place", [(i, name) for name, i in places.items()], [("id", "u4"), ("name", "S256")])  # fmt: skip
        kind = [("id", "u4"), ("name", "S256"), ("function", "S128"), ("line", "i4"), ("owner", _enum(OWNERS))]  # fmt: skip
        of_frames = [(i, *key[:3], OWNERS.index(key[3])) for key, i in frames.items()]
        _put(file, "dict/frame", of_frames, kind)
        of_stacks = [(i, *key, depths[i]) for key, i in stacks.items()]
        kind = [("id", "u4"), ("parent_id", "u4"), ("frame_id", "u4"), ("depth", "u2")]
        _put(file, "dict/stack", of_stacks, kind)
        for name in ("dataset", "section"):
            ids = {getattr(look, name) for look in looks} - {NONE}
            _name_more(file, name, max(ids, default=-1) + 1)
        if source:
            file.attrs["source.0"] = source
    return pathlib.Path(path)


def _name_more(file: h5py.File, dictionary: str, n: int) -> None:
    """Let a dictionary have names for n rows: ``section 0``."""
    known = [name.decode() for name in file[f"dict/{dictionary}"].fields("name")[:]]
    names = [*known, *(f"{dictionary} {i}" for i in range(len(known), n))]
    if len(names) > len(known):
        kind = [("id", "u4"), ("name", "S256")]
        _put(file, f"dict/{dictionary}", list(enumerate(names)), kind)


def _enum(labels: tuple[str, ...]) -> np.dtype:
    return h5py.enum_dtype({label: i for i, label in enumerate(labels)}, basetype="u1")


def _put(file: h5py.File, name: str, rows: list[tuple], dtype: list) -> None:
    if name in file:
        del file[name]
    file[name] = np.array(rows, dtype=np.dtype(dtype))
