"""Where the seconds of the tasks' threads went, to the line: the table ``looks`` with its dictionaries, summed.

Each second counts once: at the innermost line of its stack that is the user's own, neither Python's nor an installed
package's; without one, under a name in parentheses.
"""

from __future__ import annotations

import collections
import dataclasses
import math
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _values
from . import dask_profile, source

if TYPE_CHECKING:
    from ..reader import RunFile

NONE = 0xFFFFFFFF
PHASES = ("process", "opening", "other")
# States in the order in which figures stack them: computing, waiting to compute, waiting for others, the rest.
STATES = (
    *("cpu", "native", "core", "gil", "input", "service", "file", "child", "lock", "sleep"),
    *("page_fault", "unknown"),
)
# What seconds outside the user's code are called, by phase.
_OUTSIDE = {
    "opening": "(opening files)",
    "process": "(outside your code)",
    "other": "(tasks that are no chunks)",
}
PHASE_NAMES = {"process": "process()", "opening": "opening", "other": "other tasks"}
_WITH_PLACE = ("input", "service", "file", "child", "sleep")
_Z = 1.96  # of an interval of 95 %
_COLUMNS = ("seconds", "looks", "worker_id", "dataset_id", "section_id", "place_id", "stack_id", "phase", "state")  # fmt: skip
_FILTERS = {
    "state": "state",
    "phase": "phase",
    "worker": "worker_id",
    "dataset": "dataset_id",
    "section": "section_id",
}
# Workers keep uploaded files in directories of their own: the same file in each of them.
_OF_A_WORKER = re.compile(r"^.*/dask-(?:scratch|worker)-space/[^/]+/")


class NoLooksError(Exception):
    """Why a file has no looks, as a sentence."""


@dataclasses.dataclass(frozen=True)
class Line:
    """Seconds of one line of the user's code, or of what is outside it."""

    name: str  # dijets.py:57; in parentheses: outside the user's code
    file: str  # empty outside it, as all of the next ones
    line: int
    function: str
    seconds: float
    lo_s: float  # with hi_s: in 95 of 100 samples like this one
    hi_s: float
    share: float
    states: dict[str, float]  # seconds, most first
    places: dict[str, float]  # seconds of waiting for a server, peer, file or child, most first
    source: str  # text of the line; empty: not kept


@dataclasses.dataclass
class Node:
    """A frame in its callers; seconds of everything that it called included."""

    name: str
    owner: str  # as in dict/frame; empty: a phase, or what is above all of them
    parent: int  # position in the tree; -1: outermost
    depth: int
    own: np.ndarray  # (states,) seconds in the frame itself
    whole: np.ndarray  # (states,) seconds with what it called


