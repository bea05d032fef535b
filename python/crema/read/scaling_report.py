"""A series of runs on a terminal, as CSV and as JSON."""

from __future__ import annotations

import csv
import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..hook._printable import printable
from ._numbers import readable
from .brief import finite
from .fits import Estimate, FitError
from .parts import BESIDE, Model
from .report import percent, quantity, seconds
from .series import COLUMNS, Series

_HEADINGS = (
    "throughput: events per second of the whole run; steady: while nine tenths of the threads were busy; "
    "eff.: efficiency; busy: share of the threads in chunks\n"
)


def render(series: Series) -> Group:
    """Runs, laws and parts, for a terminal."""
    warned = [Text(f"Warning: {printable(line)}", style="yellow") for line in series.warnings]
    found: list[RenderableType] = [_runs(series), Text(_HEADINGS), *warned]
    found += map(Text, laws(series))
    model = _or_reason(lambda: series.parts)
    if isinstance(model, str):
        found.append(Text(f"\nParts of the budget: {model}.", style="yellow"))
    else:
        found += [Text(""), _parts(model), *map(Text, outlook(model))]
    return Group(*found)


def laws(series: Series) -> list[str]:
    """A sentence per law, or why there is none."""
    sentences = []
    for name, say, fit in (
        ("Amdahl", _amdahl, lambda: series.amdahl),
        ("Gustafson", _gustafson, lambda: series.gustafson),
        ("Universal scalability law", _usl, lambda: series.usl),
    ):
        if (name == "Gustafson") != (series.kind == "weak") and name != "Universal scalability law":
            continue
        found = _or_reason(fit)
        rests = f"; from {len(series.points)} runs on {series.n_different} numbers of threads"
        sentences.append(
            f"{name}: {found if isinstance(found, str) else say(found, series) + rests}."
        )
    return sentences


def outlook(model: Model) -> list[str]:
    """The model's prediction for two and ten times the largest run."""
    largest, sentences = float(model.threads.max()), []
    for threads in (2 * largest, 10 * largest):
        p = model.predict(threads)
        sentences.append(
            f"On {threads:.0f} threads a run would take {seconds(p.wall_s)} s ({seconds(p.wall_lo_s)} to {seconds(p.wall_hi_s)} s, 90 %); "
            f"{p.limits} would be {percent(p.limits_fraction)} of its thread-seconds."
        )
    return sentences


def as_json(series: Series) -> dict[str, Any]:
    """Everything for programs; unknown values are null."""
    model = _or_reason(lambda: series.parts)
    found: dict[str, Any] = {
        "kind": series.kind,
        "warnings": series.warnings,
        "units": dict(COLUMNS),
        "runs": [
            {name: getattr(p, name) for name in COLUMNS} | {"parts_s": p.parts}
            for p in series.points
        ],
    }
    for name, fit in (
        ("amdahl", lambda: series.amdahl),
        ("gustafson", lambda: series.gustafson),
        ("usl", lambda: series.usl),
    ):
        fitted = _or_reason(fit)
        found[name] = {"refused": fitted} if isinstance(fitted, str) else dataclasses.asdict(fitted)
    if isinstance(model, str):
        found["parts"] = {"refused": model}
    else:
        largest = float(model.threads.max())
        found["parts"] = {
            "models": {
                name: {**dataclasses.asdict(m), "formula": str(m)}
                for name, m in model.parts.items()
            },
            "predictions": [dataclasses.asdict(model.predict(k * largest)) for k in (2, 10)],
        }
    return finite(found)


