"""What may be tried again, and what the end of a run of tests says."""

from __future__ import annotations

import subprocess
import sys

import pytest

from paths import ROOT

TESTS = """
import pathlib
import pytest
import missing
from losses import nothing_lost_or_twice

def fail_once(name, error=AssertionError):
    mark = pathlib.Path(name)
    if not mark.exists():
        mark.touch()
        raise error("the first time")

@pytest.mark.timing
def test_slow_clock():
    print("CREMA_SEED=17")
    fail_once("slow")

@pytest.mark.timing
def test_always_late():
    raise AssertionError("late")

@pytest.mark.timing
def test_record_was_lost():
    with nothing_lost_or_twice():
        fail_once("lost")

def test_race():
    fail_once("race")

@pytest.mark.parametrize("n", [1, 2])
def test_partition(n):
    pytest.skip(f"{missing.NETWORK_FAULTS}: no ip here, {n}")
"""


@pytest.mark.parametrize("options", [[], ["-n", "2"]], ids=["in one process", "in several"])
def test_timing_tests_alone_are_tried_again_and_the_end_names_them(tmp_path, options):
    (tmp_path / "conftest.py").write_text("from outcomes import *\n")
    (tmp_path / "test_some.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-c", ROOT / ".pytest.ini", "--rootdir", tmp_path]
    ran = subprocess.run(
        [*command, "-o", f"pythonpath={ROOT / 'tests' / 'lib'}", "-m", "", *options, "test_some.py"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 1, ran.stdout + ran.stderr
    said = ran.stdout.splitlines()
    flaky = [line for line in said if line.startswith("flaky")]
    assert flaky == ["flaky (passed when tried again): test_some.py::test_slow_clock"]
    assert "first try of test_some.py::test_slow_clock" in ran.stdout
    assert "CREMA_SEED=17" in said  # of the try that failed
    failed = {line.split()[1].split("::")[1] for line in said if line.startswith("FAILED")}
    assert failed == {"test_always_late", "test_record_was_lost", "test_race"}
    assert "not tested here: network faults (no CAP_NET_ADMIN): 2" in said
    assert "3 failed, 1 passed, 2 skipped" in said[-1]
