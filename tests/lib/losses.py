"""What a test asserts of records that are lost or counted twice: one failure is enough, however often it is tried."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


class LossError(AssertionError):
    """Records are not there, or twice, or not as they were written."""


@contextlib.contextmanager
def nothing_lost_or_twice() -> Iterator[None]:
    """What is asserted in the block is about loss or duplication: a test of seconds is not tried again if it fails here."""
    try:
        yield
    except AssertionError as error:
        raise LossError(str(error)) from error
