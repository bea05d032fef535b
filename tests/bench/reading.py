"""What it takes to look at a run file of 10^6 chunks and 3 x 10^6 tasks, beside h5py reading all of it.

    python tests/bench/reading.py [--chunks 1000000] [--directory DIR] [--json FILE]

A journal of so many chunks is sealed by the sink; each look at the file is a process of its own, whose peak of memory counts with
what it starts. `show` is allowed 5 s, `report` 60 s, both 2 GB, and `check` twice the time of h5py, which reads every byte of every dataset once.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from chain import ROOT

PROGRAMS = ROOT / "build" / "release" / "bin"
MEMORY_LIMIT_B = 2e9
ROUNDS = 3  # of which the fastest counts, except for the report
H5PY = """
import h5py, sys
def read(name, item):
    if isinstance(item, h5py.Dataset):
        item[()]
with h5py.File(sys.argv[1]) as f:
    f.visititems(read)
"""
FRAME = 'import crema, sys; assert len(crema.open(sys.argv[1])["chunks"])'
COMMAND = "from crema.read.command import main; main()"


def look(code: str, *arguments: object) -> tuple[float, float]:
    """Seconds and peak bytes of a piece of Python."""
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{arguments} failed")
    return time.monotonic() - began, 1024.0 * usage.ru_maxrss


def looks(path: pathlib.Path) -> dict[str, dict[str, float]]:
    """Time, memory and limits of each way to look at a run file; NaN: without a limit."""
    page = path.with_suffix(".html")
    ways = {
        "h5py reads every dataset": (ROUNDS, math.nan, H5PY, path),
        'crema.open(path)["chunks"]': (ROUNDS, math.nan, FRAME, path),
        "crema show": (ROUNDS, 5.0, COMMAND, "show", path),
        "crema check": (ROUNDS, math.nan, COMMAND, "check", path),
        "crema report": (1, 60.0, COMMAND, "report", path, "-o", page),
    }
    found = {}
    for name, (rounds, limit_s, code, *arguments) in ways.items():
        wall_s, peak_b = min(look(code, *arguments) for _ in range(rounds))
        found[name] = {"wall_s": wall_s, "peak_b": peak_b, "limit_s": limit_s}
    found["crema check"]["limit_s"] = 2 * found["h5py reads every dataset"]["wall_s"]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chunks", default=1_000_000, type=int)
    parser.add_argument("--directory", type=pathlib.Path, help="default: $TMPDIR")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="crema-reading-", dir=options.directory) as top:
        journal, path = pathlib.Path(top, "journal"), pathlib.Path(top, "run.h5")
        for command in (
            [PROGRAMS / "make_journal_main", "long", journal, str(options.chunks)],
            [PROGRAMS / "crema-sink", "rebuild", journal, "--output", path],
        ):
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        file_b = path.stat().st_size
        found = looks(path)
        page_b = path.with_suffix(".html").stat().st_size
    print(
        f"{options.chunks:,} chunks, a file of {file_b * 1e-6:,.0f} MB, a page of {page_b * 1e-6:.1f} MB, "
        f"load {os.getloadavg()[0]:.1f}"
    )
    for name, one in found.items():
        print(
            f"{name:28} {one['wall_s']:6.2f} s   limit {one['limit_s']:5.1f}   {one['peak_b'] * 1e-9:.2f} GB"
        )
    if options.json:
        options.json.write_text(
            json.dumps({"file_b": file_b, "page_b": page_b, "looks": found}, indent=2)
        )
    good = all(
        not one["wall_s"] > one["limit_s"] and one["peak_b"] <= MEMORY_LIMIT_B
        for one in found.values()
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
