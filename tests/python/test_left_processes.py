"""A run of tests that leaves a process fails and names it, whatever the process is and however the tests are run."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from kept_records import wait_for
from paths import ROOT

CONFTEST = """
from left_processes import LeftProcesses

def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(LeftProcesses())
"""
CLEAN = """
import subprocess
from multiprocessing import resource_tracker

def test_ended():
    subprocess.run(["true"], check=True)

def test_ending():
    subprocess.Popen(["sleep", "0.5"])

def test_ends_with_pytest():
    resource_tracker.ensure_running()
"""
LEAVING = """
import os, subprocess, time

def test_child():
    subprocess.Popen(["sleep", "987"])

def test_daemon():
    subprocess.run("setsid sleep 986 >/dev/null 2>&1 &", shell=True)

def test_fork():
    if os.fork() == 0:
        time.sleep(985)
        os._exit(0)
"""


def below(directory: pathlib.Path) -> list[str]:
    """Command lines of the processes that work in a directory."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink() == directory:
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def run(tmp_path: pathlib.Path, tests: str, options: list[str]) -> tuple[int, list[str]]:
    """Exit status, and lines that were printed."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_some.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-c", ROOT / ".pytest.ini", "--rootdir", tmp_path]
    command += ["-o", f"pythonpath={ROOT / 'tests' / 'lib'}", *options, "test_some.py"]
    with (tmp_path / "said").open("w+") as said:
        ran = subprocess.run(command, cwd=tmp_path, stdout=said, stderr=said, timeout=100)
        said.seek(0)
        lines = said.read().splitlines()
    wait_for(lambda: not below(tmp_path), 30, "the end of all processes")
    return ran.returncode, lines


each = pytest.mark.parametrize(
    "options",
    [[], pytest.param(["-n", "1"], marks=pytest.mark.slow)],
    ids=["in one process", "with xdist"],
)


@each
def test_run_without_left_processes_passes(tmp_path, options):
    status, lines = run(tmp_path, CLEAN, options)
    assert status == 0, lines
    assert "3 passed" in lines[-1] and not [line for line in lines if "left by" in line]


@each
def test_left_processes_fail_the_run_and_are_named(tmp_path, options):
    status, lines = run(tmp_path, LEAVING, options)
    left = [line for line in lines if line.startswith("left by the tests: process ")]
    assert status == 1 and len(left) == 3, lines
    assert [line for line in left if "sleep 987 of test_some.py::test_child (call)" in line]
    assert [line for line in left if "sleep 986 of test_some.py::test_daemon (call)" in line]
    assert "3 passed" in lines[-1]
