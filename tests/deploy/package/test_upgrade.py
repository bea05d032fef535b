"""A host on which 0.1.0 ran gets the package: the steps of docs/operation/upgrades.md, with keys and under systemd."""

from __future__ import annotations

import json
import pathlib
import shutil
import tarfile
import uuid

import pytest
from hosts import ROOT, STORE, say, wait_for

ARCHIVE = (
    ROOT / "tests/golden/life-0.1.0.tar.xz"
)  # made by tests/golden/make_life.py with the programs of 0.1.0
CHECKER = ROOT / "build/dev/bin/torture_check_main"


class Left:
    """What 0.1.0 left behind: a store with a freed, a sealed, a damaged and an open run, and a spool that was not delivered."""

    def __init__(self, work: pathlib.Path):
        with tarfile.open(ARCHIVE) as tar:
            tar.extractall(work)
        runs = json.loads((work / "manifest.json").read_text())["runs"]
        self.runs = {name: str(uuid.UUID(run_id)) for name, run_id in runs.items()}
        self.work = work

    def books(self, store: pathlib.Path, name: str) -> dict[str, int]:
        """The journal of that run against what its writers say that they recorded."""
        words = say(CHECKER, store / self.runs[name], self.work / "ledger" / name).split()
        return dict(zip(words[::2], map(int, words[1::2]), strict=True))


@pytest.fixture
def left(tmp_path):
    return Left(tmp_path / "left")


def test_what_0_1_0_left_behind_is_taken_over(host, left, tmp_path):
    host.install("first")  # step 4; it makes new keys, since those of 0.1.0 are refused
    host.run("systemctl stop crema-aggregator crema-sink")
    say("docker", "cp", f"{left.work}/store/.", f"{host.name}:{STORE}")
    host.run(f"chown -R crema: {STORE}")
    # Neither the clients of these runs come back nor, for the damaged one, an agent.
    host.run("echo 'abandon-after = \"5s\"' >>/etc/crema/aggregator.conf")
    host.run("echo 'orphan-after = \"10s\"' >>/etc/crema/sink.conf")
    host.run("systemctl start crema-sink crema-aggregator")  # step 5
    for path in (left.work / "spool").iterdir():
        shutil.copy(path, host.spool)
    host.run("systemctl enable --now crema-agent@main")  # step 6
    expected = {"freed": None, "sealed": "COMPLETE", "open": "PARTIAL", "damaged": "PARTIAL"}
    wanted = {left.runs[name]: verdict for name, verdict in expected.items()}
    wait_for(lambda: host.verdicts() == wanted, "a file of each run", 40)

    say("docker", "cp", f"{host.name}:{STORE}", tmp_path / "store")
    for name in "sealed", "open":
        books = left.books(tmp_path / "store", name)
        assert (books["lost"], books["twice"], books["wrong"]) == (0, 0, 0), (name, books)
        assert books["records"] > 50
    assert not (tmp_path / "store" / left.runs["freed"]).exists()
    for name in "open", "damaged":
        run_file = f"/var/lib/crema/runs/{left.runs[name]}.h5"
        host.run(f"crema-sink check {run_file}")
    refused = host.run("journalctl --no-pager -u 'crema-*' | grep -c event=run_set_aside || true")
    assert refused == "0"
