"""A run file of a million chunks and three million tasks, and how long it takes to look at.

    python tests/bench/large.py SOURCE.h5 [DIRECTORY] [--chunks 1000000]

SOURCE is any sealed run file: its attributes, metrics and diagnosis are kept, and its rows are replaced by those of 500 workers of
two threads. `crema show` has 5 s, `crema report` 60 s, both 2 GB; the page 15 MB for a million tasks, 5 MB for 100,000.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import resource
import shutil
import sys

import h5py
import numpy as np
from reading import COMMAND, MEMORY_LIMIT_B, look

WORKERS, THREADS, DATASETS, FILES = 500, 2, 8, 10_000
TASKS_OF_A_CHUNK = 3
LIMITS = {"show": 5.0, "report": 60.0}


def make(source: pathlib.Path, path: pathlib.Path, n: int) -> None:
    """Write a run file of `n` chunks and three times as many tasks."""
    shutil.copy(source, path)
    rng = np.random.default_rng(1)
    slots = WORKERS * THREADS
    rounds = -(-n // slots)
    with h5py.File(path, "a") as f:
        t0 = int(f.attrs["t_run_start_ns"])
        chunk = np.arange(n)
        slot, dataset = chunk % slots, chunk % DATASETS
        n_events = rng.integers(20_000, 100_000, n)
        wall = (0.1 + n_events * (1e-5 + 2e-6 * dataset)) * rng.lognormal(0, 0.1, n)
        wall[rng.random(n) < 0.001] *= 6
        each = np.full((rounds, slots), np.nan)
        each.flat[:n] = wall + 0.03
        end_s = np.nancumsum(each, axis=0).ravel()[:n]
        stop = t0 + (1e9 * end_s).astype(np.int64)
        begin = stop - (1e9 * wall).astype(np.int64)
        f.attrs["t_run_end_ns"] = int(stop.max()) + 10**9
        span_ns = int(f.attrs["t_run_end_ns"]) - t0

        chunks = _rows(f, "chunks", n)
        chunks["t_start_ns"], chunks["t_end_ns"] = begin, stop
        chunks["wall_s"], chunks["open_s"], chunks["cpu_s"] = wall, 0.02, 0.7 * wall
        chunks["n_events"], chunks["entry_stop"], chunks["entry_start"] = n_events, n_events, 0
        chunks["worker_id"], chunks["thread"] = slot // THREADS, slot % THREADS
        chunks["dataset_id"], chunks["file_id"] = dataset, chunk % FILES
        chunks["chunk_id"] = chunks["task_key"] = chunk + 1
        chunks["task_prefix_id"], chunks["status"], chunks["quality"] = 0, 0, 0
        chunks["bytes_accessed_b"], chunks["bytes_uncompressed_b"] = 100 * n_events, 250 * n_events
        _put(f, "chunks", np.sort(chunks, order="t_start_ns"))

        tasks = _rows(f, "task_events", TASKS_OF_A_CHUNK * n)
        which = np.tile(chunk, TASKS_OF_A_CHUNK)
        part = np.repeat(np.arange(TASKS_OF_A_CHUNK), n)
        before = np.where(part == 0, 20_000_000, 25_000_000 - 4_000_000 * part)
        tasks["t_start_ns"] = begin[which] - before
        tasks["t_stop_ns"] = np.where(part == 0, stop[which], tasks["t_start_ns"] + 3_000_000)
        tasks["task_key"] = np.where(part == 0, which + 1, n * (part + 1) + which)
        tasks["worker_id"], tasks["thread"] = slot[which] // THREADS, slot[which] % THREADS
        tasks["task_prefix_id"], tasks["action"], tasks["status"] = 0, 0, 0
        tasks["side"] = np.where(part == 0, 1, 4)
        _put(f, "task_events", np.sort(tasks, order="t_start_ns"))

        for name, count in (("worker", WORKERS), ("dataset", DATASETS), ("file", FILES)):
            rows = _rows(f, f"dict/{name}", count)
            rows["id"] = np.arange(count)
            rows["name"] = [f"{name}-{i:05d}".encode() for i in range(count)]
            _put(f, f"dict/{name}", rows)
        per_worker = _rows(f, "summary/per_worker", WORKERS)
        per_worker["worker_id"] = np.arange(WORKERS)
        per_worker["worker"] = [f"worker-{i:05d}".encode() for i in range(WORKERS)]
        _put(f, "summary/per_worker", per_worker)
        slow = _rows(f, "summary/stragglers", n // 1000)
        slow["chunk_row"] = np.sort(rng.choice(n, n // 1000, replace=False))
        _put(f, "summary/stragglers", slow)
        samples = _rows(f, "worker_samples", WORKERS * 400)
        samples["t_ns"] = t0 + np.repeat(np.arange(400), WORKERS) * (span_ns // 400)
        samples["worker_id"] = np.tile(np.arange(WORKERS), 400)
        samples["rss_b"], samples["processing"] = 10**9, 4
        _put(f, "worker_samples", samples)
        steps = len(f["grid/time"])
        f["grid/time"][:] = t0 + np.arange(steps) * (span_ns // steps)
        for name, item in list(f["grid"].items()):
            if item.ndim == 2:
                grid = rng.uniform(0, 90, (WORKERS, steps))
                del f["grid"][name]
                f["grid"][name] = grid
    print(
        f"{path}: {n:,} chunks, {TASKS_OF_A_CHUNK * n:,} tasks, {path.stat().st_size * 1e-6:,.0f} MB"
    )


def _rows(f: h5py.File, name: str, n: int) -> np.ndarray:
    """Rows like the table's first, or of unknown values."""
    table = f[name]
    return np.repeat(table[:1], n) if len(table) else np.zeros(n, table.dtype)


def _put(f: h5py.File, name: str, rows: np.ndarray) -> None:
    attributes = dict(f[name].attrs)
    del f[name]
    filters = (
        {"chunks": (2048,), "shuffle": True, "compression": "gzip", "compression_opts": 4}
        if len(rows) > 4096
        else {}
    )
    f.create_dataset(name, data=rows, **filters).attrs.update(attributes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("directory", nargs="?", default=".", type=pathlib.Path)
    parser.add_argument("--chunks", default=1_000_000, type=int)
    options = parser.parse_args()
    path = options.directory / f"large-{options.chunks}.h5"
    if not path.exists():
        make(options.source, path, options.chunks)
    page = path.with_suffix(".html")
    good = True
    for name, arguments in {"show": (path,), "report": (path, "-o", page)}.items():
        wall_s, peak_b = look(COMMAND, name, *arguments)
        good &= wall_s <= LIMITS[name] and peak_b <= MEMORY_LIMIT_B
        print(f"crema {name}: {wall_s:.1f} s, {peak_b * 1e-9:.2f} GB", flush=True)
    print(f"{page}: {page.stat().st_size * 1e-6:.2f} MB; load {os.getloadavg()[0]:.1f}")
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"CPU of both: {own.ru_utime + own.ru_stime:.1f} s")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
