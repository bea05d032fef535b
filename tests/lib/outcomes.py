"""Hooks of pytest: which test may be tried again, and what the end of a run says of those that were, and of the skipped ones."""

from __future__ import annotations

import collections

import pytest
from _pytest.runner import runtestprotocol

import missing


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    """A test marked `timing` that fails is tried once more, unless records were lost or came twice (losses.py); one that passes then is flaky."""
    if item.get_closest_marker("timing") is None:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    failed = [report for report in reports if report.failed]
    first_try = "\n".join(f"{report.longreprtext}\n{report.capstdout}" for report in failed)
    if first_try and "LossError" not in first_try:
        item._initrequest()
        again = runtestprotocol(item, nextitem=nextitem, log=False)
        if not any(report.failed for report in again):
            reports = again
            reports[-1].user_properties.append(("flaky", first_try))
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_terminal_summary(terminalreporter):
    """Flaky tests by name, each with its first failure, and the skipped tests by what was missing."""
    flaky = [
        (report.nodeid, text)
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, text in getattr(report, "user_properties", ())
        if name == "flaky"
    ]
    for test, text in flaky:
        terminalreporter.section(f"first try of {test}")
        terminalreporter.write_line(text)
    for test, _ in flaky:
        terminalreporter.write_line(f"flaky (passed when tried again): {test}")
    skipped = collections.Counter(
        missing.of(report.longrepr[2].removeprefix("Skipped: "))
        for report in terminalreporter.stats.get("skipped", ())
    )
    if skipped:
        listed = "; ".join(f"{words}: {n}" for words, n in sorted(skipped.items()))
        terminalreporter.write_line(f"not tested here: {listed}")
