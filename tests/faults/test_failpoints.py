"""kill -9 at every named moment of the programs: before and after each write, sync, send, rename and removal."""

from __future__ import annotations

import concurrent.futures
import os
import pathlib
import random
import subprocess
import time
import traceback

import pytest

from crema.hook import _programs
from kept_records import PROGRAMS, failpoints, run_lives

POINTS_OF_ONE = 8  # that one pipeline passes, one after the other
AT_ONCE = 6  # pipelines; they wait more than they work


def by_program(names: list[str]) -> dict[str, list[str]]:
    """In their order: spool, agent, aggregator, sink, seal, live."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(name.split(".")[0], []).append(name)
    return found


def slices(points: list) -> list[list]:
    """Points of one program stay together, those of freeing and others in their order."""
    cut = []
    for names in by_program([name for name, _ in points]).values():
        mine = [point for point in points if point[0] in names]
        cut += [mine[i : i + POINTS_OF_ONE] for i in range(0, len(mine), POINTS_OF_ONE)]
    return cut


def must_survive(points: list, work: pathlib.Path):
    began, failures, runs = time.monotonic(), [], 0
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        lives = {
            pool.submit(run_lives.die_at, PROGRAMS, work / str(i), part): part
            for i, part in enumerate(slices(points))
        }
        for future in concurrent.futures.as_completed(lives):
            try:
                runs += future.result()
            except Exception as failure:
                failures.append(f"{lives[future]}: {''.join(traceback.format_exception(failure))}")
    print(f"{len(points)} kills at failpoints, {runs} runs, {time.monotonic() - began:.1f} s")
    assert not failures, "\n".join(failures)


def test_a_kill_at_a_failpoint_of_each_program_costs_nothing(tmp_path, seed):
    """Which ones is drawn; all of them are for the test below."""
    draw = random.Random(seed)
    of_each = [draw.choice(names) for names in by_program(failpoints(PROGRAMS)).values()]
    must_survive([(name, 1) for name in of_each], tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_kill_at_each_failpoint_costs_nothing(tmp_path):
    must_survive([(name, 1) for name in failpoints(PROGRAMS)], tmp_path)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_kill_at_each_failpoint_and_each_occurrence_costs_nothing(tmp_path):
    for occurrence in range(1, 6):
        (tmp_path / str(occurrence)).mkdir()
        names = [
            name
            for name in failpoints(PROGRAMS)
            if occurrence == 1 or not run_lives.matches(name, run_lives.FIRST_START)
        ]
        must_survive([(name, occurrence) for name in names], tmp_path / str(occurrence))


def test_a_misspelt_failpoint_is_no_failpoint(tmp_path):
    program = subprocess.run(
        [PROGRAMS / "torture_writer_main", tmp_path, tmp_path, "0" * 31 + "1", "1"],
        capture_output=True,
        env={**os.environ, "FAILPOINT": "spool.befor_unlink:1"},
    )
    assert program.returncode < 0
    assert b"names no point" in program.stderr


@pytest.mark.parametrize("waits", ["aggregator.barier_cap:1000", "aggregator.barrier_cap:1s"])
def test_short_waits_that_are_misspelt_end_the_program(waits):
    program = subprocess.run(
        [PROGRAMS / "crema-aggregator", "--bind", "tcp://127.0.0.1:*"],
        capture_output=True,
        env={**os.environ, "SHORT_WAITS": waits},
        timeout=20,
    )
    assert program.returncode < 0
    assert b"names no wait" in program.stderr


@pytest.mark.parametrize("program", ["crema-agent", "crema-aggregator", "crema-sink"])
def test_programs_of_the_package_have_none(program):
    for text in (b"event=failpoint", b"SHORT_WAITS"):
        assert text in (PROGRAMS / program).read_bytes()
        assert text not in pathlib.Path(_programs.program(program)).read_bytes()
