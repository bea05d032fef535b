"""The one limit of the way out of a block: how long leaving it goes on while nothing moves."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

GRACE_S = 5.0  # after the limit, for the services to decide
_LEAST_S = 1.0  # for the aggregator, however long Dask took
_SEAL_S = 60.0  # for the file
_SEAL_RECORD_S = 20e-6  # more for each of its records; a chunk is at least one
CALL_S = 60.0  # how long Dask may take for one call


class ClusterError(RuntimeError):
    """The cluster cannot be measured; the message says why and what would help."""


class NoAnswerError(ClusterError):
    """Dask did not answer in time."""


def bounded(call: Callable[[], Any], what: str, timeout_s: float = CALL_S) -> Any:
    """Result of a call of Dask's client, which has no time limit itself.

    Raises
    ------
    NoAnswerError
        If it takes longer; the call is abandoned in its thread.
    """
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.extend((call(), None))
        except BaseException as error:
            outcome.extend((None, error))

    thread = threading.Thread(target=run, name=f"crema {what}", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if len(outcome) < 2:
        raise NoAnswerError(f"{what}: Dask did not answer within {timeout_s:g} s")
    result, error = outcome
    if error is not None:
        raise error
    return result


class Patience:
    """What is left of the time for leaving a block, shared by everything that is waited for.

    Parameters
    ----------
    timeout_s : float
        Seconds without progress after which nothing is waited for.
    """

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._moved_at = time.monotonic()
        self._silence: NoAnswerError | None = None

    def moved(self) -> None:
        """Something that is waited for has come."""
        self._moved_at = time.monotonic()

    def left_s(self, more_s: float = 0.0) -> float:
        """Seconds left, and `more_s`, if nothing moves until then; not negative."""
        return max(self._moved_at + self.timeout_s + more_s - time.monotonic(), 0.0)

    def for_dask_s(self) -> float:
        """Seconds that workers may take to answer: at most half of all, the rest is for their records."""
        return min(self.left_s(), self.timeout_s / 2, CALL_S)

    def limit_ns(self) -> int:
        """The same for the aggregator, which gives its verdict then, whatever is there."""
        return int(1e9 * max(self.left_s(), _LEAST_S))

    def seal(self, n_records: int) -> None:
        """There is a verdict: from now on the file is waited for, which has a limit of its own."""
        self.timeout_s = _SEAL_S + _SEAL_RECORD_S * n_records
        self.moved()

    def ask(self, call: Callable[[], Any], what: str, *, of_workers: bool = False) -> Any:
        """Result of a question to Dask; once the scheduler did not answer one, it is not asked another.

        Raises
        ------
        ClusterError
            If there is no answer.
        """
        if self._silence is not None:
            raise self._silence
        try:
            # More than workers have, of whom the scheduler tells.
            return bounded(call, what, self.for_dask_s() + GRACE_S)
        except NoAnswerError as error:
            self._silence = None if of_workers else error
            raise
