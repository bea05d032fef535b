"""A run in six lines, and as one JSON object. Every number comes from the file."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rich.text import Text

from ..hook._printable import printable
from ._attempts import failures
from .html.sentences import findings, headline
from .report import failed, verdict

if TYPE_CHECKING:
    from .reader import RunFile


def lines(run: RunFile) -> Text:
    """Six lines: verdict, headline, bottlenecks, and where to find the rest; more if attempts failed.

    Raises
    ------
    KeyError
        If the file has no summaries: it is live.
    """
    run = run.as_shown()
    first = verdict(run).split("\n")
    texts = [first[0]]
    if len(first) > 2:  # the last is the path
        more = f" (and {len(first) - 3} more: --all)" if len(first) > 3 else ""
        texts.append(Text.assemble(first[1], more))
    failures_of = failed(run)
    texts += failures_of
    numbers = [f"{value} {label}" for label, value, mark in headline(run) if mark != "unavailable"]
    texts.append(Text("  " + " · ".join(numbers)))
    for finding in findings(run, shown=2):
        saving = f" {finding.saving}" if finding.saving else ""
        texts.append(Text(f"  {finding.finding}{saving}"))
    if not findings(run, shown=1):
        texts.append(Text("  The data support no diagnosis."))
    texts = [
        *texts[: 5 + len(failures_of)],
        Text(f"  {printable(run.path)}   tables: --all   page: crema report", style="dim"),
    ]
    return Text("\n").join(texts)


def as_dict(run: RunFile) -> dict[str, Any]:
    """The run for programs: unknown numbers are None, since JSON has no NaN."""
    facts: dict[str, Any] = {
        "path": str(run.path),
        "run_id": run.run_id,
        "state": run.state,
        "verdict": run.verdict,
        "reasons": run.reasons,
        "notes": run.notes,
        "attributes": run.attributes,
        "rows": {name: len(run.file[name]) for name in run},
    }
    if not run.live:
        facts["metrics"] = {
            row.name: {"value": row.value, "unit": row.units, "status": row.status}
            for row in run.rows("summary/workflow")
        }
        for name in ("waterfall", "bottlenecks", "split", "monitor"):
            facts[name] = [vars(row) for row in run.rows(f"summary/{name}")]
        facts["failed_attempts"] = [vars(each) for each in failures(run)]
        facts["diagnosis"] = [vars(f) for f in findings(run)]
    return finite(facts)


def finite(value: Any) -> Any:
    """Replace every number that is not finite by None, and anything JSON cannot represent by text."""
    if isinstance(value, dict):
        return {str(k): finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(v) for v in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (str, int, bool)):
        return value
    return finite(value.tolist()) if hasattr(value, "tolist") else str(value)
