"""What of a run must be run again, and one of its chunks as its process() had it."""

from __future__ import annotations

import dataclasses
import importlib
import json
import re
import sys
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..hook._printable import printable
from ..hook._records import hash64, text
from ..hook._secrets import cleaned, file_name
from ._attempts import count, done_since

RunFile = Any  # the reader uses this module
Fileset = Mapping[str, Any]
_CUT = re.compile(r"~[0-9a-f]{16}$")  # in place of what was removed from a name
_63_BITS = (1 << 63) - 1
_USUAL_TREES = ("Events",)  # of files that do not name their trees
_NAMED = 3  # in a message


class Source(NamedTuple):
    """A tree of a file of a dataset, as coffea names it."""

    dataset: str
    filename: str
    uuid: str
    treename: str


@dataclasses.dataclass(frozen=True)
class Chunk:
    """A chunk of a run: a range of events."""

    source: Source
    entry_start: int
    entry_stop: int
    schema: str  # of the Runner; empty if unknown
    schema_module: str
    usermeta: dict | None = None  # of its dataset, if the fileset was given

    @property
    def item(self) -> Any:
        """It as coffea's WorkItem, for ``runner([chunk.item], processor_instance=...)``."""
        from coffea.processor.executor import WorkItem

        dataset, filename, known, treename = self.source
        raw = uuid.UUID(known).bytes if known else b""
        return WorkItem(
            dataset, filename, treename, self.entry_start, self.entry_stop, raw, self.usermeta
        )

    def events(self, schema: Any = None, **uproot_options: Any) -> Any:
        """Its events, as the Runner gave them to process().

        Parameters
        ----------
        schema : class, optional
            Schema of the events, by default that of the run's Runner. One that is not coffea's must have been imported.
        **uproot_options
            For ``uproot.open``.

        Returns
        -------
        awkward.Array
            NanoEvents of exactly this range; columns are read when they are used.

        Raises
        ------
        ValueError
            If the schema is not known.
        """
        import uproot
        from coffea.nanoevents import NanoEventsFactory

        item = self.item
        names = ("dataset", "filename", "treename", "entrystart", "entrystop")
        metadata = {name: getattr(item, name) for name in names} | {"fileuuid": self.source.uuid}
        return NanoEventsFactory.from_root(
            uproot.open({item.filename: None}, **uproot_options),
            treepath=item.treename,
            schemaclass=schema or self._schema(),
            metadata=metadata | (self.usermeta or {}),
            mode="virtual",
            entry_start=item.entrystart,
            entry_stop=item.entrystop,
        ).events()

    def _schema(self) -> Any:
        module = sys.modules.get(self.schema_module)
        if module is None and self.schema_module.partition(".")[0] == "coffea":
            module = importlib.import_module(self.schema_module)  # a file imports nothing else
        found = getattr(module, self.schema, None) if self.schema else None
        if found is None:
            name = ".".join(filter(None, (self.schema_module, self.schema))) or "of this run"
            raise ValueError(f"the schema {name} is not known here: import it, or give schema=")
        return found


class Items(list):
    """coffea's WorkItems of what to run again, for ``runner(items, processor_instance=...)``.

    Attributes
    ----------
    fileset : dict
        Files of the given fileset that have no chunk in the run. Their ranges are not known: give them to the Runner in another call.
    """

    fileset: dict[str, Any]

    def __repr__(self) -> str:
        n = sum(map(len, map(_files, self.fileset.values())))
        more = f", and {_counted(n, 'whole file')} in .fileset" if n else ""
        return f"<{_counted(len(self), 'work item')} to run again{more}>"


