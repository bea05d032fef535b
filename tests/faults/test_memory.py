"""The programs under a steady load: they neither leak nor grow. Long tests: they are about minutes and hours."""

from __future__ import annotations

import os
import pathlib
import shutil
import time

import numpy as np
import pytest

import missing
from kept_records import must_have_kept_everything

STEADY_S = float(os.environ.get("CREMA_STEADY_S", "600"))
MIB = 2**20

pytestmark = [pytest.mark.long, pytest.mark.timeout(STEADY_S * 2 + 300)]


def rss_bytes(pid: int) -> int:
    pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_memory_stands_still_under_a_steady_load(pipelines):
    """The slope of a line through the second half; what a start allocates once is in the first."""
    pipeline = pipelines(spools=2)
    pipeline.start_writers(500)
    names = [pathlib.Path(program.command[0]).name for program in pipeline.programs()]
    samples, began = [], time.monotonic()
    while (at := time.monotonic() - began) < STEADY_S:
        samples.append([at, *(rss_bytes(p.process.pid) for p in pipeline.programs())])
        time.sleep(1)
    half = np.array(samples)[len(samples) // 2 :]
    slopes = [np.polyfit(half[:, 0], column, 1)[0] * 3600 / MIB for column in half[:, 1:].T]
    for name, slope, rss in zip(names, slopes, half[-1, 1:], strict=True):
        print(f"{name}: {rss / MIB:.1f} MiB, {slope:+.2f} MiB an hour")
    must_have_kept_everything(pipeline)
    assert max(slopes) < 1


@pytest.mark.skipif(not shutil.which("valgrind"), reason=missing.VALGRIND)
def test_valgrind_finds_nothing(pipelines, monkeypatch):
    from kept_records import Supervised

    start = Supervised.start

    def under_valgrind(self):
        if self.command[0] != "valgrind":
            watch = [
                "--quiet",
                "--error-exitcode=99",
                "--leak-check=full",
                "--errors-for-leak-kinds=definite",
            ]
            self.command = ["valgrind", *watch, *self.command]
        start(self)

    monkeypatch.setattr(Supervised, "start", under_valgrind)
    pipeline = pipelines(agent_options=("--heartbeat-interval", "2s"))
    pipeline.start_writers(200)
    time.sleep(min(STEADY_S, 60))
    must_have_kept_everything(pipeline, drain_s=120)
    pipeline.stop()
    assert [program.process.returncode for program in pipeline.programs()] == [0, 0, 0]
    log = "".join(path.read_text() for path in pipeline.log.iterdir())
    assert "==" not in log, log[-4000:]
