"""Where in the user's code the seconds of the tasks' threads went, and what the threads did or waited for there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .._numbers import readable
from ..code.looks import PHASE_NAMES, Line, Looks, Node, NoLooksError, summed
from ..code.looks import STATES as ORDER
from ._style import ROWS_MAX, STATES, NothingToDrawError, plot, short, stacked, swatch

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..reader import RunFile

_LINES = 16  # bars; the others are one
_NARROWEST = 0.004  # of the width: narrower frames are not drawn
_LEVELS = 20  # more have no room for names
_LETTERS = 135  # that have room in the width
_OWNERS = {"user": "#dbe7f3", "library": "#eceef1", "standard": "#eceef1"}
_LEVEL = 0.9  # of the distance between two levels


@plot("Which line of your code is slow?", group="Code", height=4.6, grid="x")
def lines(run: RunFile, ax: Axes, **only: str | Iterable[str]) -> Any:
    """Seconds by line of the user's code, each split by state; all bars add up to the seconds of the tasks' threads.

    ``state=``, ``phase=``, ``dataset=``, ``worker=`` and ``section=`` select, each by a name or several. Source: ``looks``.
    """
    found = looks_of(run, only)
    rows = found.lines()
    shown = [(_name(line), line.states) for line in rows[:_LINES]]
    if rest := rows[_LINES:]:
        shown.append((f"{len(rest)} other lines", summed(line.states for line in rest)))
    return _by_state(ax, shown)


@plot("What do your sections wait for?", group="Code", height=3.2, grid="x")
def section_states(run: RunFile, ax: Axes, **only: str | Iterable[str]) -> Any:
    """Seconds of process() by innermost section, each split by state; they add up to process(). Options and source as of `lines`."""
    found = looks_of(run, only).sections()
    if not set(found) - {""}:
        raise NothingToDrawError("process() marks no sections: crema.track_time(name) marks one")
    shown = [(short(name or "outside sections"), states) for name, states in found.items()]
    if len(shown) > ROWS_MAX:
        rest = shown[ROWS_MAX - 1 :]
        more = summed(states for _, states in rest)
        shown = [*shown[: ROWS_MAX - 1], (f"{len(rest)} other sections", more)]
    return _by_state(ax, shown)


@plot("Who calls the slow code?", group="Code", height=6.0, grid="")
def flame(run: RunFile, ax: Axes, *, phase: str = "process", **only: str | Iterable[str]) -> Any:
    """An icicle: below each line of process() what it called, as wide as its seconds, with a strip of its states. Options and source as of `lines`."""
    found = looks_of(run, only | {"phase": phase})
    nodes = found.tree()
    whole = float(nodes[0].whole.sum())
    boxes = [
        (i, left, wide)
        for i, left, wide in place(nodes)
        if 0 < nodes[i].depth <= _LEVELS and wide >= _NARROWEST * whole
    ]
    seen = set()
    for i, left, wide in boxes:
        node, y = nodes[i], nodes[i].depth - 1
        colour = _OWNERS.get(node.owner, "#ffffff")
        ax.barh(y, wide, left=left, height=_LEVEL, align="edge", color=colour, edgecolor="#ffffff", linewidth=0.5)  # fmt: skip
        at = left
        for state, seconds in zip(ORDER, node.whole.tolist(), strict=True):
            if seconds > 0:
                seen.add(state)
                ax.barh(y + 0.68 * _LEVEL, seconds, left=at, height=0.3 * _LEVEL, align="edge", color=STATES[state])  # fmt: skip
                at += seconds
        letters = int(_LETTERS * wide / whole)
        if letters >= 4:
            text = node.name if len(node.name) <= letters else node.name[: letters - 1] + "…"
            ax.text(
                left + 0.002 * whole,
                y + 0.34 * _LEVEL,
                text.replace("$", r"\$"),
                va="center",
                fontsize=7,
                color="#101418",
                clip_on=True,
            )
    ax.set_ylim(max(nodes[i].depth for i, _, _ in boxes), 0)
    ax.set_xlim(0, whole)
    ax.set_yticks([])
    deeper = max(node.depth for node in nodes) - _LEVELS
    more = f"; {deeper} deeper levels are not drawn" if deeper > 0 else ""
    ax.set_xlabel(f"seconds of the tasks' threads in {PHASE_NAMES.get(phase, phase)} [s]{more}")
    return [swatch(STATES[state], state.replace("_", " ")) for state in ORDER if state in seen]


def looks_of(run: RunFile, only: dict[str, Any]) -> Looks:
    """The looks that are to be drawn.

    Raises
    ------
    NothingToDrawError
        If there are none.
    """
    names = {what: [value] if isinstance(value, str) else list(value) for what, value in only.items()}  # fmt: skip
    try:
        found = Looks(run).select(**names)
    except NoLooksError as error:
        raise NothingToDrawError(str(error)) from error
    if not found.seconds > 0:
        raise NothingToDrawError("no second of the tasks' threads is of this selection")
    return found


def place(nodes: list[Node]) -> list[tuple[int, float, float]]:
    """Each node of a tree with its left end and its width in seconds: the widest of those with the same caller first."""
    inner: dict[int, list[int]] = {}
    for i, node in enumerate(nodes[1:], 1):
        inner.setdefault(node.parent, []).append(i)
    found, todo = [], [(0, 0.0)]
    while todo:
        i, left = todo.pop()
        found.append((i, left, float(nodes[i].whole.sum())))
        for child in sorted(inner.get(i, ()), key=lambda c: -nodes[c].whole.sum()):
            todo.append((child, left))
            left += float(nodes[child].whole.sum())
    return found


def _name(line: Line) -> str:
    return line.name.replace("$", r"\$")  # whole: it is what one looks up


def _by_state(ax: Axes, rows: list[tuple[str, dict[str, float]]]) -> Any:
    """Bars by state; a legend of the states that are there."""
    states = [state for state in ORDER if any(row.get(state, 0) > 0 for _, row in rows)]
    parts = [[row.get(state, 0.0) for _, row in rows] for state in states]
    stacked(ax, [name for name, _ in rows], parts, [STATES[state] for state in states])
    whole = sum(sum(row.values()) for _, row in rows)
    ax.set_xlabel(f"seconds of the tasks' threads [s], {readable(whole, 4)} in all")
    return [swatch(STATES[state], state.replace("_", " ")) for state in states]