def failed_items(run: RunFile, fileset: Fileset | None = None) -> Items:
    """Documented at `RunFile.failed_items`."""
    if run.live:
        raise ValueError(f"{run.path} is of a run in progress: what is missing is known at its end")
    rows = _rows(run)
    good = count(run, rows["status"], rows["quality"])
    is_all = not run.attributes.get("maxchunks")  # else what has no chunk is left out on purpose
    entries = run.arrays("dict/file", ["n_entries"])["n_entries"] if is_all else np.empty(0)
    unsure = _of_unknown_length(entries, rows, good) if is_all else set()
    left_over = ~done_since(rows, good) & ~good
    again = {int(rows["chunk_id"][i]): int(i) for i in np.flatnonzero(left_over)[::-1]}
    sources = _Sources(run, rows, fileset)
    whole = unsure if fileset is not None else set()
    left: dict[str, Any] = {}
    chunks = [sources.chunk(i) for i in sorted(again.values()) if rows["file_id"][i] not in whole]
    if is_all:
        chunks += _never_begun(entries, rows, sources)
        left = sources.without_chunks(whole)
    sources.must_know_all()
    items = Items(chunk.item for chunk in chunks)
    items.fileset = left
    if run.verdict != "COMPLETE":
        _say(f"{run.path} is {run.verdict}: chunks whose records are missing are listed, too, though their output may be there")  # fmt: skip
    if unsure - whole:
        _say(
            f"only failed chunks are known of {_counted(len(unsure), 'file')}, not how many events "
            "there are: with fileset= these files are whole in .fileset"
        )
    return items


def chunk(run: RunFile, i: int, fileset: Fileset | None = None) -> Chunk:
    """Documented at `RunFile.chunk`."""
    rows = _rows(run)
    n = len(rows["chunk_id"])
    if not -n <= i < n:
        raise IndexError(f"{run.path} has {n:,} rows in chunks: there is no row {i:,}")
    sources = _Sources(run, rows, fileset)
    found = sources.chunk(i % n)
    sources.must_know_all()
    return found


def _rows(run: RunFile) -> dict[str, np.ndarray]:
    names = ["chunk_id", "dataset_id", "file_id", "entry_start", "entry_stop", "status", "quality"]
    return run.arrays("chunks", [*names, "t_end_ns"])


def _of_unknown_length(
    entries: np.ndarray, rows: dict[str, np.ndarray], good: np.ndarray
) -> set[int]:
    """Files that no attempt has read, so that nothing says whether they have more chunks than those that failed."""
    known = {*np.flatnonzero(entries > 0).tolist(), *rows["file_id"][good].tolist()}
    return {*rows["file_id"].tolist()} - known


