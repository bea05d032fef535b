"""Make life-VERSION.tar.xz: what the programs of one version leave behind, which later versions must read.

    python tests/golden/make_life.py --tree TREE --output tests/golden/life-0.2.0.tar.xz

TREE is a checkout of that version with its programs in build/dev/bin ; its own helpers run them. The archive holds a store with four runs (`freed`, `sealed`,
`damaged`: a few hundred bytes of its journal were flipped, and `open`), the spool of `open` with what was not delivered of two writers, one of which was
killed, the ledgers of what was recorded, a directory of keys, and manifest.json with the ids of the runs.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import uuid
import zlib

import zmq

PROTOCOL, ENVELOPE_REST = 2, 8  # version, and bytes of the envelope behind the checksum
RATE = 200  # records per second
RECORD_S = 0.4
RUN_OPEN, RUN_END, RUN_STATE, RUN_WRITERS = 64, 65, 67, 68


def wait_for(condition, what: str, timeout_s: float = 120):
    end = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"{what} did not happen within {timeout_s} s")
        time.sleep(0.05)


class Collector:
    """As much of a collector as it takes to open and end a run, in the protocol of that version."""

    def __init__(self, endpoint: str, run_id: str):
        self.head = b"\x0a\x10" + bytes.fromhex(run_id)
        self.socket = zmq.Context.instance().socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.connect(endpoint)

    def say(self, kind: int, rest: bytes = b""):
        body = self.head + rest
        first = struct.pack("<IBBHI", 0x616D7263, PROTOCOL, kind, 0, len(body))
        second = bytes(ENVELOPE_REST)
        checksum = struct.pack("<I", zlib.crc32(first + second + body))
        self.socket.send(first + checksum + second + body)

    def ask(self, until, *messages: tuple[int, bytes]) -> bytes:
        """Say it until a RUN_STATE is as it should be."""
        for _ in range(300):
            for message in messages:
                self.say(*message)
            while self.socket.poll(200):
                answer = self.socket.recv()
                state = answer[16 + ENVELOPE_REST :]
                if answer[5] == RUN_STATE and until(state):
                    return state
        sys.exit("the aggregator did not answer")

    def open(self):
        self.ask(lambda state: state[18:19] == b"\x10" and state[19] >= 1, (RUN_OPEN, b"\x10\x02"))

    def end(self) -> bytes:
        """With a list of writers of one part that names none."""
        messages = (RUN_WRITERS, b"\x18\x01"), (RUN_END, b"\x10\x04\x40\x01")
        return self.ask(lambda state: b".h5" in state, *messages)


class Maker:
    """The programs of one version, and the runs that are made with them."""

    def __init__(self, tree: pathlib.Path, work: pathlib.Path):
        sys.path[:0] = [str(tree / "tests" / folder) for folder in ("lib", "torture")]
        self.programs, self.work = tree / "build" / "dev" / "bin", work
        self.pipeline = importlib.import_module("pipeline").Pipeline(
            self.programs, work, sink_options=("--retain", "1s")
        )
        self.runs: dict[str, str] = {}

    def open(self, name: str):
        """A run of that name with the records of one writer, all of them durable; its collector."""
        self.runs[name] = self.pipeline.run_id = uuid.uuid4().hex
        self.pipeline.ledger = self.work / "ledger" / name
        self.pipeline.ledger.mkdir()
        collector = Collector(self.pipeline.endpoint, self.runs[name])
        collector.open()
        self.write(signal.SIGTERM)
        wait_for(lambda: not self.pipeline.held(), f"the delivery of {name}")
        return collector

    def write(self, number: int):
        """The records of one more writer; it ends by that signal."""
        writer = self.pipeline.start_writer(self.pipeline.spools[0], RATE)
        time.sleep(RECORD_S)
        writer.send_signal(number)
        writer.wait(20)
        self.pipeline.writers.clear()

    def seal(self, name: str):
        collector = self.open(name)
        if b"COMPLETE" not in collector.end():
            sys.exit(f"{name} is not complete")

    def live(self):
        pipeline = self.pipeline
        self.seal("freed")
        wait_for(lambda: not pipeline.journal().exists(), "the end of the freed run's journal")
        pipeline.sink.stop()
        pipeline.sink.command = pipeline.sink.command[:-2]  # without --retain
        pipeline.sink.start()
        self.seal("sealed")
        self.open("damaged")
        self.open("open")
        for agent in pipeline.agents:
            agent.stop()
        self.write(signal.SIGTERM)
        self.write(signal.SIGKILL)
        pipeline.stop()

    def spoil(self):
        """A few hundred bytes in the middle of what was acknowledged."""
        journal = self.pipeline.store / str(uuid.UUID(self.runs["damaged"])) / "000001.journal"
        content = bytearray(journal.read_bytes())
        middle = len(content) // 2
        for i in range(middle, middle + 300):
            content[i] ^= 0xA5
        journal.write_bytes(content)

    def make_keys(self):
        command = [self.programs / "crema-aggregator", "--make-keys", self.work / "keys"]
        subprocess.run(command, check=True, capture_output=True)

    def pack(self, output: pathlib.Path):
        (self.work / "manifest.json").write_text(json.dumps({"runs": self.runs}, indent=1) + "\n")
        shutil.move(self.work / "spool0", self.work / "spool")
        with tarfile.open(output, "w:xz") as tar:
            for name in ("manifest.json", "store", "spool", "ledger", "keys"):
                tar.add(self.work / name, name, filter=anonymous)


def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tree", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    options = parser.parse_args()
    os.environ["CREMA_INSECURE"] = "1"  # no keys, on this host alone
    with tempfile.TemporaryDirectory() as work:
        maker = Maker(options.tree.resolve(), pathlib.Path(work))
        try:
            maker.live()
        finally:
            maker.pipeline.destroy()
        maker.spoil()
        maker.make_keys()
        maker.pack(options.output)
    print(f"{options.output}: {options.output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
