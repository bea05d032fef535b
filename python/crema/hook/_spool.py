"""One stream of records in a spool directory: the only output of a worker's measurements.

A record is one frame (``proto/wire/crema_frame.h``), appended with a single ``write()`` to a file
that no other process writes. Once that call has returned, the record survives the death of every
process. The file's lock is held as long as the process lives, so an agent can distinguish a
finished stream from a live one. Nothing here waits or raises into the caller: records that cannot
be written are counted.
"""

from __future__ import annotations

import errno
import os
import pathlib
import struct
import threading
import time
import weakref
import zlib
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from . import _columns, _records, _secrets
from ._unix import fcntl, in_each_child, open_file

SEGMENT_BYTES = _columns.SPOOL_SEGMENT_BYTES
LIMIT_BYTES = 1 << 30
NAMES_BYTES = _columns.LIMITS["writer_names"]  # of all dictionaries of one stream, in this process
OVERFLOW = "__overflow__"
DROPPED_METRIC = "crema.dropped."  # prefix of the metrics that say why records were dropped

# Why records were dropped, as causes of /gaps; for all others the cause is unknown there.
DISK_FULL = "disk_full"
SPOOL_LIMIT = "spool_limit"

_MAGIC = _columns.FRAME_MAGIC
_HEAD = struct.Struct("<IIQqHH")
_CRC = struct.Struct("<I")
_HEADER_BYTES = _HEAD.size + _CRC.size
_LOOK_BYTES = 256 << 10  # written by this process between two checks of the directory's size
_LOOK_S = 1.0  # between two checks while the directory is full
_FIRST_BYTES = 16 << 10  # the same before the first check: many streams may open at once

_NAME_BYTES = (
    400  # of a name beside its text: a tuple, two strings, two numbers, a place in a dictionary
)
_INCREMENT = _records.CUSTOM.label("kind", "increment")

_writers: weakref.WeakSet[StreamWriter] = weakref.WeakSet()


