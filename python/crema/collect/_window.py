"""From when to when a run is recorded, whatever is done to the wall clock meanwhile."""

from __future__ import annotations

import time

from ..read._notes import STEPPED

_STEP_NS = 500_000_000  # less may pass between two looks at clocks


def _passed_ns() -> int:
    """A clock that nobody sets, and that goes on while this host is suspended, where there is one."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic_ns() if clock is None else time.clock_gettime_ns(clock)


class Window:
    """The window of a run, which begins now.

    Attributes
    ----------
    start_ns : int
        Its start, on this host's wall clock or, once it is known, on the sink's.
    """

    def __init__(self) -> None:
        self.start_ns = self._wall_ns = time.time_ns()
        self._began_ns = _passed_ns()
        self._stepped_ns = 0

    def end_ns(self) -> int:
        """The end, which is now: the start and what has passed since."""
        passed_ns = _passed_ns() - self._began_ns
        self._stepped_ns = time.time_ns() - self._wall_ns - passed_ns
        return self.start_ns + passed_ns

    def attributes(self) -> dict[str, str]:
        """How far the wall clock was set meanwhile, if it was."""
        if abs(self._stepped_ns) < _STEP_NS:
            return {}
        return {STEPPED: f"{self._stepped_ns * 1e-9:.3f}"}
