"""Waiting for a condition, and never for a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_for(
    condition: Callable[[], T], timeout_s: float = 30.0, what: str = "it", pause_s: float = 0.02
) -> T:
    """First true value of `condition`; AssertionError with `what` if there is none in time."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {what}"
        time.sleep(pause_s)
    return value
