#!/usr/bin/env python3
"""Writes records into a spool whose disk is full for a while, and says what became of them and how long each took.

    full_spool.py SPOOL RUN_ID RECORDS FULL_FILE

Run under libfaulty.so, for which the disk is full as long as FULL_FILE exists: the middle third of the records. Prints one line of JSON.
"""

from __future__ import annotations

import json
import pathlib
import socket
import statistics
import sys
import time
import uuid

from crema.hook import _records
from crema.hook._spool import StreamWriter


def main() -> None:
    spool, run_id, records, full = sys.argv[1:]
    records, full_file = int(records), pathlib.Path(full)
    info = _records.stream_info(
        {},
        run_id=uuid.UUID(run_id).bytes,
        kind=1,
        host=socket.gethostname(),
        worker_uuid="full",
        worker_name="tcp://full",
        nthreads=1,
        t_real_ns=time.time_ns(),
        t_mono_ns=time.monotonic_ns(),
    )
    writer = StreamWriter(pathlib.Path(spool), info)
    took_ms, kept = [], 0
    for i in range(records):
        if i == records // 3:
            full_file.touch()
        elif i == 2 * records // 3:
            full_file.unlink()
        began = time.perf_counter()
        kept += writer.name(_records.ACTIVITY, f"name-{i}") != _records.UNKNOWN_ID
        took_ms.append(1e3 * (time.perf_counter() - began))
    writer.close()
    took_ms.sort()
    print(
        json.dumps(
            {
                "stream": writer.stream_id.hex(),
                "kept": kept,
                "dropped": writer.dropped,
                "seq": writer.seq,
                "median_ms": statistics.median(took_ms),
                "p99_ms": took_ms[len(took_ms) * 99 // 100],
                "max_ms": took_ms[-1],
            }
        )
    )


if __name__ == "__main__":
    main()
