"""Kill -9 at random; `./dev torture` does it for as long as one likes."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from paths import BIN as PROGRAMS
from paths import ROOT


@pytest.mark.timeout(240)
@pytest.mark.parametrize("seconds", [10, pytest.param(60, marks=pytest.mark.slow)])
def test_torture_loses_nothing_and_counts_nothing_twice(seconds, seed):
    script = ROOT / "tests" / "torture" / "torture.py"
    torture = subprocess.run(
        [
            sys.executable,
            script,
            "--bin",
            PROGRAMS,
            "--seconds",
            str(seconds),
            "--kill-writers",
            "--seed",
            str(seed),
        ],
        capture_output=True,
        text=True,
    )
    assert torture.returncode == 0, torture.stderr[-2000:] + torture.stdout
    last = torture.stdout.splitlines()[-1]
    kills, records, lost, twice, drained_s = map(float, re.findall(r"[0-9.]+", last))
    assert kills > seconds * 5 / 3
    assert records > seconds * 160
    assert (lost, twice) == (0, 0)
    assert drained_s < 30
