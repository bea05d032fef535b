"""Control groups of this process, versions 1 and 2, as far as they can be seen: limits of memory and CPU, and how often they were met."""

from __future__ import annotations

import contextlib
import math
import pathlib
import time
from collections.abc import Iterator

_TOP = pathlib.Path("/sys/fs/cgroup")
_OWN = pathlib.Path("/proc/self/cgroup")
_LEVELS_S = 10.0  # a move to another group is noticed after this time


def oom_kills() -> int:
    """Processes that the kernel has ended for want of memory in this process's groups."""
    names = ("memory.events", "memory.oom_control")  # version 2; version 1
    return sum(_fields(at / name).get("oom_kill", 0) for at in _levels("memory") for name in names)


def memory_limit_b() -> int:
    """The tightest limit of memory; -1 for none."""
    found = []
    for level in _levels("memory"):
        with contextlib.suppress(OSError, ValueError):  # "max"
            found.append(int((level / "memory.max").read_text()))
        found.append(_fields(level / "memory.stat").get("hierarchical_memory_limit", 0))
    limits = [limit for limit in found if 0 < limit < 1 << 62]
    return min(limits, default=-1)


class Quota:
    """How often this process's groups had used up their CPU quota, from one call to the next."""

    def __init__(self) -> None:
        self._levels: list[pathlib.Path] = []
        self._levels_at = -math.inf
        # Periods so far, and throttled ones.
        self._periods: dict[pathlib.Path, tuple[int, int]] = {}

    def throttled(self) -> tuple[float, float]:
        """The quota in cores of the group that was throttled most, and the share of its periods in which it was; NaN without a quota.

        As long as no share is known, the quota is the tightest one.
        """
        now = time.monotonic()
        if now - self._levels_at > _LEVELS_S:
            self._levels, self._levels_at = list(_levels("cpu")), now
        found, before, self._periods = [], self._periods, {}
        for level in self._levels:
            quota = _quota(level)
            if quota is None:
                continue
            share = -1.0
            stat = _fields(level / "cpu.stat")
            last = self._periods[level] = stat.get("nr_periods", 0), stat.get("nr_throttled", 0)
            if level in before:
                periods, stopped = (b - a for a, b in zip(before[level], last, strict=True))
                share = stopped / periods if periods > 0 else 0.0
            found.append((-share, quota))
        share, quota = min(found, default=(1.0, math.nan))
        return quota, -share if share <= 0 else math.nan


def _quota(level: pathlib.Path) -> float | None:
    """Cores that a group may use; None for no limit."""
    with contextlib.suppress(OSError, ValueError):
        quota_us, period_us = (level / "cpu.max").read_text().split()
        return int(quota_us) / int(period_us)  # "max" is not a number
    with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
        quota_us = (level / "cpu.cfs_quota_us").read_text()
        period_us = (level / "cpu.cfs_period_us").read_text()
        if int(quota_us) > 0:
            return int(quota_us) / int(period_us)
    return None


def _levels(controller: str) -> Iterator[pathlib.Path]:
    """Directories of a controller, from this process's own group up to the top that can be seen.

    A container may see the host's path beside mounts of its own; then only the top exists.
    """
    try:
        lines = _OWN.read_text().splitlines()
    except (OSError, ValueError):
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        top = _TOP / controller if controllers else _TOP
        own = top / path.lstrip("/")
        levels = [own, *own.parents]
        for level in levels[: levels.index(top) + 1]:
            with contextlib.suppress(OSError):  # it may not be looked into
                if level.is_dir():
                    yield level


def _fields(path: pathlib.Path) -> dict[str, int]:
    """Numbers of a file of lines "name number"; empty if it cannot be read."""
    found = {}
    with contextlib.suppress(OSError, ValueError):
        for line in path.read_text().splitlines():
            name, _, value = line.partition(" ")
            with contextlib.suppress(ValueError):
                found[name] = int(value)
    return found
