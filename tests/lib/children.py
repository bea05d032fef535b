"""Processes that end with their test, whatever it asserted before, and with the process that runs the tests."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import traceback
from collections.abc import Callable

PR_SET_PDEATHSIG = 1
_started: list[Child | Fork] = []


class Child(subprocess.Popen):
    """A program in a process group of its own, which is killed with it."""

    def __init__(self, command, **options):
        if not options.get("start_new_session"):
            options["process_group"] = 0
        with_this_process = ["setpriv", "--pdeathsig", "KILL", "--"]
        super().__init__([*with_this_process, *map(str, command)], **options)
        _started.append(self)

    def __exit__(self, kind, error, traceback):
        if kind is not None:
            self.end()
        super().__exit__(kind, error, traceback)

    def end(self) -> None:
        """Kill the group, stopped or not."""
        with contextlib.suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)
        self.wait()
        for pipe in (self.stdin, self.stdout, self.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


class Fork:
    """A fork of this process that does `work` and ends, with status 1 if that raised."""

    def __init__(self, work: Callable[[], object]):
        self.pid, self.status = os.fork(), None
        if self.pid == 0:
            status = 1
            try:
                ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
                work()
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        _started.append(self)

    def wait(self) -> int:
        if self.status is None:
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status

    def end(self) -> None:
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait()


@contextlib.contextmanager
def none_outlive_this():
    """All that are started in the block are gone after it."""
    before = len(_started)
    try:
        yield
    finally:
        while len(_started) > before:
            _started.pop().end()
