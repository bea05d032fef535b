"""One line about the end of a run, on standard error: in place on a terminal, every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Any

from rich.console import Console
from rich.status import Status

from ..hook._printable import printable
from ._client import VERDICT

PLAIN_EVERY_S = 5.0
SEALING_S = 2.0  # after which writing the file is shown, whatever was shown before

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
        self._sealing_at = 0.0  # since when; 0: not yet

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
        now, for_s = time.monotonic(), 0.0
        if state is not None and state.phase == VERDICT:
            self._sealing_at = self._sealing_at or now
            for_s = now - self._sealing_at
        line = printable(describe(state, for_s))
        if self._status is not None:
            self._status.update(line)
            return
        sealing = for_s >= SEALING_S and self._shown_at < self._sealing_at + SEALING_S
        if sealing or now - self._shown_at >= PLAIN_EVERY_S:
            self._shown_at = now
            print(line, file=sys.stderr, flush=True)


def describe(state: Any, for_s: float = 0.0) -> str:
    """One line about a RunState; with the seconds for which it has been so, if these are at least one."""
    if state is None:
        return "crema: no answer from the aggregator"
    if state.refusal:
        return f"crema: {state.error}"
    line = f"crema: {_PHASES.get(state.phase, state.phase)}"
    if for_s >= 1:
        line += f" for {for_s:.0f} s"
    line += f", {state.committed:,} records committed"
    if state.missing:
        line += f", {state.missing:,} missing"
    if state.waiting_for:
        names = ", ".join(state.waiting_for[:3])
        more = len(state.waiting_for) - 3
        line += f", waiting for {names}" + (f" and {more} more" if more > 0 else "")
    if state.trouble:
        line += f": {state.trouble}"
    return line
