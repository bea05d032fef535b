"""From when to when a run is recorded, whatever is done to the wall clock meanwhile."""

from __future__ import annotations

import time

from ..read._notes import STEPPED

_STEP_NS = 500_000_000  # less may pass between two looks at clocks


def passed_ns() -> int:
    """A clock that cannot be set; where the system has one, it also runs while this host is suspended."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic_ns() if clock is None else time.clock_gettime_ns(clock)


class Window:
    """The window of a run, which begins now.

    Attributes
    ----------
    start_ns : int
        Its start, on this host's wall clock or, once it is known, on the sink's.
    began_ns : int
        The same on `passed_ns`.
    """

    def __init__(self) -> None:
        self.start_ns = self._wall_ns = time.time_ns()
        self.began_ns = passed_ns()
        self._stepped_ns = 0

    def end_ns(self) -> int:
        """The end, which is now: the start and what has passed since."""
        passed = passed_ns() - self.began_ns
        self._stepped_ns = time.time_ns() - self._wall_ns - passed
        return self.start_ns + passed

    def notes(self) -> dict[str, str]:
        """How far the wall clock was set meanwhile, if it was, as an attribute."""
        if abs(self._stepped_ns) < _STEP_NS:
            return {}
        return {STEPPED: f"{self._stepped_ns * 1e-9:.3f}"}
