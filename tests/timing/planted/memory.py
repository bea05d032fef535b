"""Analyses whose memory is the trouble."""

from __future__ import annotations

import time

from planted_runs import Case, Planted

_kept = []


class Leaks(Planted):
    def plant(self, events):
        _kept.append(bytearray(b"x") * (2 << 20))
        time.sleep(0.05)


CASES = [
    Case("leak", Leaks, frozenset({"memory_growth"}), (),
         "2 MiB stay referenced after each chunk", threads=1, files=60, share=0),
]  # fmt: skip
