"""Totals and their split, by the rules alone."""

from __future__ import annotations

import random
import threading

import pytest

from crema.hook import _digests, _records
from crema.hook._digests import ActivityTotals, parse_key


class Names:
    """Stands in for a stream: numbers names; refuses the first `refused` times."""

    def __init__(self, refused: int = 0) -> None:
        self.known: dict[tuple, int] = {}
        self.refused = refused

    def name(self, kind, text, uuid="", parent=0):
        if self.refused:
            self.refused -= 1
            return _records.UNKNOWN_ID
        numbers = self.known.setdefault(kind, {})
        return numbers.setdefault((text, uuid), len(numbers))


def read(row) -> dict:
    table = _records.ACTIVITIES
    return dict(zip(table.ints, row[0], strict=True)) | dict(zip(table.reals, row[1], strict=True))


@pytest.mark.parametrize(
    ("key", "parsed"),
    [
        (
            ("execute", "s", "p", "thread-cpu", "seconds"),
            ("execute", "s", "p", "thread-cpu", "seconds"),
        ),
        (("execute", None, "p", None, "seconds"), ("execute", None, "p", "None", "seconds")),
        (("execute", "s", "p", ("a", 1), "x"), ("execute", "s", "p", "('a', 1)", "x")),
        (("gather-dep", "network", "seconds"), ("gather-dep", None, None, "network", "seconds")),
        (("get-data", "a", "b", "bytes"), ("get-data", None, None, "a.b", "bytes")),
        (("memory-monitor", "gc", "count"), ("memory-monitor", None, None, "gc", "count")),
        (
            ("p2p", "s", "foreground", "cpu", "seconds"),
            ("p2p", "s", None, "foreground.cpu", "seconds"),
        ),
        ("latency", ("other", None, None, "latency", "seconds")),
        ("transfer-bandwidth", ("other", None, None, "transfer-bandwidth", "bytes/s")),
        (("execute", "old", "shape"), ("other", None, None, "('execute', 'old', 'shape')", "")),
        (17, ("other", None, None, "17", "")),
    ],
)
def test_every_key_has_a_place(key, parsed):
    assert parse_key(key) == parsed


def test_a_label_whose_repr_fails_has_a_name():
    class Bad:
        def __repr__(self):
            raise ValueError

    assert _digests.label(Bad()) == "<Bad>"


def test_random_histories_keep_both_sums():
    """Whatever runs when: chunks get what their ends brought, the parts add up to the total and never step back."""
    for seed in range(200):
        dice = random.Random(seed)
        totals: dict = {}
        follow = ActivityTotals(totals, Names(), 0)
        if dice.random() < 0.5:
            totals["execute", "s", "p", "thread-cpu", "seconds"] = dice.random()
        base = dict(totals)
        follow.baseline()
        chunks: dict = {}
        foreign: dict = {}
        last: dict = {}
        for _ in range(60):
            if dice.random() < 0.3:
                for row in map(read, follow.changes()):
                    at = row["activity_id"], row["task_prefix_id"], row["side"]
                    assert row["total"] >= last.get(at, 0.0), seed
                    last[at] = row["total"]
                continue
            prefix = dice.choice("pq")
            whose = dice.choice([_digests.REST, _digests.CHUNK, _digests.FOREIGN])
            follow.task_ends(prefix, whose)
            for activity in dice.sample(["thread-cpu", "other", "executor"], dice.randint(1, 3)):
                key = ("execute", "s", prefix, activity, "seconds")
                value = dice.random() * 10 ** dice.randint(-9, 3)
                totals[key] = totals.get(key, 0.0) + value
                if whose == _digests.CHUNK:
                    chunks[key] = chunks.get(key, 0.0) + value
                if whose == _digests.FOREIGN:
                    foreign[key] = foreign.get(key, 0.0) + value
        follow.changes()
        for entry in follow._known:
            assert entry.chunks == pytest.approx(chunks.get(entry.key, 0.0), rel=1e-9, abs=1e-9)
            theirs = entry.parts[_digests.FOREIGN]
            assert theirs == pytest.approx(foreign.get(entry.key, 0.0), rel=1e-9, abs=1e-9)
            assert entry.chunks + entry.rest + theirs == pytest.approx(totals[entry.key], rel=1e-14)
            assert entry.rest >= base.get(entry.key, 0.0)


def test_a_baseline_is_marked_and_told_once():
    totals = {("execute", "s", "p", "a", "seconds"): 5.0}
    follow = ActivityTotals(totals, Names(), 3)
    (row,) = map(read, follow.baseline())
    assert (row["baseline"], row["total"], row["worker_id"]) == (1, 5.0, 3)
    assert follow.changes() == []


def test_a_key_that_is_zero_is_told_once():
    follow = ActivityTotals({"latency": 0.0}, Names(), 0)
    assert [read(row)["total"] for row in follow.changes()] == [0.0]
    assert follow.changes() == []


def test_values_that_are_no_numbers_are_left_out():
    totals = {"a": float("nan"), "b": "text", "c": 1.0}
    follow = ActivityTotals(totals, Names(), 0)
    assert sorted(read(row)["total"] for row in follow.changes()) == [0.0, 0.0, 1.0]
    assert follow.changes() == []


def test_a_name_that_could_not_be_written_is_tried_again():
    totals = {("execute", "s", "p", "a", "seconds"): 1.0}
    follow = ActivityTotals(totals, Names(refused=2), 0)
    (row,) = map(read, follow.changes())
    assert _records.UNKNOWN_ID in (row["span_id"], row["task_prefix_id"])
    totals["execute", "s", "p", "a", "seconds"] = 2.0
    (row,) = map(read, follow.changes())
    assert _records.UNKNOWN_ID not in (row["span_id"], row["task_prefix_id"], row["unit_id"])


def test_other_threads_may_add_keys_meanwhile():
    totals: dict = {}
    follow = ActivityTotals(totals, Names(), 0)
    stop = threading.Event()

    def add():
        n = 0
        while not stop.is_set() and n < 20_000:
            totals["p2p", "s", f"w{n}", "cpu", "seconds"] = 1.0
            n += 1

    thread = threading.Thread(target=add)
    thread.start()
    seen = 0
    for _ in range(50):
        seen += len(follow.changes())
    stop.set()
    thread.join()
    seen += len(follow.changes())
    assert seen == len(totals)


def test_busy_seconds_are_told_when_they_move():
    follow = ActivityTotals({}, Names(), 0)
    elapsed = {("p", "executing"): 1.0, ("p", "memory"): 9.0}
    assert [read(row)["total"] for row in follow.busy(elapsed, {})] == [1.0]
    assert follow.busy(elapsed, {}) == []
    elapsed["p", "executing"] = 1.5
    (row,) = map(read, follow.busy(elapsed, {}))
    assert row["total"] == 1.5
    assert row["context"] == _records.ACTIVITIES.label("context", "busy")


def test_busy_seconds_of_other_runs_are_left_out():
    follow = ActivityTotals({}, Names(), 0)
    elapsed = {("p", "executing"): 1.0, ("q", "executing"): 1.0}
    (row,) = map(read, follow.busy(elapsed, {"p": 0.25, "q": 1.1}))
    assert row["total"] == 0.75  # of q nothing is ours
    elapsed["p", "executing"] = 2.0
    assert follow.busy(elapsed, {"p": 1.3, "q": 1.1}) == []  # and nothing ever steps back
