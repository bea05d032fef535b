"""Analyses that the interpreter holds up: garbage collection, its global lock, a lock of their own."""

from __future__ import annotations

import functools
import gc
import hashlib
import json
import re
import threading
import time

from planted_runs import Case, Planted, marked_line

_TEXT = [f"HLT_Jet{n}_eta{n % 5}p{n % 7}_v{n % 11} prescale={n % 13}" for n in range(20_000)]
_PATH = re.compile(r"HLT_(?P<object>[A-Za-z]+)(\d+)_eta(\d)p(\d)_v(\d+)\s+prescale=(\d+)")
_RECORDS = [json.dumps({"run": n, "lumi": [[1, n], [n, n + 9]], "ok": True}) for n in range(10_000)]


class MakesCycles(Planted):
    """Python's own account of its collector is what is planted."""

    def plant(self, events):
        collecting = 0.0

        def account(phase, info):
            nonlocal collecting
            collecting += time.perf_counter() * (1 if phase == "stop" else -1)

        gc.callbacks.append(account)
        try:
            for _ in range(3):
                kept = []
                for _ in range(500_000):
                    jet = [None]  # planted: garbage
                    jet[0] = jet
                    kept.append(jet)
        finally:
            gc.callbacks.remove(account)
        return collecting


class MatchesText(Planted):
    def plant(self, events):
        for _ in range(60):
            sum(len(_PATH.match(line).groups()) for line in _TEXT)  # planted: regex


class ParsesRecords(Planted):
    def plant(self, events):
        for _ in range(30):
            sum(len(json.loads(record)["lumi"]) for record in _RECORDS)  # planted: json


@functools.cache
def _conditions() -> threading.Lock:
    return threading.Lock()


class WaitsForAHolder(Planted):
    """The first of four chunks computes with the lock, the others need it for a moment; only theirs is planted."""

    def plant(self, events):
        began = time.monotonic()
        if int(events.run[0]) % 4 == 0:
            with _conditions():
                while time.monotonic() < began + 0.9:
                    hashlib.pbkdf2_hmac("sha256", b"crema", b"salt", 20_000)
            return 0.0
        time.sleep(0.03)  # the holder comes first
        with _conditions():  # planted: held
            pass
        return time.monotonic() - began


def _line(mark: str) -> tuple:
    return (marked_line(__file__, mark),)


CASES = [
    Case("garbage", MakesCycles, frozenset({"garbage_collection"}), _line("garbage"),
         "1.5 million lists that contain themselves in each chunk", threads=1, files=4, share=0.5),
    Case("regex", MatchesText, frozenset({"gil"}), _line("regex"),
         "four threads match 1.2 million short texts each for a chunk, all with the GIL",
         threads=4, files=20, long=True),
    Case("json", ParsesRecords, frozenset({"gil"}), _line("json"),
         "four threads parse 300,000 short records each for a chunk, all with the GIL",
         threads=4, files=20, long=True),
    Case("held-lock", WaitsForAHolder, frozenset({"lock"}), _line("held"),
         "one of four threads computes for 0.9 s with a lock, three wait for it",
         threads=4, files=32, share=0.6, long=True),
]  # fmt: skip
