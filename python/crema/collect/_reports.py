"""What users give as coffea's report: that of a Runner, uproot's by partition, or sums of their own by dataset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import _attributes


def attributes(
    report: Any, custom_metrics: Mapping[str, Any] | None, *, over: bool
) -> dict[str, str]:
    """Keys ``coffea.*`` from what was given; not if the run is `over`.

    Raises
    ------
    Exception
        Of any kind, if nothing is known in it; the text says why.
    """
    if over:
        raise ValueError("the block has ended; give it inside")
    own = of_custom_metrics(custom_metrics or {})
    known = of_partitions(report)
    if known is None:
        known = {} if report is None else dict(report)
    found = of_report({**known, **own})
    if not found and (known or custom_metrics):
        raise TypeError("it has no number of coffea's or uproot's reports")
    return found


def of_report(report: Mapping[str, Any]) -> dict[str, str]:
    """Keys ``coffea.*`` from the report that a Runner returns with ``savemetrics=True``: its numbers, and how many columns."""
    found = {}
    for key, value in report.items():
        if key == "columns":
            found["coffea.n_columns"] = _attributes.text(len(value))
        elif isinstance(value, (int, float)):
            found[f"coffea.{key}"] = _attributes.text(value)
    return found


_PARTITION_FIELDS = {"duration", "performance_counters", "exception", "args"}


def of_partitions(report: Any) -> dict[str, float] | None:
    """Sums over uproot's report with a row per partition (``allow_read_errors_with_report``), or over one per dataset, under names of coffea's report where it has them; None for anything else.

    Raises
    ------
    TypeError
        If the report was not computed yet.
    """
    reports = list(report.values()) if isinstance(report, Mapping) else [report]
    if not reports or not all(set(_fields(each)) >= _PARTITION_FIELDS for each in reports):
        return None
    if any(hasattr(each, "compute") for each in reports):
        raise TypeError("it is not computed yet: give the result of dask.compute(report)")
    rows = [row for each in reports for row in each.to_list()]
    read = [row for row in rows if row["exception"] is None]
    return {
        "entries": sum(int(row["args"][2]) - int(row["args"][1]) for row in read),
        "bytesread": sum(row["performance_counters"]["num_requested_bytes"] for row in read),
        "partitions": len(rows),
        "failed_partitions": len(rows) - len(read),
        "partition_read_s": sum(row["duration"] for row in read),
    }


def _fields(value: Any) -> list[str]:
    """Names of an awkward array's columns; empty for anything else."""
    fields = getattr(value, "fields", None)
    return fields if isinstance(fields, list) else []


def of_custom_metrics(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Sums over datasets under the names of coffea's report; anything but a mapping is ignored."""
    rows = [row for row in metrics.values() if isinstance(row, Mapping)]
    if not rows:
        return {}
    counters = [row.get("performance_counters") or {} for row in rows]
    return {
        "entries": sum(row.get("entries", 0) for row in rows),
        "processtime": sum(row.get("duration", 0.0) for row in rows),
        "bytesread": sum(counter.get("num_requested_bytes", 0) for counter in counters),
    }
