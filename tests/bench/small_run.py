"""A run with one stream, put into a real sink record by record, as an aggregator would: how long each commit takes."""

from __future__ import annotations

import os
import pathlib
import subprocess
import time
import uuid

import zmq
from chain import free_port

from crema.collect import _client
from crema.hook import _columns
from crema.hook._records import KIND_WORKER, MESSAGES
from crema.hook._spool import StreamWriter

OPEN, PUT, STATE, COMMITTED = (
    _columns.MESSAGES[name] for name in ("OPEN", "PUT", "STATE", "COMMITTED")
)


def _ids(table) -> list[bytes]:
    """Streams of a table; those of other runs are among them."""
    return [table.stream_ids[i : i + 16] for i in range(0, len(table.stream_ids), 16)]


class SmallRun:
    """The real sink on a store with an open run, and what an aggregator says to it of that run."""

    def __init__(self, directory: pathlib.Path, programs: pathlib.Path):
        directory.mkdir()
        self.directory, self.programs, self.run_id = directory, programs, uuid.uuid4().bytes
        self.endpoint = f"tcp://127.0.0.1:{free_port()}"
        info = MESSAGES["StreamInfo"](
            run_id=self.run_id, kind=KIND_WORKER, host="node", pid=1, worker_uuid="u",
            worker_name="tcp://node:1", t_real_ns=time.time_ns(), t_mono_ns=time.monotonic_ns(),
        )  # fmt: skip
        self.writer = StreamWriter(directory, info.SerializeToString())
        (self.segment,) = directory.glob("sp-*")
        self.socket: zmq.Socket | None = None
        self.start()
        self.put(self.segment.read_bytes(), self.writer.seq)

    def start(self) -> float:
        """Start it; return when that was."""
        began = time.monotonic()
        with open(self.directory / "log", "a") as log:
            self.process = subprocess.Popen(
                [self.programs / "crema-sink", "--bind", self.endpoint, "--store", self.directory / "store",
                 "--output", self.directory / "output"], stdout=log, stderr=log,
                env={**os.environ, "CREMA_INSECURE": "1"},
            )  # fmt: skip
        self.socket = zmq.Context.instance().socket(zmq.DEALER)
        self.socket.linger, self.socket.reconnect_ivl = 0, 5
        self.socket.connect(self.endpoint)
        return began

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.socket.close()

    def put(self, frames: bytes, n: int) -> None:
        """Have the last `n` records committed."""
        asked = MESSAGES["Open"]()
        asked.table.stream_ids, asked.table.run_ids = self.writer.stream_id, self.run_id
        body = MESSAGES["Put"](
            stream_id=self.writer.stream_id, run_id=self.run_id, frames=frames, n=n,
            first_seq=self.writer.seq - n + 1,
        )  # fmt: skip
        self.socket.send(_client.encode(OPEN, asked.SerializeToString()))
        end = time.monotonic() + 60
        while time.monotonic() < end and self.socket.poll(60_000):
            kind, answer = _client.decode(self.socket.recv())
            if kind == STATE:  # it knows how far the stream came
                self.socket.send(_client.encode(PUT, body.SerializeToString()))
            elif kind == COMMITTED:
                table = MESSAGES["Committed"].FromString(answer).table
                rows = dict(zip(_ids(table), table.committed, strict=False))
                if rows.get(self.writer.stream_id, 0) >= self.writer.seq:
                    return
        raise AssertionError("not committed")

    def commit_s(self) -> float:
        """Record something, and wait until it is durable."""
        before = self.segment.stat().st_size
        self.writer.name(1, uuid.uuid4().hex)
        with open(self.segment, "rb") as segment:
            segment.seek(before)
            frames = segment.read()
        began = time.monotonic()
        self.put(frames, 1)
        return time.monotonic() - began

    def journal_b(self) -> int:
        return sum(path.stat().st_size for path in (self.directory / "store").rglob("*.journal"))