def write_csv(series: Series, file: TextIO) -> None:
    """One line per run; seconds, Hz, fractions of 1; what is not known is empty."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    for point in series.points:
        values = (getattr(point, name) for name in COLUMNS)
        writer.writerow(["" if isinstance(v, float) and math.isnan(v) else v for v in values])


# ---------------------------------------------------------------- tables


def _runs(series: Series) -> Table:
    points = series.points
    events = {p.events for p in points}
    what = (
        f", {quantity(max(events), 'count')} events" if len(events) == 1 and max(events) > 0 else ""
    )
    title = {"strong": "Strong scaling", "weak": "Weak scaling"}.get(
        series.kind, "Runs of different work"
    )
    narrow = {"padding": (0, 1, 0, 0), "pad_edge": False}  # all of it in 80 columns
    table = Table(title=title + what, title_justify="left", box=box.SIMPLE_HEAD, **narrow)
    headings = ("threads", "wall s", "throughput", "steady", "speedup", "eff.", "busy")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True, min_width=8)
    for p in points:
        table.add_row(
            seconds(p.threads),
            seconds(p.wall_s),
            quantity(p.throughput_hz, "Hz"),
            quantity(p.steady_hz, "Hz"),
            seconds(p.speedup),
            percent(p.efficiency),
            percent(p.core_occupancy),
            Text(p.verdict, style="green" if p.verdict == "COMPLETE" else "yellow"),
        )
    return table


def _parts(model: Model) -> Table:
    largest = float(model.threads.max())
    now, then = model.predict(largest), model.predict(10 * largest)
    table = Table(
        title="Thread-seconds of each part, as a function of the threads p",
        title_justify="left",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("part", no_wrap=True)
    for heading in ("model", f"at {largest:.0f}", f"at {10 * largest:.0f}", "90 %"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, part in sorted(model.parts.items(), key=lambda item: -then.parts[item[0]][0]):
        value, lo, hi = then.parts[name]
        beside = " (beside the tasks)" if name == BESIDE else ""
        cells = (seconds(now.parts[name][0]), seconds(value), f"{seconds(lo)} to {seconds(hi)}")
        table.add_row(name + beside, str(part), *cells)
    return table


# ---------------------------------------------------------------- sentences


def _or_reason(fit: Callable[[], Any]) -> Any:
    """What is fitted, or why it is not."""
    try:
        return fit()
    except FitError as error:
        return f"refused: {error}"
    except ImportError as error:
        return f"needs scipy (pip install 'coffea-crema[scaling]'): {error}"


def _range(of: Estimate, profile: bool = False) -> str:
    lo, hi = (of.profile_lo, of.profile_hi) if profile else (of.lo, of.hi)
    if of.at_bound:
        return "" if math.isnan(hi) else f" (below {hi:.3g}, 95 %)"
    return "" if math.isnan(lo) or math.isnan(hi) else f" ({lo:.3g} to {hi:.3g}, 95 %)"


def _amdahl(fit: Any, series: Series) -> str:
    s = fit.serial_fraction
    most = (
        f"; never more than {readable(1 / s.value)} times as fast as one thread"
        if s.value > 0
        else ""
    )
    return f"{seconds(fit.serial_s)} s + {seconds(fit.parallel_s)} s / N, serial fraction {s.value:.3g}{_range(s)}{most}"


def _gustafson(fit: Any, series: Series) -> str:
    s = fit.serial_fraction
    return f"serial fraction {s.value:.3g}{_range(s)}"


def _usl(fit: Any, series: Series) -> str:
    found = f"contention {fit.alpha.value:.3g}{_range(fit.alpha, True)}, coherency {fit.beta.value:.3g}{_range(fit.beta, True)}"
    if fit.has_peak:
        found += f"; fastest on {fit.n_max:.0f} threads, slower beyond"
    elif fit.f_test is not None and fit.f_test.p < 0.05:
        found += "; the data need coherency, but do not say where the peak is"
    else:
        found += "; the data show no peak"
    return "; ".join([found, *fit.warnings])


def what_if_lines(answer: Any) -> Sequence[str]:
    """An answer of a replay in sentences."""
    change = answer.wall_s - answer.recorded_wall_s
    lines = [
        f"{answer.threads} threads, {answer.n_chunks:,} chunks: {seconds(answer.wall_s)} s; "
        f"recorded on {answer.recorded_threads}: {seconds(answer.recorded_wall_s)} s ({change:+.2f} s).",
        f"The replay of the recorded run itself gives {seconds(answer.replayed_wall_s)} s; the prediction is scaled by "
        f"{answer.recorded_wall_s / answer.replayed_wall_s:.2f}.",
        f"Tail {seconds(answer.tail_s)} s; {answer.cores_wanted:.2f} cores wanted on average.",
    ]
    return [*lines, *(f"Assumed: {assumption}." for assumption in answer.assumes)]
