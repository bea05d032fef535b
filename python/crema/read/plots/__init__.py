"""Plots of a run. Every number is read from the run file; each plot answers the question in its title.

``run.plot.waterfall()`` draws one, ``dir(run.plot)`` lists them; ``plots.waterfall(run, ax)`` draws it into axes of yours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import chunks as _chunks
from . import code as _code
from . import scaling as _scaling
from . import tasks as _tasks
from . import timelines as _timelines
from . import workers as _workers
from ._style import LOST, REGISTRY, SIDES, NothingToDrawError, Plot, plot
from .budget import waterfall
from .chunks import chunk_wall
from .timelines import timeline

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes

__all__ = [
    "LOST",
    "REGISTRY",
    "SIDES",
    "NothingToDrawError",
    "Plot",
    "Plots",
    "chunk_wall",
    "plot",
    "timeline",
    "waterfall",
]
_MODULES = (
    _chunks,
    _code,
    _scaling,
    _tasks,
    _timelines,
    _workers,
)  # each enters its pictures when it is imported


class Plots:
    """The plots of one run, or of a series of runs, as functions: ``run.plot.waterfall(ax=None)``.

    Parameters
    ----------
    of : RunFile or series
        What is drawn.
    across : bool, optional
        True: the pictures of a series of runs.
    """

    def __init__(self, of: Any, *, across: bool = False) -> None:
        self._of = of
        self._across = across

    def __getattr__(self, name: str) -> Callable[..., Axes]:
        entry = REGISTRY.get(name)
        if entry is None or entry.across != self._across:
            raise AttributeError(f"there is no plot {name!r}; there are {', '.join(dir(self))}")

        def draw(ax: Axes | None = None, **options: Any) -> Axes:
            return entry.draw(self._of, ax, **options)

        draw.__name__, draw.__doc__ = name, f"{entry.question}\n\n{entry.draw.__doc__}"
        return draw

    def __dir__(self) -> list[str]:
        return sorted(name for name, entry in REGISTRY.items() if entry.across == self._across)

    def __repr__(self) -> str:
        names = dir(self)
        width = max(map(len, names)) + 2
        return "\n".join(f"{name:{width}}{REGISTRY[name].question}" for name in names)
