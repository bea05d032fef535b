"""Runs that live from RUN_OPEN to their sealed file under real programs, which die at one failpoint after the other.

Each run has a writer that goes on, one that is killed, and a stream that lies in the spool in three segments, so that
a pipeline comes to every point of the table in tests/unit/faulty/crema_failpoint.c. At the end every run must be sealed, every spool
empty, and the journals hold what the ledgers say.
"""

from __future__ import annotations

import contextlib
import pathlib
import shutil
import signal
import struct
import subprocess
import time
import uuid
import zlib

import h5py
import zmq

from crema.collect import _client
from crema.hook import _columns, _records
from pipeline import Pipeline, Supervised

FRAME_HEADER = struct.Struct("<IIQqHHI")  # magic, len, seq, t, type, flags, crc
LEDGER = struct.Struct("=16sQQQ")  # stream_id, recorded, dropped, finished
RUNS_MAX = 8  # until a point counts as never reached
PATIENCE_S = 90.0  # more than a busy machine needs; only a fault takes longer

# A process comes to these once, when it starts or ends: the k-th time is that of its k-th start.
ONCE_PER_PROCESS = (
    "seal.*",
    "agent.before_send.HELLO",
    "agent.after_send.HELLO",
    "agent.before_send.BYE",
    "agent.after_send.BYE",
    "aggregator.before_send.WELCOME",
    "aggregator.after_send.WELCOME",
    "aggregator.before_send.FENCE",
    "aggregator.after_send.FENCE",
    "sink.before_renew_truncate",
    "sink.before_renew_write",
    "sink.before_renew_fsync",
    "sink.after_renew_fsync",
    "sink.before_torn_unlink",
    "sink.after_torn_unlink",
)
LEAVING = ("agent.*_dismissal", "agent.*_keys_*", "agent.*_spool_*")  # of an agent of one run
FIRST_START = "spool.*_id_*"  # the agent's first start in its spool
CHILDREN = ("seal.*", "live.*")  # a process of the sink dies, the sink lives
FREEING = ("sink.*_tombs_*", "sink.*_journal_*")  # a journal that was kept long enough goes
OPTIONS = {  # with which a sink comes to a point
    "sink.*_send.FULL": ("--journal-limit", "1Mi"),
    **dict.fromkeys(FREEING, ("--retain", "1s")),
}


def matches(name: str, *patterns: str) -> bool:
    return any(pathlib.PurePath(name).match(pattern) for pattern in patterns)


class Run:
    """One run, its ledgers, and the collector that ends it."""

    def __init__(self, life: Life, number: int):
        self.run_id, self.ledger = uuid.uuid4().hex, life.make(f"ledger{number}")
        self.client = _client.AggregatorClient(life.endpoint, None)
        self.phase, self.path, self.agents = _client.UNKNOWN, pathlib.Path(), 0
        self.asked = 0.0
        self.dismiss = False  # the agents that were started for it

    def say(self, kind: int, **fields):
        """Send it unless that was done a moment ago, and hear what was answered."""
        if time.monotonic() - self.asked > 0.2:
            self.asked = time.monotonic()
            run_id = bytes.fromhex(self.run_id)
            if kind == _client.RUN_END:  # the writers' own ledgers are the list here
                self.client.send(_client.RUN_WRITERS, run_id=run_id, part=0, parts=1)
            self.client.send(kind, run_id=run_id, **fields)
        for state in self.client.states(bytes.fromhex(self.run_id), 0.002):
            self.phase, self.path, self.agents = state.phase, pathlib.Path(state.path), state.agents

    def say_end(self):
        if self.phase != _client.SEALED:
            fields = {"writer_parts": 1, "dismiss": self.dismiss}
            self.say(_client.RUN_END, t_end_ns=time.time_ns(), **fields)