def _counted(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' * (n != 1)}"


def _say(line: str) -> None:
    print(f"crema: {printable(line)}", file=sys.stderr)


def _never_begun(
    entries: np.ndarray, rows: dict[str, np.ndarray], sources: _Sources
) -> Iterator[Chunk]:
    """Ranges of known files in which no chunk ever began."""
    for file in np.unique(rows["file_id"]):
        of = np.flatnonzero(rows["file_id"] == file)
        start, stop = rows["entry_start"][of], rows["entry_stop"][of]
        size, at = int((stop - start).max()), 0
        n = int(entries[file]) if file < len(entries) else -1
        for begin, end in sorted({*zip(start.tolist(), stop.tolist(), strict=True), (n, n)}):
            for first in range(at, begin, max(size, 1)):
                known = sources.chunk(int(of[0]))
                last = min(first + size, begin)
                yield dataclasses.replace(known, entry_start=first, entry_stop=last)
            at = max(at, end)


class _Sources:
    """The sources of a run's chunks: names of the file, checked and, where they were cut, found in the fileset by the chunk's hash.

    The hash of a chunk is that of all its names, which are not kept where they hold a secret.
    """

    def __init__(self, run: RunFile, rows: dict[str, np.ndarray], fileset: Fileset | None) -> None:
        self._rows, self._fileset = rows, fileset
        attributes = run.attributes
        self._settings = (attributes.get("schema", ""), attributes.get("schema_module", ""))
        self._datasets, self._files = run.names("dataset"), run.names("file")
        self._uuids = [row.decode() for row in run.arrays("dict/file", ["uuid"])["uuid"].tolist()]
        self._trees = [*_listed(attributes.get("treenames")), *_USUAL_TREES]
        self._known: dict[int, Source] = {}  # by hash
        self._unknown: set[str] = set()  # names of files
        self._given: dict[tuple[str, str], list[tuple[str, str, Any]]] = {}
        self._from_fileset: set[str] = set()
        for dataset, files in (fileset or {}).items():
            for name, tree in _files(files).items():
                key = (text(cleaned(dataset)), _without_cut(text(file_name(name, b""))))
                self._given.setdefault(key, []).append((dataset, name, tree))

    def chunk(self, i: int) -> Chunk:
        rows = self._rows
        start, stop = int(rows["entry_start"][i]), int(rows["entry_stop"][i])
        file, dataset = int(rows["file_id"][i]), int(rows["dataset_id"][i])
        names = [of[j] if j < len(of) else "" for of, j in ((self._datasets, dataset), (self._files, file), (self._uuids, file))]  # fmt: skip
        wanted = int(rows["chunk_id"][i]) ^ ((stop << 32 ^ start) & _63_BITS)
        source = self._known.get(wanted) or self._find(wanted, *names)
        self._known[wanted] = source
        usermeta = (self._fileset or {}).get(source.dataset)
        usermeta = usermeta.get("metadata") if isinstance(usermeta, Mapping) else None
        return Chunk(source, start, stop, *self._settings, usermeta)

    def _find(self, wanted: int, dataset: str, file: str, known: str) -> Source:
        given = self._given.get((dataset, _without_cut(file)), [])
        for of, name, tree in [(dataset, file, None), *given]:
            for each in [tree] if tree else self._trees:
                source = Source(of, name, known, each)
                if hash64(*source) == wanted:
                    if name != file:
                        self._from_fileset.add(file)
                    return source
        self._unknown.add(file)
        return Source(dataset, file, known, "")

    def must_know_all(self) -> None:
        """Say which names the fileset gave.

        Raises
        ------
        ValueError
            If names are missing.
        """
        if self._unknown:
            n, some = len(self._unknown), ", ".join(sorted(self._unknown)[:_NAMED])
            of = "the name of a file" if n == 1 else f"names of {n} files"
            why = "or its tree is not in the run file"
            if any(map(_CUT.search, self._unknown)):
                why = "was cut, because it held a secret or was too long"
            if self._fileset is not None:
                why += ", and none in the fileset has the hash of the chunk"
            raise ValueError(f"{of} {why} ({some}): give fileset=, as the Runner got it")
        if self._from_fileset:
            some = ", ".join(sorted(self._from_fileset)[:_NAMED])
            n = _counted(len(self._from_fileset), "cut name")
            _say(f"taken from the fileset, by hash and UUID: {n} ({some})")

    def without_chunks(self, but: set[int]) -> dict[str, Any]:
        """The part of the fileset of which the run has no chunk; those of the files `but` do not count."""
        found: dict[str, Any] = {}
        if self._fileset is None:
            return found
        files, first = np.unique(self._rows["file_id"], return_index=True)
        seen = {
            self.chunk(i).source[:2]
            for file, i in zip(files.tolist(), first.tolist(), strict=True)
            if file not in but
        }
        for dataset, of in self._fileset.items():
            more = {k: v for k, v in of.items() if k != "files"} if isinstance(of, Mapping) else {}
            for name, tree in _files(of).items():
                if (dataset, name) not in seen:
                    found.setdefault(dataset, {**more, "files": {}})["files"][name] = tree
        for entry in found.values():
            if None in entry["files"].values():
                entry["files"] = list(entry["files"])
        return found


def _files(of: Any) -> dict[str, str | None]:
    """Files of a dataset of a fileset, each with its tree, None if it is that of the Runner's call."""
    tree = of.get("treename") if isinstance(of, Mapping) else None
    files = of["files"] if isinstance(of, Mapping) else of
    return {name: tree or (files[name] if isinstance(files, Mapping) else None) for name in files}


def _without_cut(name: str) -> str:
    return _CUT.sub("", name)


def _listed(names: Any) -> list[str]:
    try:
        return [str(name) for name in json.loads(names or "[]")]
    except (TypeError, ValueError):
        return []
