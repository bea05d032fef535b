"""Measure coffea analyses on Dask clusters without slowing them and without losing a record.

>>> import crema
>>> with crema.MetricsCollector(client, processor_instance=instance) as mc:
...     output, report = runner(fileset, processor_instance=instance)
>>> crema.open(mc.path)["chunks"]

Nothing is imported before it is asked for: a worker that only records needs neither HDF5 nor ZeroMQ.
"""

from __future__ import annotations

import importlib
from importlib.metadata import PackageNotFoundError, version
from typing import Any

try:
    __version__ = version("crema")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"

# name -> module that has it
_PUBLIC = {
    "CremaError": "collector",
    "MetricsCollector": "collector",
    "RunFile": "reader",
    "newest": "reader",
    "open": "reader",
    "Tracker": "instrument",
    "record_metric": "instrument",
    "track_bytes": "instrument",
    "track_memory": "instrument",
    "track_metrics": "instrument",
    "track_section": "instrument",
    "track_time": "instrument",
}

__all__ = [
    "CremaError",
    "MetricsCollector",
    "RunFile",
    "Tracker",
    "__version__",
    "newest",
    "open",
    "record_metric",
    "track_bytes",
    "track_memory",
    "track_metrics",
    "track_section",
    "track_time",
]


def __getattr__(name: str) -> Any:
    module = _PUBLIC.get(name)
    if module is None:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    found = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    globals()[name] = found  # the next look-up is an ordinary one
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