class Looks:
    """Rows of ``looks``, all or those of a selection.

    Parameters
    ----------
    run : RunFile
        Sealed or live.

    Raises
    ------
    NoLooksError
        If nothing was looked at.
    """

    def __init__(self, run: RunFile) -> None:
        self.run = run
        self.outside = _OUTSIDE
        if "looks" in run and len(run.file["looks"]):
            self._of_looks()
        elif (tables := dask_profile.tables(run)) is not None:
            self._of_dask(tables)
        else:
            raise NoLooksError(_why(run))

    def _of_looks(self) -> None:
        run = self.run
        self.rows = run.arrays("looks", list(_COLUMNS))
        frames = run.arrays("dict/frame", ["line", "owner", "function"])
        owners = {code: label for label, code in run.labels("dict/frame", "owner").items()}
        self._take_frames(
            run.names("frame"),
            _values.decode(frames["function"]).tolist(),
            frames["line"],
            [owners.get(code, "library") for code in frames["owner"].tolist()],
        )
        self._take_stacks(run.arrays("dict/stack", ["parent_id", "frame_id", "depth"]))
        self.states = {code: label for label, code in run.labels("looks", "state").items()}
        self.phases = {code: label for label, code in run.labels("looks", "phase").items()}

    def _of_dask(self, tables: dict[str, Any]) -> None:
        """What Dask's profiler knows: functions, and no states. Below one of the user's it is process()."""
        frame = tables["frame"]
        self._take_frames(frame["name"], frame["function"], frame["line"], frame["owner"])
        self._take_stacks(tables["stack"])
        self.rows = tables["looks"] | {"phase": (self.user_frame != NONE).astype(np.int64)}
        self.states, self.phases = {0: "unknown"}, {0: "other", 1: "process"}
        self.outside = {"other": "(outside process())"}

    def _take_frames(self, names: list, functions: list, lines: np.ndarray, owners: list) -> None:
        package = source.package(self.run)
        functions = self.run.as_asked(functions)
        self.files = [of_any_worker(name) for name in names]
        self.functions, self.frame_lines = functions, lines
        self.owners = [
            "user" if package and _is_in(file, package) else owner
            for file, owner in zip(self.files, owners, strict=True)
        ]

    def _take_stacks(self, stacks: dict[str, np.ndarray]) -> None:
        self.frame_of = stacks["frame_id"]
        self.parent_of, self.depths = _tree(stacks["parent_id"], stacks["depth"])
        self.user_frame = self._user_frames()

    def select(self, **wanted: Iterable[str]) -> Looks:
        """The rows of these states, phases, workers, datasets and sections; an empty one is all.

        Parameters
        ----------
        **wanted : iterable of str
            ``state``, ``phase``, ``worker``, ``dataset``, ``section``.

        Raises
        ------
        ValueError
            If the file knows no such name; the text lists those that it knows.
        """
        keep = np.ones(len(self.rows["seconds"]), dtype=bool)
        for what, names in wanted.items():
            names = list(names)
            if names:
                known = self.known(what)
                if unknown := [name for name in names if name not in known.values()]:
                    there = ", ".join(sorted(set(known.values()))) or "none"
                    raise ValueError(f"there is no {what} {unknown[0]!r}; there are {there}")
                codes = [code for code, name in known.items() if name in names]
                keep &= np.isin(self.rows[_FILTERS[what]], codes)
        chosen = object.__new__(Looks)
        chosen.__dict__.update(self.__dict__)
        chosen.rows = {name: values[keep] for name, values in self.rows.items()}
        return chosen

    def known(self, what: str) -> dict[int, str]:
        """Names by code of what can be selected: ``state``, ``phase``, ``worker``, ``dataset``, ``section``."""
        if what in ("state", "phase"):
            return self.states if what == "state" else self.phases
        return dict(enumerate(self.run.names(what)))

    @property
    def seconds(self) -> float:
        """All seconds of the rows."""
        return float(self.rows["seconds"].sum())

    @property
    def n(self) -> int:
        """Looks behind the rows."""
        return int(self.rows["looks"].sum())

    # -------------------------------------------------------------- sums

    def lines(self) -> list[Line]:
        """Seconds by line, most first; they add up to `seconds`."""
        keys: dict[tuple[str, int], int] = {("", 0): 0}  # outside the user's code
        frame_of = [NONE]  # a frame of each line
        line_of = np.zeros(len(self.user_frame) + 1, dtype=np.int64)  # by stack; the last: none
        for stack, frame in enumerate(self.user_frame.tolist()):
            if frame != NONE:
                key = self.files[frame], int(self.frame_lines[frame])
                if key not in keys:
                    keys[key] = len(keys)
                    frame_of.append(frame)
                line_of[stack] = keys[key]
        rows = self.rows
        line = line_of[np.minimum(rows["stack_id"], len(self.user_frame))]
        # Outside the user's code each phase is a line of its own.
        n_lines = len(keys)
        line = np.where(line > 0, line, n_lines + rows["phase"])
        order = np.argsort(line, kind="stable")
        found, first = np.unique(line[order], return_index=True)
        ends = np.append(first, len(order))[1:]
        names = _short_names({file for file, _ in keys if file})
        texts, places = source.lines(self.run), dict(enumerate(self.run.names("place")))
        whole, n, lines, where = self.seconds, self.n, [], list(keys)
        for i, start, end in zip(found.tolist(), first.tolist(), ends.tolist(), strict=True):
            mine = order[start:end]
            seconds = float(rows["seconds"][mine].sum())
            if seconds <= 0:
                continue
            file, number = where[i] if i < n_lines else ("", 0)
            phase = self.phases.get(i - n_lines, "?")
            name = f"{names[file]}:{number}" if file else self.outside.get(phase, f"({phase})")
            lo, hi = _interval(seconds / whole, n)
            lines.append(
                Line(
                    name=name,
                    file=file,
                    line=number,
                    function=self.functions[frame_of[i]] if file else "",
                    seconds=seconds,
                    lo_s=lo * whole,
                    hi_s=hi * whole,
                    share=seconds / whole,
                    states=_sums(rows["state"][mine], rows["seconds"][mine], self.states),
                    places=_sums(rows["place_id"][mine], rows["seconds"][mine], places),
                    source=texts.get((file, number), ""),
                )
            )
        return sorted(lines, key=lambda each: -each.seconds)

    def sections(self) -> dict[str, dict[str, float]]:
        """Seconds by state of process() in each innermost section, most first; outside of all of them under an empty name."""
        names = dict(enumerate(self.run.names("section")))
        process = np.isin(self.rows["phase"], [c for c, p in self.phases.items() if p == "process"])
        section = self.rows["section_id"]
        found: dict[str, dict[str, float]] = {}
        for code in np.unique(section[process]).tolist():
            mine = process & (section == code)
            states = _sums(self.rows["state"][mine], self.rows["seconds"][mine], self.states)
            if states:
                name = names.get(code, "")
                found[name] = summed([found.get(name, {}), states])
        return dict(sorted(found.items(), key=lambda each: -sum(each[1].values())))

    def sums(self, *columns: str) -> list[tuple]:
        """Seconds by these columns: a tuple per combination, the seconds last."""
        keys = np.stack([self.rows[column].astype(np.int64) for column in columns])
        found, which = np.unique(keys, axis=1, return_inverse=True)
        seconds = np.bincount(which.ravel(), self.rows["seconds"], found.shape[1])
        return [(*key, s) for key, s in zip(found.T.tolist(), seconds.tolist(), strict=True) if s > 0]  # fmt: skip

    def by_stack(self) -> list[tuple[list[int], str, str, float]]:
        """Frames from the outermost to the innermost one, phase, state and seconds of each stack; they add up to `seconds`."""
        return [
            (self.frames(stack), self.phases.get(phase, "?"), self.states.get(state, "?"), seconds)
            for stack, phase, state, seconds in self.sums("stack_id", "phase", "state")
        ]

    def frames(self, stack: int) -> list[int]:
        """Rows of ``dict/frame`` of a stack, the outermost first; empty where no look found it."""
        found = []
        while stack < len(self.frame_of):
            if self.frame_of[stack] < len(self.files):
                found.append(int(self.frame_of[stack]))
            stack = int(self.parent_of[stack])
        return found[::-1]

    def tree(self) -> list[Node]:
        """Stacks as a tree, callers before what they call: everything, then each phase, then the frames.

        Equal lines in equal callers are one node, and seconds that no look found are their phase's own.
        """
        return self.grown()[0]

    def grown(self) -> tuple[list[Node], dict[tuple[int, int], int]]:
        """The tree, and the position in it of each stack of each phase, by their codes."""
        n_states = len(STATES)
        position = {state: i for i, state in enumerate(STATES)}
        nodes = [Node("all", "", -1, 0, np.zeros(n_states), np.zeros(n_states))]
        children: dict[tuple[int, Any], int] = {}
        where: dict[tuple[int, int], int] = {}
        for stack, code, state, seconds in self.sums("stack_id", "phase", "state"):
            at = where.get((stack, code))
            if at is None:
                phase, at = self.phases.get(code, "?"), 0
                path: list[tuple[Any, str, str]] = [(code, PHASE_NAMES.get(phase, phase), "")]
                path += [(self._key(f), self.label(f), self.owners[f]) for f in self.frames(stack)]
                for key, name, owner in path:
                    inner = children.get((at, key))
                    if inner is None:
                        inner = children[at, key] = len(nodes)
                        own, whole = np.zeros(n_states), np.zeros(n_states)
                        nodes.append(Node(name, owner, at, nodes[at].depth + 1, own, whole))
                    at = inner
                where[stack, code] = at
            nodes[at].own[position.get(self.states.get(state, ""), n_states - 1)] += seconds
        for node in reversed(nodes):
            node.whole += node.own
            if node.parent >= 0:
                nodes[node.parent].whole += node.whole
        return nodes, where

    def label(self, frame: int) -> str:
        """A frame for figures and other programs: ``process (dijets.py:57)``."""
        file, line = self.files[frame], int(self.frame_lines[frame])
        if file == "...":  # stands for frames that are left out
            return file
        place = _file_name(file) if self.owners[frame] == "user" else file
        return f"{self.functions[frame]} ({place}:{line})"

    # -------------------------------------------------------------- parts

    def _key(self, frame: int) -> tuple[str, str, int]:
        return self.files[frame], self.functions[frame], int(self.frame_lines[frame])

    def _user_frames(self) -> np.ndarray:
        """Innermost frame of the user's of each stack; NONE where there is none."""
        found = np.full(len(self.frame_of), NONE, dtype=np.int64)
        own = np.array([owner == "user" for owner in self.owners], dtype=bool)
        for depth in np.unique(self.depths).tolist():
            at = np.flatnonzero(self.depths == depth)
            called = at[self.parent_of[at] < len(found)]
            found[called] = found[self.parent_of[called]]
            at = at[self.frame_of[at] < len(own)]
            mine = at[own[self.frame_of[at]]]
            found[mine] = self.frame_of[mine]
        return found


