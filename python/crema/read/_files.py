"""Files of a directory in which anything may lie."""

from __future__ import annotations

import contextlib
import pathlib
import stat
from collections.abc import Iterable


def newest_first(paths: Iterable[pathlib.Path]) -> list[pathlib.Path]:
    """Regular files by the time of their last change; anything else is left out, such as a link that leads nowhere."""
    times = {}
    for path in paths:
        with contextlib.suppress(OSError):  # it may also vanish meanwhile
            status = path.stat()
            if stat.S_ISREG(status.st_mode):
                times[path] = status.st_mtime_ns
    return sorted(times, key=times.__getitem__, reverse=True)
