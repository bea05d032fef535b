"""What programs of this and of earlier versions left behind is read by today's: stores, journals, tombstones, spools, keys.

The archives were made by tests/golden/make_life.py, each with the programs of its version.
"""

from __future__ import annotations

import concurrent.futures
import json
import pathlib
import subprocess
import tarfile
import time

import pytest

from kept_records import PROGRAMS, Pipeline, wait_for
from paths import ROOT
from service_kit import Collector, run_file

ARCHIVES = sorted((ROOT / "tests" / "golden").glob("life-*.tar.xz"))

pytestmark = pytest.mark.timeout(180)


class Life(Pipeline):
    """Today's programs on what an archive holds."""

    def __init__(self, archive: pathlib.Path, work: pathlib.Path):
        with tarfile.open(archive) as tar:
            tar.extractall(work)
        self.left, self.kept_keys = work / "spool", work / "keys"
        self.runs = json.loads((work / "manifest.json").read_text())["runs"]
        (work / "live").mkdir()
        super().__init__(
            PROGRAMS, work / "live", spools=0, store=work / "store", keyed=True,
            agent_options=("--heartbeat-interval", "200ms"),
        )  # fmt: skip
        self.ledgers = work / "ledger"
        wait_for(lambda: "store_examined" in self.log_of("sink"), 60, "the look at the store")

    def make_keys(self) -> tuple:
        return ("--keys", self.kept_keys)

    def log_of(self, program: str) -> str:
        return (self.log / f"{program}.log").read_text()

    def choose(self, name: str):
        """Journal and ledger of that run are asked about from here on."""
        self.run_id, self.ledger = self.runs[name], self.ledgers / name

    def must_be_all_there(self, name: str, streams: int):
        self.choose(name)
        books = self.books()
        assert (books.lost, books.twice, books.wrong) == (0, 0, 0), (name, books)
        assert books.streams == streams
        assert books.records > 50

    def end(self, name: str) -> dict:
        collector = Collector(self.endpoint, bytes.fromhex(self.runs[name]), self.kept_keys)
        state = collector.end(120)
        collector.close()
        return state


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.name.removesuffix(".tar.xz"))
def life(request, tmp_path):
    made = Life(request.param, tmp_path)
    yield made
    made.destroy()


def test_each_version_has_an_archive():
    assert [path.name for path in ARCHIVES] == ["life-0.2.0.tar.xz"]
    assert sum(path.stat().st_size for path in ARCHIVES) < 200_000


def test_a_store_and_a_spool_of_each_version_are_read(life):
    # sealed: nothing is made anew, and its file can be made again
    life.must_be_all_there("sealed", 1)
    before = {path.name for path in life.journal().iterdir()}
    again = life.output / "again.h5"
    command = [PROGRAMS / "crema-sink", "rebuild", life.journal(), "--output", again]
    subprocess.run(command, check=True, capture_output=True)
    subprocess.run([PROGRAMS / "crema-sink", "check", again], check=True, capture_output=True)

    # open: what lay in the spool comes, once
    life.spools = [life.left]
    life.choose("open")
    assert len(life.held()) >= 2
    life.agents = [life.start_agent(life.left)]
    wait_for(lambda: not life.held(), 60, "the delivery of the spool")
    life.must_be_all_there("open", 3)

    # damaged: named, and never called whole; its verdict waits for what might still come
    damaged = next(x for x in life.log_of("sink").splitlines() if "event=journal_damaged" in x)
    assert f"run={life.runs['damaged']}" in damaged
    with concurrent.futures.ThreadPoolExecutor(1) as beside:
        verdict = beside.submit(life.end, "damaged")
        state = life.end("open")
        must_take_nothing_of_a_freed_run(life)
        assert verdict.result()[9] == [b"PARTIAL"]
    assert state[9] == [b"PARTIAL"], state
    assert any(b"writer_killed" in reason for reason in state[10]), state
    subprocess.run([PROGRAMS / "crema-sink", "check", run_file(state)], check=True)

    # the sealed one came to rest: a checkpoint behind what was there, and nothing else
    life.must_be_all_there("sealed", 1)
    after = {path.name for path in life.journal().iterdir()}
    assert after - before <= {"000002.journal"}
    assert before <= after
    assert "run_set_aside" not in life.log_of("sink")
    assert f"event=run_sealing run={life.runs['sealed']}" not in life.log_of("sink")


def must_take_nothing_of_a_freed_run(life):
    life.choose("freed")
    assert not life.journal().exists()
    life.ledger = life.make("ledger-late")
    late = life.start_writer(life.left, 200)
    time.sleep(0.3)
    late.terminate()
    wait_for(lambda: not life.held(), 60, "the refusal of what is late")
    assert not life.journal().exists()
    assert "event=stream_refused" in life.log_of("sink")


def test_keys_of_another_role_are_refused_with_the_remedy(tmp_path):
    with tarfile.open(ARCHIVES[0]) as tar:
        tar.extractall(tmp_path)
    command = [PROGRAMS / "crema-aggregator", "--keys", tmp_path / "keys" / "agent"]
    ended = subprocess.run(
        [*command, "--bind", "tcp://127.0.0.1:*"], capture_output=True, text=True, timeout=20
    )
    assert ended.returncode != 0
    assert "aggregator.key_secret is missing: crema keys makes" in ended.stderr