class Life(Pipeline):
    """A pipeline whose runs follow each other: one is always open, so that a process that dies had work to do."""

    def __init__(self, programs: pathlib.Path, work: pathlib.Path):
        super().__init__(
            programs,
            work,
            sink_options=("--flush-interval", "50ms"),
            live=True,
            agent_options=(
                *("--heartbeat-interval", "1s", "--poll-interval", "20ms"),
                *("--sample-interval", "100ms", "--drain-timeout", "500ms"),
            ),
        )
        self.side = self.make("side")
        self.peer = zmq.Context.instance().socket(zmq.DEALER)  # says what no aggregator says
        self.peer.linger = 0
        self.peer.connect(self.sink_endpoint)
        self.runs: list[Run] = []
        self.ended = 0  # of the runs, from the first
        self.follow_up = ""  # where the next program that comes back is to die again

    def destroy(self):
        for run in self.runs:
            run.client.close()
        self.peer.close()
        super().destroy()

    # ---------------------------------------------------------------- looking after

    def tend(self):
        """Restart what died, and repeat what the collectors want."""
        for program in self.programs():
            status = program.process.poll()
            assert status in (None, -signal.SIGKILL), f"{program.log} ended with status {status}"
            if status is not None:
                program.start(self.follow_up)
                self.follow_up = ""
        for run in self.runs[: self.ended]:
            run.say_end()

    def wait(self, condition, what: str, patience: float = PATIENCE_S):
        end = time.monotonic() + patience
        while not condition():
            assert time.monotonic() < end, f"{what} did not happen within {patience} s"
            self.tend()
            time.sleep(0.005)

    # ---------------------------------------------------------------- runs

    def open_run(self):
        run = Run(self, len(self.runs))
        self.runs.append(run)
        self.run_id, self.ledger = run.run_id, run.ledger

        began_ns = time.time_ns()

        def is_open() -> bool:
            run.say(_client.RUN_OPEN, t_start_ns=began_ns)
            return run.phase >= _client.OPEN

        self.wait(is_open, "RUN_OPEN")
        self.start_writer(self.spools[-1], 400)
        self.doomed = self.start_writer(self.spools[-1], 400)
        self.start_writer(self.side, 1000)
        self.wait(lambda: sum(count > 2 for count in self.recorded()) == 3, "recording")

    def recorded(self) -> list[int]:
        """Records of each writer of the open run, by its ledger."""
        ledgers = [path.read_bytes() for path in self.ledger.glob("*.ledger")]
        return [LEDGER.unpack(ledger)[1] for ledger in ledgers if len(ledger) == LEDGER.size]

    def end_run(self):
        """Its writers end, one of them badly; from now on tend() asks for the file."""
        self.kill_writer(self.doomed)
        self.stop_writers()
        self.cut_side_streams()
        self.ended = len(self.runs)

    def cut_side_streams(self):
        """Move what lies aside into the spool, each stream in three segments, the first one last."""
        for path in self.side.glob("sp-*"):
            content, at, cuts, seq = path.read_bytes(), 0, [0], [1]
            while at < len(content):
                _, size, number, *_ = FRAME_HEADER.unpack_from(content, at)
                at += FRAME_HEADER.size + size
                if len(cuts) < 3 and at >= len(content) * len(cuts) // 3:
                    cuts.append(at)
                    seq.append(number + 1)
            cuts.append(len(content))
            for i in reversed(range(len(seq))):
                part = self.spools[-1] / f".part-{i}"
                part.write_bytes(content[cuts[i] : cuts[i + 1]])
                part.rename(self.spools[-1] / f"{path.name[:36]}{seq[i]:016x}")
            path.unlink()

    def undelivered(self) -> list[str]:
        mine = {path.stem for run in self.runs for path in run.ledger.glob("*.ledger")}
        return [
            path.name
            for spool in self.spools
            for path in spool.glob("sp-*")
            if path.name.split("-")[1] in mine
        ]

    # ---------------------------------------------------------------- dying at a point

    def target(self, name: str) -> Supervised:
        return {
            "spool": self.agents[-1],
            "agent": self.agents[-1],
            "aggregator": self.aggregator,
            "sink": self.sink,
            "seal": self.sink,
            "live": self.sink,
        }[name.split(".")[0]]

    def arm(self, name: str, occurrence: int):
        """The program that has the point is killed and starts with it, in the middle of what it does."""
        if matches(name, FIRST_START):
            self.spools.append(self.make(f"spool{len(self.spools)}"))
            self.agents.append(self.start_agent(self.spools[-1]))
        if matches(name, "sink.*_send.FULL"):
            self.fill_store(1 << 20)
        if matches(name, "sink.*_renew_*"):
            self.wait(self.has_frames, "a journal with more than its header")
        if matches(name, "aggregator.*_send.FENCE"):
            self.wait(self.has_agent, "an agent of the old aggregator")
        target = self.target(name)
        target.kill(restart=False)
        if matches(name, FIRST_START):
            (self.spools[-1] / "agent_id").unlink(missing_ok=True)
        plain = target.command
        for pattern, options in OPTIONS.items():
            if matches(name, pattern):
                target.command = [*plain, *options]
        target.start(f"{name}:{occurrence}")
        target.command = plain

    def fill_store(self, size_bytes: int):
        self.start_writer(self.spools[-1], 50_000)

        self.wait(lambda: self.stored_bytes() > size_bytes, "filling")

    def stored_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.store.glob("*/*.journal"))

    def has_frames(self) -> bool:
        """Whether the journal of the open run has records: a starting sink removes one without."""
        return any(path.stat().st_size > 1000 for path in self.journal().glob("*.journal"))

    def has_agent(self) -> bool:
        self.runs[-1].say(_client.RUN_QUERY)
        return self.runs[-1].agents > 0

    def provoke(self, name: str):
        """What no pipeline does by itself."""
        agent = self.agents[-1]
        if matches(name, "agent.*_send.BYE") and agent.failpoint:
            agent.process.terminate()
            killed = agent.process.wait(20) == -signal.SIGKILL
            agent.start("" if killed else agent.failpoint)
        if matches(name, "sink.*_send.NACK"):
            self.put_what_does_not_continue()

    def put_what_does_not_continue(self):
        """As an aggregator would that believes more to be in the journal than is."""
        frame = FRAME_HEADER.pack(_columns.FRAME_MAGIC, 0, 100, 0, _records.END, 0, 0)
        crc = struct.pack("<I", zlib.crc32(frame[:-4]))
        body = _records.MESSAGES["Put"](
            stream_id=uuid.uuid4().bytes,
            run_id=bytes.fromhex(self.run_id),
            first_seq=100,
            n=1,
            frames=frame[:-4] + crc,
            agent_id=uuid.uuid4().bytes,
        )
        with contextlib.suppress(zmq.Again):  # it is not connected: the next one will be sent
            self.peer.send(
                _client.encode(_columns.MESSAGES["PUT"], body.SerializeToString()), zmq.DONTWAIT
            )

    def reach(self, name: str, occurrence: int):
        """Arm the point and let runs pass until somebody died there; then everybody is as before."""
        target, runs = self.target(name), len(self.runs)
        before = target.reached(name) if not matches(name, FIRST_START) else 0
        self.arm(name, occurrence)
        target = self.target(name)

        def reached() -> bool:
            return target.reached(name) > before

        patience = 25.0 if matches(name, *FREEING) else 3.0
        while not reached():
            assert len(self.runs) < runs + RUNS_MAX, f"{name} was not reached {occurrence} times"
            if matches(name, "sink.*_commit.RUN_END"):
                self.aggregator.kill()  # one that did not see the run opened passes its end on
            self.end_run()
            self.open_run()
            last, end = self.runs[-2], time.monotonic() + patience

            def passed(last=last, end=end) -> bool:
                self.provoke(name)
                over = last.phase == _client.SEALED and not matches(name, *FREEING)
                return reached() or over or time.monotonic() > end

            self.wait(passed, name)
        if matches(name, *CHILDREN):
            target.kill()  # the sink lives, and its next process of that kind must not die as well
        self.wait(lambda: target.process.poll() is None and not target.failpoint, "its return")

    def leave(self, name: str):
        """An agent that was started for the open run dies on its way out; the next one finishes that."""
        own = self.make(f"own{len(self.runs)}-{name}")
        (own / "keys").mkdir(mode=0o700)
        (own / "keys" / "agent.key_secret").write_text("of nobody")
        agent = self.start_agent(own)
        agent.kill(restart=False)
        agent.command += ["--run", self.run_id]
        agent.start(f"{name}:1")
        self.start_writer(own, 400)
        self.wait(lambda: sum(count > 2 for count in self.recorded()) == 4, "recording")
        self.runs[-1].dismiss = True
        self.end_run()
        self.wait(lambda: agent.process.poll() is not None, f"{name} of an agent that leaves")
        assert agent.died_there() and agent.reached(name) == 1, f"{name} was not reached"
        agent.command += ["--orphan-timeout", "5s"]  # nobody may be left who would dismiss it
        agent.start()
        self.wait(lambda: agent.process.poll() is not None, "an agent that leaves")
        assert agent.process.returncode == 0 and not own.exists(), f"{own} stays"
        self.wait(lambda: self.runs[-1].phase == _client.SEALED, "sealing")
        self.open_run()

    def die_at(self, name: str, occurrence: int):
        if matches(name, *LEAVING):
            for _ in range(occurrence):
                self.leave(name)
            return
        times = occurrence if matches(name, *ONCE_PER_PROCESS) else 1
        for _ in range(times):
            if matches(name, "sink.*_torn_unlink"):  # of a segment that a kill left empty
                before = self.sink.reached(name)
                self.follow_up = f"{name}:1"
                self.reach("sink.before_segment_write", 1)
                assert self.sink.reached(name) == before + 1, f"{name} was not reached"
            else:
                self.reach(name, 1 if times > 1 else occurrence)

    def finish(self):
        """End the last run and wait until all are sealed and delivered."""
        self.end_run()
        self.wait(lambda: all(run.phase == _client.SEALED for run in self.runs), "sealing")
        self.wait(lambda: not self.undelivered(), "delivery")

    def must_have_kept_everything(self):
        for run in self.runs:
            self.run_id, self.ledger = run.run_id, run.ledger
            if not self.journal().exists():
                continue  # sealed and freed
            books = self.books()
            assert (books.lost, books.twice, books.wrong) == (0, 0, 0), (run.run_id, books)
            assert books.streams >= 3, books
        checked = subprocess.run(
            [self.bin("crema-sink"), "check", *(run.path for run in self.runs)],
            capture_output=True,
            text=True,
        )
        assert checked.returncode == 0, checked.stdout + checked.stderr


def die_at(programs: pathlib.Path, work: pathlib.Path, points: list[tuple[str, int]]) -> int:
    """One pipeline dies at one point after the other, then the books are held against the ledgers.

    Returns how many runs it took. AssertionError: a point was not reached, something was lost or is there twice.
    """
    work.mkdir()
    life = Life(programs, work)
    try:
        life.open_run()
        for name, occurrence in points:
            life.die_at(name, occurrence)
        life.finish()
        life.must_have_kept_everything()
    finally:
        life.destroy()
    shutil.rmtree(
        work, ignore_errors=True
    )  # a child of a sink that was killed may still write there
    return len(life.runs)


def gaps(path: pathlib.Path) -> dict[str, int]:
    """Records missing in a run file, by cause."""
    found: dict[str, int] = {}
    with h5py.File(path) as file:
        table = file["gaps"]
        causes = {v: k for k, v in h5py.check_enum_dtype(table.dtype["cause"]).items()}
        for row in table[:]:
            cause = causes[row["cause"]]
            found[cause] = found.get(cause, 0) + int(row["n_lost"])
    return found