def of_any_worker(file: str) -> str:
    """Name of a file without the directory that a worker keeps uploaded files in."""
    return _OF_A_WORKER.sub("", file)


def summed(parts: Iterable[dict[str, float]]) -> dict[str, float]:
    """Seconds by state of several together, in the order of `STATES`."""
    found: dict[str, float] = {}
    for part in parts:
        for name, seconds in part.items():
            found[name] = found.get(name, 0.0) + seconds
    order = {state: i for i, state in enumerate(STATES)}
    return dict(sorted(found.items(), key=lambda each: order.get(each[0], len(order))))


def in_words(states: dict[str, float], places: Iterable[str] = (), *, shown: int = 3) -> str:
    """States with their shares, and for whom it waited: ``service 97 % (127.0.0.2:8002), cpu 3 %``."""
    words = []
    whole, place = sum(states.values()), next(iter(places), "")
    for state, seconds in sorted(states.items(), key=lambda each: -each[1])[:shown]:
        share = seconds / whole
        if share < 0.01 and words:
            break
        where = ""
        if place and state in _WITH_PLACE:
            where, place = f" ({place})", ""
        words.append(f"{state.replace('_', ' ')} {100 * share:.0f} %{where}")
    return ", ".join(words)


def _why(run: RunFile) -> str:
    """Why there are no looks."""
    why = "no looks in this file"
    if "dict/metric" in run and "crema.unavailable.looks" in run.names("metric"):
        return f"{why}: its workers could not be looked at"
    return f"{why}: looking was off, or it is of an earlier version"


