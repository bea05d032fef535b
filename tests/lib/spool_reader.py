"""Reads a spool directory back, byte by byte, without the code that wrote it."""

from __future__ import annotations

import fcntl
import pathlib
import struct
import zlib
from typing import Any, NamedTuple

import pandas as pd

from crema.hook import _records

HEADER = struct.Struct("<IIQqHHI")
DICTS = [
    "worker",
    "task_prefix",
    "activity",
    "unit",
    "metric",
    "span",
    "dataset",
    "file",
    "section",
    "branch",
    "place",
    "frame",
    "stack",
]


class Frame(NamedTuple):
    seq: int
    t_ns: int
    type: int
    flags: int
    body: bytes


class Stream:
    """One stream: its records, in order, with every check that a reader can make."""

    def __init__(self, stream_id: str, paths: list[pathlib.Path]) -> None:
        self.stream_id = stream_id
        self.paths = sorted(paths)
        self.frames: list[Frame] = []
        self.torn_bytes = 0
        for path in self.paths:
            first_seq = int(path.name.rsplit("-", 1)[1], 16)
            assert first_seq == len(self.frames) + 1, f"{path} does not continue the stream"
            self._read(path.read_bytes())
        message = _records.MESSAGES
        self.info = message["StreamInfo"].FromString(self.frames[0].body) if self.frames else None
        self.names: dict[tuple[str, int], Any] = {}
        self.batches: list[tuple[int, Any]] = []
        self.end = None
        for frame in self.frames:
            assert self.end is None, "a record behind END"
            if frame.type == _records.DICT:
                for entry in message["Dict"].FromString(frame.body).entries:
                    kind = DICTS[entry.kind]
                    assert entry.id == sum(k == kind for k, _ in self.names), "ids are not dense"
                    self.names[kind, entry.id] = entry
            elif frame.type == _records.BATCH:
                self.batches.append((frame.seq, message["Batch"].FromString(frame.body)))
            elif frame.type == _records.END:
                self.end = message["End"].FromString(frame.body)
            else:
                assert frame.type == _records.STREAM and frame.seq == 1

    def _read(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            rest = len(data) - at
            if rest < HEADER.size:
                self.torn_bytes += rest
                return
            magic, size, seq, t_ns, kind, flags, crc = HEADER.unpack_from(data, at)
            assert magic == 0x314D5243, f"no frame at {at}"
            if rest < HEADER.size + size:
                self.torn_bytes += rest
                return
            body = data[at + HEADER.size : at + HEADER.size + size]
            assert zlib.crc32(body, zlib.crc32(data[at : at + 28])) == crc, f"bad crc at {at}"
            assert seq == len(self.frames) + 1, "numbers are not dense"
            self.frames.append(Frame(seq, t_ns, kind, flags, body))
            at += HEADER.size + size

    @property
    def locked(self) -> bool:
        """Whether its writer lives."""
        with self.paths[-1].open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def table(self, name: str) -> pd.DataFrame:
        """Rows of a table; dictionary columns hold the texts, enums their labels."""
        table = _records.TABLES[name]
        frames = []
        for seq, batch in self.batches:
            if batch.table != table.number:
                continue
            n, ints = batch.rows, batch.ints or batch.fixed_ints
            assert len(ints) == n * len(table.ints)
            assert len(batch.reals) == n * len(table.reals)
            columns = {c: ints[i * n : (i + 1) * n] for i, c in enumerate(table.ints)}
            columns |= {c: batch.reals[i * n : (i + 1) * n] for i, c in enumerate(table.reals)}
            frames.append(pd.DataFrame(columns).assign(seq=seq, provisional=batch.flags & 1))
        if not frames:
            return pd.DataFrame(columns=[*table.ints, *table.reals, "seq", "provisional"])
        rows = pd.concat(frames, ignore_index=True)
        for column in table.ints:
            kind = column.removesuffix("_id")
            if column != "chunk_id" and column.endswith("_id"):
                rows[kind] = [None if i < 0 else self.names[kind, i].text for i in rows[column]]
            if column in table.labels:
                labels = table.labels[column]
                rows[column] = [labels[i] for i in rows[column]]
        if "span_id" in rows:
            rows["span"] = [None if i < 0 else self.names["span", i].uuid for i in rows["span_id"]]
        return rows.assign(stream=self.stream_id)

    def chunks(self) -> pd.DataFrame:
        """One row per attempt: the last word on it."""
        rows = self.table("chunks")
        return rows.sort_values("seq").drop_duplicates("attempt_ref", keep="last")

    def totals(self) -> dict[tuple, float]:
        """Increment of each activity over the stream: last total less baseline."""
        rows = self.table("activities").sort_values("seq", kind="stable")
        totals: dict[tuple, float] = {}
        base: dict[tuple, float] = {}
        for row in rows.itertuples():
            key = (row.context, row.span, row.task_prefix, row.activity, row.unit, row.side)
            if row.baseline:
                assert key not in totals, "a baseline behind a total"
                base[key] = row.total
            else:
                if row.unit == "seconds":
                    assert row.total >= totals.get(key, base.get(key, 0.0)), f"{key} steps back"
                totals[key] = row.total
        return {key: total - base.get(key, 0.0) for key, total in totals.items()}


def read(directory: str | pathlib.Path) -> list[Stream]:
    """Streams of a spool directory."""
    paths: dict[str, list[pathlib.Path]] = {}
    for path in pathlib.Path(directory).glob("sp-*"):
        paths.setdefault(path.name.split("-")[1], []).append(path)
    return [Stream(stream_id, found) for stream_id, found in paths.items()]


def table(streams: list[Stream], name: str) -> pd.DataFrame:
    return pd.concat([s.table(name) for s in streams], ignore_index=True)


def chunks(streams: list[Stream]) -> pd.DataFrame:
    return pd.concat([s.chunks() for s in streams], ignore_index=True)


def of_kind(streams: list[Stream], kind: int) -> list[Stream]:
    return [s for s in streams if s.info.kind == kind]
