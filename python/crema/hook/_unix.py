"""What recording needs of the system beside Python: None on Windows, where run files are read and nothing is recorded."""

from __future__ import annotations

import os
import select
from collections.abc import Callable

try:
    import fcntl
    import resource
except ImportError:
    fcntl = resource = None  # type: ignore[assignment]

__all__ = ["fcntl", "in_each_child", "is_readable", "require", "resource"]


def require() -> None:
    """Raise OSError where nothing can be recorded, whatever is installed."""
    if fcntl is None:
        raise OSError(
            "recording needs Linux (wheels for x86_64 and aarch64); on this system run files can only be read, plotted and reported"
        )


def is_readable(fd: int, timeout_s: float) -> bool:
    """Whether something, or the end, can be read in time. `select.select` could not ask for a number above 1023, which a process with many connections gives."""
    asked = select.poll()
    asked.register(fd)
    return bool(asked.poll(1e3 * timeout_s))


def in_each_child(call: Callable[[], None]) -> None:
    """Have `call` run in every process that is forked from this one."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=call)