class StreamWriter:
    """Appends the records of one stream. Safe to use from any thread; dead in a forked child.

    Parameters
    ----------
    directory : pathlib.Path
        Spool directory; must exist.
    stream_info : bytes
        Body of the first record.
    stream_id : bytes, optional
        16 random bytes; created here by default.
    limit_bytes : int
        Limit for the segments of all writers of this user in `directory` together. Above it new records are dropped.
    run_key : bytes
        For the hashes of what is cut from names of files; the same in all streams of a run.

    Raises
    ------
    OSError
        If the first segment cannot be created.

    Attributes
    ----------
    stream_id : bytes
        16 random bytes.
    seq : int
        Number of the last record.
    written_b : int
        Bytes of all records.
    cost_ns : int
        CPU time that recording into this stream has taken, on all threads; every recording thread adds to it.
    """

    def __init__(
        self,
        directory: pathlib.Path,
        stream_info: bytes,
        *,
        stream_id: bytes = b"",
        limit_bytes: int = LIMIT_BYTES,
        run_key: bytes = b"",
    ) -> None:
        self.directory = directory
        self._run_key = run_key
        self.stream_id = stream_id or os.urandom(16)
        self.seq = 0
        self.written_b = 0
        self.cost_ns = 0
        self._limit_bytes = limit_bytes
        self._lock = threading.RLock()
        self._names: dict[tuple, int] = {}
        self._name_counts: dict[int, int] = {}
        self._names_b = 0
        self._met: dict[str, int] = {}  # of crema's own metrics, since they were last written
        # Records dropped, by cause: one is added without a call, between which a signal handler might add another.
        self._dropped_for: defaultdict[str, int] = defaultdict(int)
        self._dropped_told: dict[str, int] = {}  # of them, written to /custom
        self._writes = True  # the last record could be written
        self._fd = -1
        self._size = 0  # of the newest segment, in bytes
        self._pending = 0  # bytes of a write in progress; not 0 on entry if a write was interrupted
        self._allowance = min(_FIRST_BYTES, limit_bytes >> 10)
        self._look_after = 0.0
        self._fd = self._make_segment(1)
        if not self.append(_records.STREAM, stream_info):
            os.close(self._fd)
            self._fd = -1
            raise OSError(f"no room for a stream in {directory}")
        _writers.add(self)

    @property
    def alive(self) -> bool:
        """Whether the stream still accepts records."""
        return self._fd >= 0

    @property
    def dropped(self) -> int:
        """Records that could not be written; `lose` counts them."""
        return sum(self._dropped_for.values())

    def append(self, kind: int, body: bytes) -> bool:
        """Append one record; False if it could not be written, which is counted."""
        if self._interrupted():
            return False
        with self._lock:
            return self._append(kind, body)

    def row(
        self, table: _records.Table, row: _records.Row, flags: int = 0, began_ns: int | None = None
    ) -> None:
        """Append one row of a table, and add to the cost what this thread has used since `began_ns`."""
        body = table.one(row, flags)
        if self._interrupted():
            return
        with self._lock:
            self._append(_records.BATCH, body)
            if began_ns is not None:
                self.cost_ns += time.thread_time_ns() - began_ns

    def spent(self, began_ns: int) -> None:
        """Add to the cost what this thread has used since ``time.thread_time_ns()`` was `began_ns`."""
        with self._lock:
            self.cost_ns += time.thread_time_ns() - began_ns

    def rows(self, table: _records.Table, rows: list, flags: int = 0) -> bool:
        """Append rows of one table, in as many records as their size requires; False if some could not be written."""
        if not rows:
            return True
        if len(rows) <= _records.ROWS_MAX:
            body = table.batch(rows, flags)
            if len(body) <= _records.BODY_BYTES_MAX or len(rows) == 1:
                return self.append(_records.BATCH, body)
        first = self.rows(table, rows[: len(rows) // 2], flags)
        return self.rows(table, rows[len(rows) // 2 :], flags) and first

    def name(self, kind: int, text: str, uuid: str = "", parent: int = 0, **fields: Any) -> int:
        """Number of a dictionary entry in this stream, written on first use.

        Above the limit for all names of a stream every new name is ``__overflow__``; an entry that
        could not be written is unknown and is tried again later.
        """
        key = (kind, text, uuid, parent)
        known = self._names.get(key)
        return known if known is not None else self._new_name(key, fields)

    def more(self, kind: int, text: str, uuid: str, parent: int, **fields: Any) -> None:
        """Add details to a name that was written before: the same entry under a new number, to which no row refers."""
        if self._interrupted():
            return
        with self._lock:
            if self._names_b < NAMES_BYTES:
                self._new_entry((kind, text, uuid, parent), fields)

    def met(self, metric: str) -> None:
        """Count one more of one of crema's own metrics, which is written with the next heartbeat."""
        with self._lock:
            self._met[metric] = self._met.get(metric, 0) + 1

    def limit_met(self, name: str) -> None:
        """Count that a limit of this process was met, by its name in /summary/limits."""
        self.met(_columns.LIMIT_METRIC + name)

    def lose(self, cause: str) -> None:
        """Count a record that could not be kept. `cause` is one of few: it names a metric in /custom."""
        self._dropped_for[cause] += 1

    def write_counts(self, last: bool = False) -> None:
        """Append what `met`, `limit_met` and `lose` have counted since the last time; what cannot be written waits for the next."""
        if self._fd < 0 or not (self._writes or last):  # each record that says so would be one more
            return
        with self._lock:
            counts, self._met = self._met, {}
            told, self._dropped_told = self._dropped_told, self._dropped_for.copy()
            for cause, times in self._dropped_told.items():
                if times > told.get(cause, 0):
                    name = DROPPED_METRIC + cause
                    counts[name] = counts.get(name, 0) + times - told.get(cause, 0)
        for name, times in counts.items():
            if not ((self._writes or last) and self.count(name, times)):
                last = False
                with self._lock:
                    self._met[name] = self._met.get(name, 0) + times

    def count(
        self,
        name: str,
        times: int = 1,
        *,
        about: Iterable[int] = (0,),
        worker_id: int = _records.UNKNOWN_ID,
    ) -> bool:
        """Append increments of one of crema's own metrics: one for each chunk or task, by hash, in `about`; 0 is none.

        False if some could not be written.
        """
        unit = self.name(_records.UNIT, "count")
        if unit == _records.UNKNOWN_ID:
            return False
        metric = self.name(_records.METRIC, name, parent=unit)
        if metric == _records.UNKNOWN_ID:
            return False
        common = {
            "t_ns": time.time_ns(),
            "value": float(times),
            "metric_id": metric,
            "unit_id": unit,
            "worker_id": worker_id,
            "kind": _INCREMENT,
        }
        rows = [_records.CUSTOM.row(chunk_id=each, **common) for each in about]
        return self.rows(_records.CUSTOM, rows)

    def close(self) -> None:
        """Write END and close. Later records are dropped. May be called again."""
        if self._lock._is_owned() or not self._lock.acquire(timeout=1.0):
            return
        try:
            if self._fd < 0:
                return
            causes = self._dropped_for.copy()
            end = _records.end(sum(causes.values()), causes[DISK_FULL], causes[SPOOL_LIMIT])
            if not self._append(_records.END, end, within_limit=False):
                self._dropped_for = causes  # END does not count as a lost record
            os.close(self._fd)
            self._fd = -1
        except OSError:
            self._fd = -1
        finally:
            self._lock.release()

    def _new_name(self, key: tuple, fields: dict[str, Any]) -> int:
        kind, text, uuid, parent = key
        if self._interrupted():
            return _records.UNKNOWN_ID
        with self._lock:
            known = self._names.get(key)
            if known is not None:
                return known
            if self._names_b >= NAMES_BYTES:
                key = (kind, OVERFLOW, "", 0)
                text, uuid, parent, fields = OVERFLOW, "", 0, {}
                known = self._names.get(key)
                if known is not None:
                    return known
            number = self._new_entry((kind, text, uuid, parent), fields)
            if number != _records.UNKNOWN_ID:
                self._names[key] = number
            return number

    def _new_entry(self, key: tuple, fields: dict[str, Any]) -> int:
        kind, text, uuid, parent = key
        number = self._name_counts.get(kind, 0)
        entry = {
            "kind": kind,
            "id": number,
            "text": _records.text(self._cleaned(kind, text)),
            "uuid": _records.text(uuid),
            "parent": max(parent, 0),
            "size_b": -1,
            "n_entries": -1,
            "memory_limit_b": -1,
            **fields,
        }
        if not self._append(_records.DICT, _records.dict_entries([entry])):
            return _records.UNKNOWN_ID
        self._names_b += len(text) + len(uuid) + _NAME_BYTES
        self._name_counts[kind] = number + 1
        return number

    def _cleaned(self, kind: int, text: str) -> str:
        if kind == _records.FILE:
            return _secrets.file_name(text, self._run_key)
        return _secrets.cleaned(text)

    def _interrupted(self) -> bool:
        """Whether the caller is a finalizer or a signal handler in the middle of this thread's own record; then its record is dropped."""
        if not self._lock._is_owned():
            return False
        self.lose("interrupted")
        return True

    def _append(self, kind: int, body: bytes, within_limit: bool = True) -> bool:
        size = _HEADER_BYTES + len(body)
        if self._pending:
            self._settle_interrupted()
        if self._fd < 0 or len(body) > _records.BODY_BYTES_MAX:
            self.lose("closed" if self._fd < 0 else "too_large")
            return False
        cause = DISK_FULL  # of a record that is only partly written
        try:
            self._allowance -= size
            if self._allowance < 0 and within_limit and not self._make_room(size):
                self.lose(SPOOL_LIMIT)
                self._writes = False
                return False
            if self._size + size > SEGMENT_BYTES and self._size:
                self._next_segment()
            head = _HEAD.pack(_MAGIC, len(body), self.seq + 1, time.monotonic_ns(), kind, 0)
            crc = zlib.crc32(body, zlib.crc32(head))
            self._pending = size
            written = os.write(self._fd, head + _CRC.pack(crc) + body)
        except OSError as error:
            written, cause = -1, _cause(error)
        self._writes = written == size
        if not self._writes:
            self._undo()
            self.lose(cause)
            return False
        self._size += size
        self.written_b += size
        self.seq += 1
        self._pending = 0
        return True

    def _undo(self) -> None:
        """Remove a record that was only partly written."""
        if not self._pending:
            return
        self._pending = 0
        try:
            os.ftruncate(self._fd, self._size)
        except OSError:
            # It cannot be removed: continue after it in a new file.
            try:
                self._next_segment()
            except OSError:
                os.close(self._fd)
                self._fd = -1

    def _settle_interrupted(self) -> None:
        """After an exception (KeyboardInterrupt) between a write and its bookkeeping: check what is in the file."""
        size, self._pending = self._pending, 0
        try:
            if os.fstat(self._fd).st_size == self._size + size:
                self._size += size
                self.seq += 1
            else:
                self._pending = size
                self._undo()
                self.lose("interrupted")
        except OSError:
            self._fd = -1

    def _make_room(self, size: int) -> bool:
        """Check whether the directory has room, and how much this process may write before the next check."""
        now = time.monotonic()
        if now < self._look_after:
            return False
        try:
            free = self._limit_bytes - held_bytes(self.directory, os.fstat(self._fd).st_uid) - size
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
                raise
            free = _FIRST_BYTES  # the segment that is open can be written
        if free < 0:
            self._look_after = now + _LOOK_S
            return False
        self._allowance = min(free, _LOOK_BYTES)
        return True

    def _next_segment(self) -> None:
        fd = self._make_segment(self.seq + 1)
        os.close(self._fd)
        self._fd = fd

    def _make_segment(self, first_seq: int) -> int:
        """Create, lock and rename: a visible segment is locked as long as its writer lives."""
        name = f"{self.stream_id.hex()}-{first_seq:016x}"
        hidden = self.directory / f".new-sp-{name}"
        fd = open_file(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            hidden.rename(self.directory / f"sp-{name}")
        except OSError:
            os.close(fd)
            hidden.unlink(missing_ok=True)
            raise
        self._size = 0
        return fd

    def _abandon(self) -> None:
        """In a forked child: the stream belongs to the parent, whose lock must not stay held here."""
        self._lock = threading.RLock()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _cause(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return DISK_FULL
    return errno.errorcode.get(error.errno or 0, "OSError")


def held_bytes(directory: pathlib.Path, owner: int) -> int:
    """Bytes of one user's segments in a spool directory, which others may share."""
    total = 0
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.startswith("sp-"):
                try:
                    stat = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                total += stat.st_size if stat.st_uid == owner else 0
    return total


def stream_info(segment: pathlib.Path) -> Any:
    """The StreamInfo at the start of a stream's first segment; None if it is missing or damaged."""
    try:
        with segment.open("rb") as file:
            head = file.read(_HEADER_BYTES)
            if len(head) < _HEADER_BYTES:
                return None
            magic, size, seq, _, kind, _ = _HEAD.unpack_from(head)
            if (magic, seq, kind) != (_MAGIC, 1, _records.STREAM) or size > _records.BODY_BYTES_MAX:
                return None
            body = file.read(size)
    except OSError:
        return None
    (crc,) = _CRC.unpack_from(head, _HEAD.size)
    if len(body) < size or crc != zlib.crc32(body, zlib.crc32(head[: _HEAD.size])):
        return None
    return _records.MESSAGES["StreamInfo"].FromString(body)


def only_its_agent_writes(directory: pathlib.Path) -> bool:
    """Whether every stream in a spool directory is its agent's; False if that is not certain."""
    infos = [stream_info(first) for first in directory.glob(f"sp-*-{1:016x}")]
    return all(info is not None and info.kind == _records.KIND_AGENT for info in infos)


def _after_fork_in_child() -> None:
    for writer in list(_writers):
        writer._abandon()
    _writers.clear()


in_each_child(_after_fork_in_child)
