"""Real programs under a supervisor, writers with a ledger outside of them, and the books held against each other.

Used by torture.py and by the fault tests: both hurt a pipeline and then ask whether every record was kept, once.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import signal
import subprocess
import sys
import time
import uuid

from children import Child
from ports import free_port
from waiting import wait_for


def with_failpoint(failpoint: str) -> dict:
    environment = {"CREMA_INSECURE": "1", **os.environ}  # many start without keys
    return {**environment, "FAILPOINT": failpoint} if failpoint else environment


def failpoints(programs: pathlib.Path) -> list[str]:
    """Names of all failpoints, in the order of the table."""
    listed = subprocess.run(
        [programs / "torture_points_main"], capture_output=True, text=True, check=True
    )
    return listed.stdout.split()


class Supervised:
    """One program that is started again when it is found dead."""

    def __init__(self, command: list[str], log: pathlib.Path):
        self.command, self.log = [str(word) for word in command], log
        self.environment: dict[str, str] = {}  # what it gets besides this process's own
        self.start()

    def start(self, failpoint: str = ""):
        """Start it; `failpoint` is where it is to kill itself, `name:k` of proto/wire/crema_failpoint.h."""
        self.failpoint = failpoint
        with self.log.open("ab") as log:
            self.process = Child(
                self.command,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env={**with_failpoint(failpoint), **self.environment},
            )

    def await_ready(self, timeout_s: float = 60):
        """Until it says that it serves."""

        def is_ready() -> bool:
            log = self.log.read_text(errors="replace")
            assert self.process.poll() is None, f"{self.command[0]} ended at its start: {log}"
            return '"event":"ready"' in log

        wait_for(is_ready, timeout_s, f"the start of {self.command[0]}")

    def reached(self, name: str) -> int:
        """How often it, or the process that seals for it, came to die at that failpoint."""
        return self.log.read_text(errors="replace").count(f"event=failpoint name={name}\n")

    def kill(self, restart: bool = True):
        self.process.kill()
        self.process.wait()
        if restart:
            self.start()

    def died_there(self) -> bool:
        """It had a failpoint and came to it."""
        return bool(self.failpoint) and self.process.poll() == -signal.SIGKILL

    def revive(self) -> bool:
        """Start it again if it ended by itself; True if it had."""
        if self.process.poll() is None:
            return False
        self.start()
        return True

    def signal(self, number: int):
        self.process.send_signal(number)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@dataclasses.dataclass
class Books:
    """What the journal holds against the ledgers."""

    records: int = 0
    lost: int = 0
    twice: int = 0
    wrong: int = 0
    unacknowledged: int = 0  # written, but its writer was killed before its ledger said so
    streams: int = 0
    regressed: int = 0  # of those lost: an older store lost them, and LOSS says so


class Pipeline:
    """Sink, aggregator and one agent per spool, with a writer each."""

    def __init__(
        self,
        programs: pathlib.Path,
        work: pathlib.Path,
        spools: int = 1,
        store: pathlib.Path | None = None,
        sink_options: tuple = (),
        aggregator_options: tuple = (),
        agent_options: tuple = ("--heartbeat-interval", "500ms"),
        host: str = "127.0.0.1",
        near: tuple = (),
        far: tuple = (),
        keyed: bool = False,
        live: bool = False,
        sink_seen_at: str = "",
        sink_host: str = "127.0.0.1",
        between: tuple = (),
    ):
        """`near` and `far` are commands that run another one, where the agents and the services live.

        `between` is where the aggregator lives, if not with the sink.
        """
        self.programs_dir, self.work = programs, work
        self.run_id = uuid.uuid4().hex
        self.agent_options, self.near, self.far, self.live = agent_options, near, far, live
        self.ledger, self.log = self.make("ledger"), self.make("log")
        self.store = store or self.make("store")
        self.output = self.make("output")
        self.spools = [self.make(f"spool{i}") for i in range(spools)]
        self.keys = self.make_keys() if keyed or near else ()
        self.endpoint = f"tcp://{host}:{free_port()}"
        self.sink_endpoint = f"tcp://{sink_host}:{free_port()}"
        self.sink_seen_at = sink_seen_at or self.sink_endpoint
        self.sink = Supervised(self.sink_command(*sink_options), self.log / "sink.log")
        self.aggregator = Supervised(
            [*(between or far), self.bin("crema-aggregator"), "--bind", self.endpoint,
             "--sink", self.sink_seen_at, *self.keys, *aggregator_options],
            self.log / "aggregator.log",
        )  # fmt: skip
        self.agents = [self.start_agent(spool) for spool in self.spools]
        self.writers: list[subprocess.Popen] = []
        for service in (self.sink, self.aggregator):
            service.await_ready()

    def bin(self, name: str) -> pathlib.Path:
        return self.programs_dir / name

    def make(self, name: str) -> pathlib.Path:
        path = self.work / name
        path.mkdir(mode=0o700)
        return path

    def make_keys(self) -> tuple:
        keys = self.work / "keys"
        command = [self.bin("crema-aggregator"), "--make-keys", keys]
        subprocess.run(command, check=True, capture_output=True)
        return ("--keys", keys)

    def sink_command(self, *options: str, store: pathlib.Path | None = None) -> list:
        return [
            *self.far, self.bin("crema-sink"), "--bind", self.sink_endpoint,
            "--store", store or self.store, "--output", self.output, *self.keys,
            *(() if self.live else ("--no-live",)), *options,
        ]  # fmt: skip

    def start_agent(self, spool: pathlib.Path, endpoint: str | None = None) -> Supervised:
        return Supervised(
            [*self.near, self.bin("crema-agent"), "--spool", spool,
             "--aggregator", endpoint or self.endpoint, *self.keys, *self.agent_options],
            self.log / f"agent-{spool.name}.log",
        )  # fmt: skip

    def start_writer(self, spool: pathlib.Path, rate: int, failpoint: str = "") -> subprocess.Popen:
        writer = Child(
            [self.bin("torture_writer_main"), spool, self.ledger, self.run_id, str(rate)],
            env=with_failpoint(failpoint),
        )
        self.writers.append(writer)
        return writer

    def start_writers(self, rate: int):
        for spool in self.spools:
            self.start_writer(spool, rate)

    def kill_writer(self, writer: subprocess.Popen):
        writer.kill()
        writer.wait()
        self.writers.remove(writer)

    def stop_writers(self):
        for writer in self.writers:
            writer.send_signal(signal.SIGTERM)
        for writer in self.writers:
            writer.wait(20)
        self.writers.clear()

    def programs(self) -> list[Supervised]:
        return [self.sink, self.aggregator, *self.agents]

    def revive(self) -> int:
        return sum(program.revive() for program in self.programs())

    def held(self) -> list[str]:
        """Segments of writers that still lie in a spool; an agent's own stream stays open."""
        mine = {path.stem for path in self.ledger.glob("*.ledger")}
        return [
            path.name
            for spool in self.spools
            for path in spool.glob("sp-*")
            if path.name.split("-")[1] in mine
        ]

    def drain(self, timeout_s: float = 60.0) -> float:
        """Seconds until the last segment is committed and unlinked; the writers have ended."""
        began = time.monotonic()
        while self.held() and time.monotonic() - began < timeout_s:
            self.revive()
            time.sleep(0.05)
        return time.monotonic() - began

    def stop(self):
        for program in [*self.agents, self.aggregator, self.sink]:
            program.stop()

    def destroy(self):
        for process in [program.process for program in self.programs()] + self.writers:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()

    def print_logs(self):
        """The last lines of each program's log."""
        for log in sorted(self.log.iterdir()):
            print(f"== {log.name}", log.read_text(errors="replace")[-3000:], sep="\n")

    def journal(self) -> pathlib.Path:
        return self.store / str(uuid.UUID(self.run_id))

    def books(self, journal: pathlib.Path | None = None) -> Books:
        """Hold the journal, or a copy of it, against the ledgers; the sink may run on."""
        checker = subprocess.run(
            [self.bin("torture_check_main"), journal or self.journal(), self.ledger],
            capture_output=True,
            text=True,
        )
        if not checker.stdout.startswith("records "):
            raise AssertionError(f"no books: {checker.stdout}{checker.stderr}")
        sys.stderr.write(checker.stderr)  # the streams that are not as they should be
        words = checker.stdout.split()
        return Books(**dict(zip(words[::2], map(int, words[1::2]), strict=True)))
