"""Runs with one planted cause, by an author who has not read the rules: it comes first, and its words name line, section or peer."""

from __future__ import annotations

import pytest
from planted import (
    analyses,
    elsewhere,
    inputs,
    interpreter,
    limits,
    memory,
    services,
    waiting,
    working,
)

import crema
import planted_runs
from crema.hook import _kernel
from crema.read.html.sentences import findings

GROWTH = "memory_growth"  # costs no seconds until memory is full: it is said whatever comes first
ACCUSED = 0.05  # of the thread-seconds, from which on the innocent are accused

pytestmark = pytest.mark.skipif(bool(_kernel.why_not()), reason=_kernel.why_not())


MODULES = (
    *(memory, services, waiting, working),
    *(analyses, elsewhere, inputs, interpreter, limits),
)


def _marks(case):
    if not case.steady:
        yield pytest.mark.timing
    if case.long:
        yield pytest.mark.long
    if case.wrong:
        yield pytest.mark.xfail(strict=True, raises=AssertionError, reason=case.wrong)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=[*_marks(case)])
        for module in MODULES
        for case in module.CASES
    ],
)
def test_the_planted_cause_comes_first(case, tmp_path):
    path, measured = planted_runs.run(case, tmp_path)
    if measured["planted_s"] < case.share * measured["process_s"]:
        pytest.fail(f"not planted: {measured}")
    with crema.open(path) as run:
        said = findings(run, shown=4)
        for each in said:
            print(each.name, each.finding)
            assert "e+" not in each.finding, "an exponent"
    [first] = [each for each in said if each.name == GROWTH or GROWTH not in case.expected][:1]
    assert first.name in case.expected
    for words in case.words:
        assert any(word in first.finding for word in words.split("|"))
    accused = {each.name for each in said if each.fraction >= ACCUSED or each.name == GROWTH}
    assert not case.innocent & accused
