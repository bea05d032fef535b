"""A plugin of pytest: a run that leaves a process has failed.

Every process that a test starts inherits a mark in its environment; at the end those that still have it are named, each with the test that
started it, and killed. The mark is no ``CREMA_`` variable, since a sink removes these from the environment of its children.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import signal
import time
import uuid

import pytest

MARK = "MADE_BY_TEST_RUN"
GRACE_S = 5.0  # for processes that are ending
# They end with the process that started them, which is this one.
_HELPERS = re.compile(
    rb"from (multiprocessing|loky\.backend)\.(resource_tracker|forkserver) import main"
)


class LeftProcesses:
    """Registered by the top conftest.py in the process that controls the run, not in those that xdist starts."""

    def __init__(self) -> None:
        self.left: list[str] = []
        os.environ[MARK] = self.mark = uuid.uuid4().hex

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """After xdist has ended its processes."""
        until = time.monotonic() + GRACE_S
        while (found := self._found()) and time.monotonic() < until:
            time.sleep(0.1)
        for pid, what in found.items():
            self.left.append(f"process {pid}: {what}")
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if found and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.left:
            terminalreporter.section("left by the tests", red=True, bold=True)
        for what in self.left:
            terminalreporter.write_line(f"left by the tests: {what}")

    def _found(self) -> dict[int, str]:
        """Command line, and test, of each process of this run."""
        found = {}
        for directory in pathlib.Path("/proc").glob("[0-9]*"):
            pid = int(directory.name)
            environment = []
            try:
                command = (directory / "cmdline").read_bytes()
                parent = int((directory / "stat").read_text().rpartition(")")[2].split()[1])
                with contextlib.suppress(PermissionError):  # it became another user's
                    environment = (directory / "environ").read_bytes().split(b"\0")
            except (OSError, IndexError):
                continue  # it has ended
            ours = f"{MARK}={self.mark}".encode() in environment or parent == os.getpid()
            helper = parent == os.getpid() and _HELPERS.search(command)
            if pid == os.getpid() or not ours or helper or not command:
                continue
            words = command.replace(b"\0", b" ").decode(errors="replace").strip()
            tests = [e[20:].decode() for e in environment if e.startswith(b"PYTEST_CURRENT_TEST=")]
            found[pid] = f"{words[:200]}{' of ' + tests[0] if tests else ''}"
        return found