def _tree(parents: np.ndarray, depths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Parents, NONE for those that are not one level further out, so that every walk ends; and depths."""
    n = len(parents)
    parents, depths = parents.astype(np.int64), depths.astype(np.int64)
    known = np.flatnonzero(parents < n)
    sound = np.zeros(n, dtype=bool)
    sound[known] = depths[parents[known]] == depths[known] - 1
    return np.where(sound, parents, NONE), depths


def _sums(codes: np.ndarray, seconds: np.ndarray, names: dict[int, str]) -> dict[str, float]:
    """Seconds by name, most first; codes without a name are left out."""
    found: dict[str, float] = {}
    for code in np.unique(codes).tolist():
        name, of = names.get(code), float(seconds[codes == code].sum())
        if name is not None and of > 0:
            found[name] = found.get(name, 0.0) + of
    return dict(sorted(found.items(), key=lambda each: -each[1]))


def _interval(share: float, n: int) -> tuple[float, float]:
    """Wilson's interval of a share of n looks; all that is possible without one."""
    if n <= 0:
        return 0.0, 1.0
    z2 = _Z * _Z
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return max(0.0, centre - half), min(1.0, centre + half)


def _short_names(files: set[str]) -> dict[str, str]:
    """Names of files, with as many of their directories as tell them apart."""
    names: dict[str, str] = {}
    left, n = {file: file.replace("\\", "/").split("/") for file in files}, 1
    while left:
        short = {file: "/".join(parts[-n:]) for file, parts in left.items()}
        counts = collections.Counter(short.values())
        done = [f for f, name in short.items() if counts[name] == 1 or n >= len(left[f])]
        names.update((file, short[file]) for file in done)
        left = {file: parts for file, parts in left.items() if file not in names}
        n += 1
    return names


def _is_in(file: str, package: str) -> bool:
    return file == f"{package}.py" or file.startswith(f"{package}/")


def _file_name(file: str) -> str:
    return file.replace("\\", "/").rpartition("/")[2] or file
