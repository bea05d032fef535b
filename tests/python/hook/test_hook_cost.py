"""What recording costs, in appends of a record: a ratio that a busy or slow machine changes little."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import paths

BENCH = paths.ROOT / "tests" / "bench" / "hook.py"

# Measured: 18.1, 6.0, 7.5, 2.4, 4.5; of these about 2 for each cut, which reads the thread's times from the kernel.
MOST = {
    "a chunk, begin and end": 20,
    "a section": 6.8,
    "a section that looks at memory": 8.4,
    "a metric": 3.1,
    "a task's end, 12 totals attributed": 6,
}


@pytest.fixture(scope="module")
def appends(tmp_path_factory):
    """Least cost of each thing that the benchmark measures."""
    told = subprocess.run(
        [sys.executable, BENCH, tmp_path_factory.mktemp("spool")],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    print(told)
    return {
        name: float(ratio)
        for name, ratio in re.findall(r"^(\S.*?) {2,}.* ([\d.]+) appends$", told, re.MULTILINE)
    }


@pytest.mark.timing
@pytest.mark.parametrize("what", MOST)
def test_recording_costs_a_few_appends(appends, what):
    assert appends["append a record"] == pytest.approx(1, rel=0.2)
    assert appends[what] < MOST[what]
