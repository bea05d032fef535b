"""Bodies of spool records, as ``proto/crema.proto`` declares them.

The protobuf classes are created at import from the descriptor set that the build installs next to
the table of columns, so that any protobuf runtime works. Rows are given by column name; the wire
order is that of the generated table.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import operator
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from . import _columns
from ._programs import data_file
from ._secrets import cleaned

STREAM, DICT, BATCH, END = (_columns.RECORDS[n] for n in ("STREAM", "DICT", "BATCH", "END"))
KIND_WORKER = _columns.STREAM_KINDS["WORKER"]
KIND_AGENT = _columns.STREAM_KINDS["AGENT"]
KIND_SCHEDULER = _columns.STREAM_KINDS["SCHEDULER"]
KIND_CLIENT = _columns.STREAM_KINDS["CLIENT"]
BODY_BYTES_MAX = _columns.RECORD_BODY_MAX
ROWS_MAX = _columns.BATCH_ROWS_MAX
NAME_BYTES_MAX = _columns.NAME_MAX
PROVISIONAL = _columns.BATCH_PROVISIONAL
FINISHED = _columns.END_REASONS["FINISHED"]

# Dictionaries that the hooks write to.
(
    WORKER,
    TASK_PREFIX,
    ACTIVITY,
    UNIT,
    METRIC,
    SPAN,
    DATASET,
    FILE,
    SECTION,
    BRANCH,
    PLACE,
    FRAME,
    STACK,
) = (
    _columns.DICTS[n]
    for n in (
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
    )
)

UNKNOWN_ID = -1
UNKNOWN_U16 = 0xFFFF
NAN = float("nan")

_HASH = struct.Struct("<q")

Row = tuple[tuple[int, ...], tuple[float, ...]]


def _message_classes() -> dict[str, Any]:
    """Classes of the messages in the descriptor set, by name."""
    files = descriptor_pb2.FileDescriptorSet.FromString(data_file("crema.desc").read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.AddSerializedFile(file.SerializeToString())
    return {
        message.name: message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"{file.package}.{message.name}")
        )
        for file in files.file
        for message in file.message_type
    }


MESSAGES = _message_classes()
_Batch, _Dict, _End, _StreamInfo = (MESSAGES[n] for n in ("Batch", "Dict", "End", "StreamInfo"))


def _unknown(name: str, kind: str) -> int:
    """The value for "unknown" in an integer column."""
    if kind in ("enum", "u8"):
        return 0
    if kind == "u16":
        return UNKNOWN_U16
    return 0 if name.endswith(("_ns", "_key")) or name == "chunk_id" else -1


class Table:
    """A table of the run file, as seen by a writer."""

    def __init__(self, name: str, number: int, ints: Sequence, reals: Sequence[str]) -> None:
        self.name = name
        self.number = number
        self.ints = tuple(column for column, _, _ in ints)
        self.reals = tuple(reals)
        self._defaults: dict[str, float] = {c: _unknown(c, kind) for c, kind, _ in ints}
        self._defaults.update(dict.fromkeys(self.reals, NAN))
        self.labels = {c: labels.split(",") for c, _, labels in ints if labels}
        self._pick_ints = _picker(self.ints)
        self._pick_reals = _picker(self.reals)
        self._reals_head = _Batch(reals=[0] * len(reals)).SerializeToString()[: -8 * len(reals)]
        self._pack_one = {flags: self._one_row(flags) for flags in (0, PROVISIONAL)}

    def label(self, column: str, text: str) -> int:
        """Number of a label of an enum column."""
        return self.labels[column].index(text)

    def row(self, **values: float) -> Row:
        """A row in wire order; columns that are not given are unknown."""
        return self.pack({**self._defaults, **values})

    def blank(self) -> dict[str, float]:
        """A row of unknown values, to be filled in and packed."""
        return self._defaults.copy()

    def pack(self, values: Mapping[str, float]) -> Row:
        """A complete row in wire order."""
        if len(values) != len(self._defaults):
            raise KeyError(f"{self.name}: {sorted(values.keys() ^ self._defaults.keys())}")
        return self._pick_ints(values), self._pick_reals(values)

    def batch(self, rows: Sequence[Row], flags: int = 0) -> bytes:
        """Body of a BATCH record."""
        ints = itertools.chain.from_iterable(zip(*(r[0] for r in rows), strict=True))
        reals = itertools.chain.from_iterable(zip(*(r[1] for r in rows), strict=True))
        return _Batch(
            table=self.number, rows=len(rows), ints=ints, reals=reals, flags=flags
        ).SerializeToString()

    def one(self, row: Row, flags: int = 0) -> bytes:
        """Body of a BATCH record with one row: more bytes than from `batch`, in a quarter of the time."""
        ints, reals = row
        return self._pack_one[flags](*ints, self._reals_head, *reals)

    def _one_row(self, flags: int) -> Callable[..., bytes]:
        """Function that fills the numbers into a prepared message, in which each takes eight bytes."""
        n, m = len(self.ints), len(self.reals)
        head = _Batch(table=self.number, rows=1, flags=flags).SerializeToString()
        head += _Batch(fixed_ints=[0] * n).SerializeToString()[: -8 * n]
        layout = struct.Struct(f"<{len(head)}s{n}q{len(self._reals_head)}s{m}d")
        return functools.partial(layout.pack, head)


def _picker(names: Sequence[str]) -> Any:
    """Function from a mapping to the tuple of its values at `names`."""
    if not names:
        return lambda whole: ()
    if len(names) == 1:
        return lambda whole: (whole[names[0]],)
    return operator.itemgetter(*names)


TABLES = {name: Table(name, *declared) for name, declared in _columns.TABLES.items()}
CHUNKS = TABLES["chunks"]
ACTIVITIES = TABLES["activities"]
WORKER_SAMPLES = TABLES["worker_samples"]
MEMBERSHIP = TABLES["membership"]
HEARTBEATS = TABLES["heartbeats"]
TASK_EVENTS = TABLES["task_events"]
SECTIONS = TABLES["sections"]
CUSTOM = TABLES["custom"]
LOOKS = TABLES["looks"]

SIDE_UNATTRIBUTED = ACTIVITIES.label("side", "unattributed")
SIDE_PROCESSOR = ACTIVITIES.label("side", "processor")
SIDE_FOREIGN = ACTIVITIES.label("side", "foreign")

# Annotations of Dask tasks: the run whose block they were submitted in; client and number of the submission.
MARK_RUN, MARK_SUBMISSION = "crema_run", "crema_submission"


def stream_info(attributes: Mapping[str, str], **fields: Any) -> bytes:
    """Body of a STREAM record; `fields` are those of StreamInfo."""
    return _StreamInfo(
        attribute_keys=[text(k) for k in attributes],
        attribute_values=[text(cleaned(str(v))) for v in attributes.values()],
        **fields,
    ).SerializeToString()


def dict_entries(entries: Iterable[Mapping[str, Any]]) -> bytes:
    """Body of a DICT record; each entry holds fields of DictEntry."""
    return _Dict(entries=list(entries)).SerializeToString()


def end(dropped: int, disk_full: int = 0, spool_limit: int = 0) -> bytes:
    """Body of the END record that a writer writes itself: how many records it dropped, and of them for two causes."""
    return _End(
        reason=FINISHED,
        dropped=dropped,
        dropped_disk_full=disk_full,
        dropped_spool_limit=spool_limit,
    ).SerializeToString()


def text(value: object) -> str:
    """`value` as text that fits a dictionary and every reader.

    A text that is too long, or is not UTF-8, ends with a hash of the whole text, so that different names stay different.
    """
    whole = str(value).replace("\0", "\ufffd").encode("utf-8", "surrogatepass")
    raw = whole.decode("utf-8", "replace").encode()
    if raw == whole and len(raw) <= NAME_BYTES_MAX:
        return raw.decode("utf-8")
    digest = hashlib.blake2b(whole, digest_size=8).hexdigest()
    kept = raw[: NAME_BYTES_MAX - len(digest) - 1].decode("utf-8", "ignore")
    return f"{kept}~{digest}"


def hash64(*parts: object) -> int:
    """Signed 64 bits that identify `parts` in every process: blake2b over their texts, NUL between."""
    raw = "\0".join(map(str, parts)).encode("utf-8", "surrogatepass")
    return _HASH.unpack(hashlib.blake2b(raw, digest_size=8).digest())[0]
