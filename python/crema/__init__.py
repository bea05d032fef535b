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
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what an editor shows; at run time each is imported when it is asked for
    from .collect.collector import CremaError, MetricsCollector
    from .collect.doctor import doctor
    from .hook.instrument import (
        Tracker,
        record_metric,
        track_bytes,
        track_memory,
        track_metrics,
        track_section,
        track_time,
    )
    from .read._named import newest
    from .read.reader import RunFile, open
    from .read.runs import runs
    from .read.series import scaling

try:
    __version__ = version("coffea-crema")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"

# modules that notebooks use: `from crema import plots`
_MODULES = {"plots": "read.plots", "report": "read.report"}
# name -> module that has it
_PUBLIC = {
    "CremaError": "collect.collector",
    "MetricsCollector": "collect.collector",
    "RunFile": "read.reader",
    "doctor": "collect.doctor",
    "extract_per_task_metrics": "read.roastcoffea",
    "load_measurement": "read.roastcoffea",
    "newest": "read._named",
    "open": "read.reader",
    "runs": "read.runs",
    "scaling": "read.series",
    "plot_per_task_bytes_read": "read.roastcoffea",
    "plot_per_task_cpu_io": "read.roastcoffea",
    "plot_per_task_overhead": "read.roastcoffea",
    "BaseInstrumentationContext": "hook.instrument",
    "Tracker": "hook.instrument",
    "record_metric": "hook.instrument",
    "track_bytes": "hook.instrument",
    "track_memory": "hook.instrument",
    "track_metrics": "hook.instrument",
    "track_section": "hook.instrument",
    "track_time": "hook.instrument",
}

__all__ = [
    "BaseInstrumentationContext",
    "CremaError",
    "MetricsCollector",
    "RunFile",
    "Tracker",
    "__version__",
    "doctor",
    "extract_per_task_metrics",
    "load_measurement",
    "newest",
    "open",
    "plot_per_task_bytes_read",
    "plot_per_task_cpu_io",
    "plot_per_task_overhead",
    "record_metric",
    "runs",
    "scaling",
    "track_bytes",
    "track_memory",
    "track_metrics",
    "track_section",
    "track_time",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        found = importlib.import_module(f"{__name__}.{_MODULES[name]}")
    elif name in _PUBLIC:
        found = getattr(importlib.import_module(f"{__name__}.{_PUBLIC[name]}"), name)
    else:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    globals()[name] = found  # the next look-up is an ordinary one
    return found


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
