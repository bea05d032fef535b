"""The writers of a run and the number of their last record: the list that the collector sends when the run ends.

A verdict of COMPLETE requires every record of every writer in it. Dask's workers and scheduler are
asked when the run ends. A worker also reports its stream to the scheduler when it opens and ends
it, so that one that has left is known. A process outside Dask enters itself in a file in the spool
before its first record.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from . import _columns
from ._records import KIND_SCHEDULER, KIND_WORKER
from ._secrets import cleaned
from ._unix import open_file

ENDED, LEFT, UNKNOWN, SILENT = (
    _columns.WRITER_STATES[name] for name in ("ENDED", "LEFT", "UNKNOWN", "SILENT")
)

ACTION = "crema-writer"  # of the events that workers log
_PART_WRITERS = 1000
_PART_BYTES = 128 << 10
_TEXT_CHARS = 300


class Writer(NamedTuple):
    """A writer as known at the end of the run.

    Attributes
    ----------
    name : str
        Dask's address, or host:pid.
    kind : int
        Kind of stream.
    state : int
        ENDED: reported its stream and the number of its last record. LEFT: can no longer be asked;
        its stream must contain its own END. UNKNOWN: could not be asked. SILENT: has no stream.
    stream : bytes
        Id of its stream; empty if unknown.
    last : int
        Number of its last record, including END; 0 if unknown.
    uuid : str
        Dask's id of the worker, or host:pid.
    text : str
        Reason why it could not be asked, or has no stream.
    dropped : int
        Records that it dropped, known once it has ended.
    """

    name: str
    kind: int = KIND_WORKER
    state: int = ENDED
    stream: bytes = b""
    last: int = 0
    uuid: str = ""
    text: str = ""
    dropped: int = 0

    def known(self) -> int:
        """Amount of information: of two reports about a writer the one with more counts."""
        if self.state == ENDED and self.stream:
            return 5
        if self.state == SILENT:
            return 4
        if self.stream:
            return 3
        return 2 if self.text else 1


def unknown(name: str, error: object, kind: int = KIND_WORKER) -> Writer:
    """A writer that could not be asked."""
    text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    return Writer(name, kind, UNKNOWN, text=text[:_TEXT_CHARS] or "it did not answer")


# ---------------------------------------------------------------- outside Dask


def register_path(directory: pathlib.Path, run_id: str) -> pathlib.Path:
    """File in a spool directory in which processes outside Dask register."""
    return directory / f"writers-{run_id}"


def register(directory: pathlib.Path, run_id: str, writer: Writer) -> None:
    """Register a writer; again with its last number when it has ended.

    Raises
    ------
    OSError
        If it cannot be written. The process must not record then, since its loss would go unnoticed.
    """
    line = f"{writer.stream.hex()} {writer.last} {writer.dropped} {writer.kind} {writer.name}\n"
    flags = os.O_WRONLY | os.O_APPEND | (0 if writer.last else os.O_CREAT)
    fd = open_file(register_path(directory, run_id), flags)
    try:
        if os.write(fd, line.encode()) != len(line.encode()):
            raise OSError(f"no room for an entry in {register_path(directory, run_id)}")
    finally:
        os.close(fd)


def registered(directory: pathlib.Path, run_id: str) -> list[Writer]:
    """All registered writers, each once; those still recording without a last number.

    None in a directory that this user may not enter: no process of this user could register there.
    """
    found: dict[bytes, Writer] = {}
    path = register_path(directory, run_id)
    try:
        path.stat()  # takes no descriptor: there may be none left, as when Dask has just taken the last one
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return []
    except PermissionError:
        if os.access(directory, os.X_OK):
            raise
        return []
    for line in lines:
        try:
            stream, last, dropped, kind, name = line.split(" ", 4)
            number = int(last)
            state = ENDED if number else LEFT
            writer = Writer(
                name, int(kind), state, bytes.fromhex(stream), number, dropped=int(dropped)
            )
        except ValueError:
            continue  # a truncated line: the one before it is complete
        if len(writer.stream) == 16 and (number or writer.stream not in found):
            found[writer.stream] = writer
    return list(found.values())


# ---------------------------------------------------------------- reports from workers to the
# scheduler


def event(writers: Iterable[Writer]) -> dict[str, Any]:
    """Message of a worker's event about streams of its host."""
    rows = [[*writer[:3], writer.stream.hex(), *writer[4:]] for writer in writers]
    return {"action": ACTION, "writers": rows}


