"""What sealing a long run costs: time, memory of its own, temporary disk.

    python tests/bench/seal.py [--rows 12000000] [--directory DIR] [--json]

It writes a journal of so many rows (twelve per chunk, 64 workers of two threads), seals it, and prints from the end of the journal to
the sealed file: wall time, CPU, the peak of anonymous and shared memory (RssAnon + RssShmem; pages of mapped files can be dropped and
do not count), and the peak of temporary files, beside the uncompressed bytes of the largest table. 10^8 rows need 30 GB of disk.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import h5py

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARIES = ROOT / "build" / "dev" / "bin"
ROWS_OF_A_CHUNK = 12
MEMORY_LIMIT_B = 512 << 20
FIELD = re.compile(r"^(RssAnon|RssShmem):\s+(\d+) kB", re.MULTILINE)


def own_memory(pid: int) -> int:
    """Bytes that a process holds and the kernel cannot drop."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return 1024 * sum(int(kilobytes) for _, kilobytes in FIELD.findall(text))


def temporary(pid: int) -> int:
    """Bytes of the unlinked files that a process has mapped."""
    total = 0
    for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
        if ".crema-rows-" in line:
            low, high = line.split(None, 1)[0].split("-")
            total += int(high, 16) - int(low, 16)
    return total


def seal(journal: pathlib.Path, output: pathlib.Path) -> dict[str, float]:
    """Seal a journal, and watch the process."""
    began = time.monotonic()
    command = [BINARIES / "crema-sink", "rebuild", journal, "--output", output]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    memory_b = disk_b = 0
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        try:
            memory_b = max(memory_b, own_memory(process.pid))
            disk_b = max(disk_b, temporary(process.pid))
        except (FileNotFoundError, ProcessLookupError):
            pass
        time.sleep(0.01)
    wall_s = time.monotonic() - began
    if status:
        raise SystemExit("crema-sink rebuild failed")
    return {
        "wall_s": wall_s,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "own_memory_b": memory_b,
        "temporary_b": disk_b,
    }


def tables(path: pathlib.Path) -> dict[str, int]:
    """Uncompressed bytes of the tables of a run file."""
    sizes: dict[str, int] = {}

    def visit(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset) and item.dtype.names:
            sizes[name] = item.size * item.dtype.itemsize

    with h5py.File(path) as file:
        file.visititems(visit)
    return sizes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default=12_000_000, type=int)
    parser.add_argument("--directory", type=pathlib.Path, help="default: $TMPDIR")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    work = pathlib.Path(tempfile.mkdtemp(prefix="crema-seal-", dir=options.directory))
    try:
        journal, output = work / "journal", work / "run.h5"
        chunks = str(options.rows // ROWS_OF_A_CHUNK)
        subprocess.run(
            [BINARIES / "make_journal_main", "long", journal, chunks],
            check=True,
        )
        figures: dict[str, float] = {"rows": options.rows}
        figures["journal_b"] = sum(part.stat().st_size for part in journal.iterdir())
        figures |= seal(journal, output)
        sizes = tables(output)
        figures |= {
            "file_b": output.stat().st_size,
            "tables_b": sum(sizes.values()),
            "largest_table_b": max(sizes.values()),
        }
    finally:
        shutil.rmtree(work)
    if options.json:
        print(json.dumps(figures))
    else:
        print(
            f"{options.rows:,} rows: sealed in {figures['wall_s']:.1f} s ({figures['cpu_s']:.1f} s of CPU, load "
            f"{os.getloadavg()[0]:.1f}), own memory {figures['own_memory_b'] / 2**20:.0f} MiB "
            f"(limit {MEMORY_LIMIT_B >> 20}), temporary files {figures['temporary_b'] * 1e-6:,.0f} MB, tables "
            f"{figures['tables_b'] * 1e-6:,.0f} MB, the largest {figures['largest_table_b'] * 1e-6:,.0f} MB"
        )
    return 0 if figures["own_memory_b"] <= MEMORY_LIMIT_B else 1


if __name__ == "__main__":
    sys.exit(main())
