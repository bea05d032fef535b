"""docs/performance.md, made of what `./dev bench` stored.

    python tests/bench/page.py [DIRECTORY]

DIRECTORY (build/bench) holds one JSON file per part of the bench. The page's text is its own; the tables between the marks are replaced.
A part that is not there keeps the table that the page has.
"""

from __future__ import annotations

import json
import math
import pathlib
import re
import sys

from idle import LIMITS

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "performance.md"


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def ns(x: float) -> str:
    return "" if math.isnan(x) else f"{x:.0f}"


def chain(found: dict) -> str:
    rows = [[r["what"], ns(r["wall_ns"]), ns(r["cpu_ns"]), r["limit"]] for r in found["rows"]]
    return table(["ns per sample", "wall", "CPU", "limit"], rows)


def idle(found: dict) -> str:
    names = list(next(iter(found.values())))
    rows = [
        [
            what,
            *(f"{row[n]['cpu_percent']:.3f} ({row[n]['wakes_per_s']:.0f})" for n in names),
            str(LIMITS[what]),
        ]
        for what, row in found.items()
    ]
    return table(["% of a core (wakes per second)", *names, "limit for each program"], rows)


def value(column: str, x: float) -> str:
    return f"{x / 1e6:.1f} MB" if column.endswith("_b") else f"{x:.3f}"


def growth(found: dict) -> str:
    parts = []
    for name, one in found.items():
        columns = list(next(iter(one["points"].values())))
        rows = [
            [f"{int(n):,}", *(value(c, row[c]) for c in columns)]
            for n, row in one["points"].items()
        ]
        slopes = one["exponents"]
        rows.append(
            ["exponent", *("" if slopes[c] is None else f"{slopes[c]:.2f}" for c in columns)]
        )
        parts.append(table([name, *(c.replace("_", " ") for c in columns)], rows))
    return "\n\n".join(parts)


def beside(found: dict) -> str:
    alone = found["alone"]
    rows = []
    for name, one in (
        ("alone", alone),
        ("a large live run that arrives", found["large"]),
        ("64 runs with live files", found["views"]),
    ):
        limit_ms = 2 * max(alone["p99_ms"], one["floor"]["p99_ms"])
        pairs = [
            f"{way[k]:.1f}"
            for way in (one, one["floor"], one["sync"])
            for k in ("p50_ms", "p99_ms")
        ]
        limit = "" if one is alone else f"{limit_ms:.1f}"
        rows.append([name, f"{one['commits']:,}", *pairs[:2], limit, *pairs[2:]])
    words = ["a small run's commits beside", "commits", "p50 ms", "p99 ms", "limit"]
    words += ["program that only syncs: p50", "p99", "`fdatasync` alone: p50", "p99"]
    starts = [
        ["an empty store", f"{found['restart_alone_s']:.3f}", ""],
        [
            f"{found['journal_mb']:,.0f} MB of an open run",
            f"{found['restart_large_s']:.3f}",
            "0.5",
        ],
    ]
    return "\n\n".join(
        (
            table(words, rows),
            table(["restart to the first commit, with", "s", "limit"], starts),
        )
    )


def reading(found: dict) -> str:
    rows = [
        [
            f"`{name}`" if "crema" in name else name,
            f"{one['wall_s']:.1f}",
            f"{one['peak_b'] * 1e-9:.2f} GB",
            ns(one["limit_s"]),
        ]
        for name, one in found["looks"].items()
    ]
    return table(["way to look", "s", "memory", "limit s"], rows)


PARTS = {"chain": chain, "idle": idle, "beside": beside, "growth": growth, "reading": reading}


def main() -> int:
    directory = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "bench"
    text = PAGE.read_text()
    for name, render in PARTS.items():
        path = directory / f"{name}.json"
        if not path.exists():
            print(f"{path} is not there: its table stays", file=sys.stderr)
            continue
        mark = re.compile(rf"(<!-- {name} -->\n).*?(<!-- / -->)", re.DOTALL)
        rendered = render(json.loads(path.read_text()))
        text, n = mark.subn(lambda m, body=rendered: f"{m[1]}\n{body}\n\n{m[2]}", text)
        if n != 1:
            raise SystemExit(f"{PAGE} has no place for {name}")
    PAGE.write_text(text)
    print(f"{PAGE.relative_to(ROOT)} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
