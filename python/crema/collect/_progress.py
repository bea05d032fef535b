"""One line about the end of a run, on standard error: in place on a terminal, every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Any

from rich.console import Console
from rich.status import Status

PLAIN_EVERY_S = 5.0

_PHASES = {
    0: "the aggregator does not know the run yet",
    1: "open",
    2: "collecting the last records",
    3: "writing the run file",
    4: "sealed",
    5: "failed",
}


class NoDisplay:
    """Replaces the display of a run that cannot be watched: accepts the same calls and shows nothing."""

    n_looks = 0

    def stop(self) -> None:
        """Nothing."""


class Progress:
    """Shows RunState messages while a collector waits for the verdict; a context manager."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._status: Status | None = None
        self._shown_at = time.monotonic()

    def __enter__(self) -> Progress:
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._status = self._console.status("crema: closing the run")
            self._status.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    def show(self, state: Any) -> None:
        """Show a state, or that there is none (None)."""
        line = describe(state)
        if self._status is not None:
            self._status.update(line)
        elif time.monotonic() - self._shown_at >= PLAIN_EVERY_S:
            self._shown_at = time.monotonic()
            print(line, file=sys.stderr, flush=True)


def describe(state: Any) -> str:
    """One line about a RunState."""
    if state is None:
        return "crema: no answer from the aggregator"
    if state.refusal:
        return f"crema: {state.error}"
    line = f"crema: {_PHASES.get(state.phase, state.phase)}, {state.committed:,} records committed"
    if state.missing:
        line += f", {state.missing:,} missing"
    if state.waiting_for:
        names = ", ".join(state.waiting_for[:3])
        more = len(state.waiting_for) - 3
        line += f", waiting for {names}" + (f" and {more} more" if more > 0 else "")
    if state.trouble:
        line += f": {state.trouble}"
    return line