def of_event(msg: Mapping[str, Any]) -> list[Writer]:
    """The writers of such a message."""
    return [
        Writer(row[0], row[1], row[2], bytes.fromhex(row[3]), *row[4:]) for row in msg["writers"]
    ]


# ---------------------------------------------------------------- the list


class Roll:
    """Combines reports of several sources about the same writers."""

    def __init__(self) -> None:
        self._by_key: dict[object, Writer] = {}

    def add(self, writers: Iterable[Writer]) -> None:
        """Add reports. A writer is identified by Dask's worker id, or by its stream, or by its name."""
        for writer in writers:
            key = (writer.kind, writer.uuid) if writer.uuid else writer.stream or writer.name
            if writer.kind == KIND_SCHEDULER:
                key = KIND_SCHEDULER
            before = self._by_key.get(key)
            if before and before.stream and writer.stream not in (b"", before.stream):
                key = writer.stream  # its plugin was set up twice: each stream must have its END
                before = self._by_key.get(key)
            if before is None or writer.known() > before.known():
                self._by_key[key] = writer

    def add_answers(self, answers: Mapping[str, Any]) -> None:
        """Add the workers' answers by address; an exception is assigned to the last worker at that address."""
        by_name = {writer.name: writer for writer in self._by_key.values()}
        for name, answer in answers.items():
            if not isinstance(answer, BaseException):
                self.add(answer)
            elif isinstance(answer, ModuleNotFoundError):
                self.add([Writer(name, state=SILENT, uuid=_uuid(by_name, name), text=str(answer))])
            else:
                self.add([unknown(name, answer)._replace(uuid=_uuid(by_name, name))])
                if name in by_name and by_name[name].stream:  # it alone would hide the error
                    self.add([unknown(f"{name} and processes beside it", answer)])

    def lost(self, why: object) -> None:
        """Note why no worker answered: of each whose end is unknown, and once of the processes beside them, which would hide it."""
        workers = [
            writer
            for writer in self._by_key.values()
            if writer.kind == KIND_WORKER and writer.state in (LEFT, UNKNOWN)
        ]
        self.add([unknown(w.name, why)._replace(uuid=w.uuid) for w in workers])
        if any(writer.stream for writer in workers):
            self.add([unknown("any process beside a worker", why)])

    def writers(self) -> list[Writer]:
        """The list. A writer with a known stream is not UNKNOWN, since its END can be checked; nor is an address whose writer reported itself."""
        with_stream = {writer.name for writer in self._by_key.values() if writer.stream}
        return [
            writer._replace(state=LEFT) if writer.state == UNKNOWN and writer.stream else writer
            for writer in self._by_key.values()
            if writer.uuid or writer.stream or writer.text or writer.name not in with_stream
        ]


def _uuid(by_name: Mapping[str, Writer], name: str) -> str:
    return by_name[name].uuid if name in by_name else ""


def parts(run_id: bytes, writers: Sequence[Writer]) -> list[dict[str, Any]]:
    """Fields of the RUN_WRITERS messages for a list; at least one."""
    cut = list(_cut(writers)) or [[]]
    return [
        {
            "run_id": run_id,
            "part": number,
            "parts": len(cut),
            "writers": [
                {
                    "stream_id": writer.stream,
                    "last": writer.last,
                    "kind": writer.kind,
                    "state": writer.state,
                    "name": writer.name,
                    "uuid": writer.uuid,
                    "text": cleaned(writer.text),
                    "dropped": writer.dropped,
                }
                for writer in part
            ],
        }
        for number, part in enumerate(cut)
    ]


def _cut(writers: Sequence[Writer]) -> Iterator[list[Writer]]:
    part: list[Writer] = []
    size = 0
    for writer in writers:
        takes = 64 + sum(len(text.encode()) for text in (writer.name, writer.uuid, writer.text))
        if part and (len(part) == _PART_WRITERS or size + takes > _PART_BYTES):
            yield part
            part, size = [], 0
        part.append(writer)
        size += takes
    if part:
        yield part
