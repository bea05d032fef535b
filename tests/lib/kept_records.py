"""What the tests share that hurt a pipeline and then ask whether every record was kept, once."""

from __future__ import annotations

import pathlib
import struct
import uuid

import pytest

import run_lives
from losses import LossError
from paths import BIN as PROGRAMS
from pipeline import Books, Pipeline, Supervised, failpoints
from waiting import wait_for

__all__ = [
    "LONG",
    "PROGRAMS",
    "Pipeline",
    "Supervised",
    "Tail",
    "failpoints",
    "must_have_kept_everything",
    "recorded",
    "run_lives",
    "wait_for",
]

LONG = [pytest.mark.long, pytest.mark.timeout(1500)]


def must_have_kept_everything(pipeline: Pipeline, drain_s: float = 60) -> Books:
    pipeline.stop_writers()
    pipeline.drain(drain_s)
    held, books = pipeline.held(), pipeline.books()
    if held or (books.lost, books.twice, books.wrong) != (0, 0, 0):
        raise LossError(f"{books}, still held: {held}")
    assert books.records > 0
    return books


def recorded(pipeline: Pipeline) -> int:
    """What the writers recorded so far, by their ledgers."""
    ledgers = pipeline.ledger.glob("*.ledger")
    return sum(struct.unpack_from("<16xQ", ledger.read_bytes())[0] for ledger in ledgers)


class Tail:
    """Counts the records of a run's journal as they are written, from outside of the sink."""

    FRAME = struct.Struct("<IIQqHHI")
    PUT = struct.Struct("<32xQI")  # behind the ids of stream and agent: first number, how many
    MAGIC, PUT_TYPE = 0x314D5243, 66

    def __init__(self, pipeline: Pipeline):
        self.directory = pipeline.store / str(uuid.UUID(pipeline.run_id))
        self.segment, self.offset, self.counted = 1, 0, 0

    def _path(self, segment: int) -> pathlib.Path:
        return self.directory / f"{segment:06}.journal"

    def records(self) -> int:
        while self._path(self.segment).exists():
            self._follow()
            if not self._path(self.segment + 1).exists():
                break
            self._follow()  # what came between the look at the end and the next segment
            self.segment, self.offset = self.segment + 1, 0
        return self.counted

    def _follow(self):
        with self._path(self.segment).open("rb") as file:
            file.seek(self.offset)
            while len(head := file.read(self.FRAME.size + self.PUT.size)) >= self.FRAME.size:
                magic, length, _, _, kind, _, _ = self.FRAME.unpack_from(head)
                if magic != self.MAGIC:
                    return
                if kind == self.PUT_TYPE:
                    self.counted += self.PUT.unpack_from(head, self.FRAME.size)[1]
                self.offset += self.FRAME.size + length
                file.seek(self.offset)
