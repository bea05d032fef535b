"""The line about the end of a run: what it says, and how often where there is no terminal."""

from __future__ import annotations

import types

import pytest

from crema.collect import _client, _progress


def state(phase, **more):
    fields = {"refusal": 0, "error": "", "missing": 0, "waiting_for": [], "trouble": ""}
    return types.SimpleNamespace(phase=phase, committed=4290, **fields | more)


@pytest.fixture
def at(monkeypatch):
    """Shows a state at a moment of the monotonic clock."""
    clock = [100.0]
    monkeypatch.setattr(_progress.time, "monotonic", lambda: clock[0])
    progress = _progress.Progress()

    def show(now_s, what):
        clock[0] = 100.0 + now_s
        progress.show(what)

    return show


def test_a_file_that_takes_long_is_said_after_two_seconds(at, capsys):
    at(0.5, state(_client.BARRIER))
    at(1.0, state(_client.VERDICT))
    at(2.5, state(_client.VERDICT))
    assert not capsys.readouterr().err
    at(3.1, state(_client.VERDICT))
    line = "crema: writing the run file for 2 s, 4,290 records committed\n"
    assert capsys.readouterr().err == line
    at(7.9, state(_client.VERDICT))
    assert not capsys.readouterr().err
    at(8.2, state(_client.VERDICT))
    assert "for 7 s" in capsys.readouterr().err


def test_reason_of_a_wait_is_said_every_five_seconds(at, capsys):
    for now_s in range(12):
        at(now_s, state(_client.BARRIER, missing=3, waiting_for=["a\n", "b", "c", "d"]))
    said = capsys.readouterr().err.splitlines()
    text = r"crema: collecting the last records, 4,290 records committed, 3 missing, waiting for a\n, b, c and 1 more"
    assert said == [text, text]
