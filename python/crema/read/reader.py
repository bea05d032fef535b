"""Reading run files: tables as pandas DataFrames, names in place of numbers.

Everything here is a convenience over what h5py and pandas do alone: ``pd.read_hdf(path, "chunks")`` works too.
"""

from __future__ import annotations

import copy
import json
import os
import pathlib
import time
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from ..hook._printable import all_printable, printable
from ..hook._unix import local_path
from . import _notes, _values, again
from ._hdf5 import LIVE, RunFileError, open_h5
from .views import Views

if TYPE_CHECKING:
    import pandas as pd

    from .again import Chunk, Items
    from .html.notebook import Page

FORMAT = "crema.run"
MAJOR = 1  # of format_version; a greater one is refused, new tables and columns are not
TIMES = ("t_run_start_ns", "t_run_end_ns", "t_first_task_ns", "t_last_task_end_ns")  # attributes
UNKNOWN_ID = 0xFFFFFFFF
_ROWS_AT_ONCE = 1 << 18  # bounds the memory that a column of a large table takes while it is read
SILENT_S = 60.0  # a sink touches each live file about once a second


def open(path: str | os.PathLike) -> RunFile:  # reads well as crema.open
    """Open a run file, sealed or live.

    Parameters
    ----------
    path : path
        ``<run_id>.h5``, or ``<run_id>.live.h5`` while the run goes on.

    Returns
    -------
    RunFile
        Close it, or use it as a context manager.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    RunFileError
        If it is not a run file of crema.
    """
    return RunFile(path)


def silence(path: pathlib.Path) -> str:
    """End of a sentence about a live file that no sink writes any more; empty if one does."""
    silent_s = time.time() - path.stat().st_mtime
    if silent_s < SILENT_S:
        return ""
    run_id = path.name.removesuffix(LIVE)
    return (
        f"is of a run that no sink has written for {silent_s / 60:,.0f} minutes; where the sink kept its journal, "
        f"the run file can be made: crema-sink rebuild STORE/{run_id} --output {run_id}.h5"
    )


class RunFile(Views, Mapping[str, "pd.DataFrame"]):
    """A run file; a mapping from table names to DataFrames, which are read on demand.

    ``run["chunks"]`` is the table as it is in the file, with labels and names. ``run.chunks`` is for looking at: times are
    tz-aware timestamps, and the columns are called ``t_start`` in place of ``t_start_ns``; a sealed file's is read once.

    Parameters
    ----------
    path : path
        Of the file.

    Attributes
    ----------
    path : pathlib.Path
        Of the file.
    file : h5py.File
        For everything this class does not cover.
    live : bool
        True during the run: call `refresh` to see new rows.
    """

    def __init__(self, path: str | os.PathLike) -> None:
        self.path = local_path(path).expanduser()
        if self.path.is_dir():
            raise RunFileError(f"{self.path} is a directory: crema runs {self.path} lists its runs")
        if not self.path.exists():
            raise FileNotFoundError(f"there is no file {self.path}")
        if not self.path.is_file():  # opening a pipe would wait for a writer
            raise RunFileError(f"{self.path} is not a regular file")
        self.file = open_h5(self.path)
        try:
            self._check()
        except BaseException:
            self.file.close()
            raise
        self.live = _values.text(self.file.attrs.get("state", "")) == "live"
        self._names: dict[str, pd.CategoricalDtype | None] = {}
        self._codes: dict[str, np.ndarray] = {}
        self._frames: dict[str, pd.DataFrame] = {}
        self._keys: list[str] | None = None
        self._shown = False
        self._arrays: dict[str, dict[str, np.ndarray]] = {}

    def _check(self) -> None:
        found = _values.text(self.file.attrs.get("format", ""))
        if found != FORMAT:
            try:
                list(self.file.attrs)  # `get` takes what it cannot read for what is not there
            except RuntimeError as error:
                raise RunFileError(f"{self.path} is damaged: {error}") from error
            raise RunFileError(f"{self.path} is an HDF5 file, but not a run file of crema")
        version = _values.text(self.file.attrs.get("format_version", ""))
        if version.partition(".")[0] != str(MAJOR):
            raise RunFileError(f"{self.path} has format version {version}, this reads {MAJOR}.x")
        for name in (*TIMES, "loss_total"):
            if not isinstance(self.file.attrs.get(name, np.int64(0)), np.integer):
                raise RunFileError(
                    f"{self.path} is damaged: its attribute {name} is not an integer"
                )

    def as_shown(self) -> RunFile:
        """The same open file with texts for looking at: control characters, which a terminal would obey, are escapes."""
        if self._shown:
            return self
        shown = copy.copy(self)
        shown._names, shown._codes, shown._frames, shown._shown = {}, {}, {}, True
        return shown

    def as_asked(self, value: Any) -> Any:
        """A value from the file, as this object gives texts."""
        return all_printable(value) if self._shown else value

    def _decoded(self, values: np.ndarray) -> np.ndarray:
        texts = _values.decode(values)
        if self._shown:
            texts = np.array([printable(text) for text in texts.tolist()], dtype=object)
        return texts

    # -------------------------------------------------------------- about the run

    @property
    def attributes(self) -> dict[str, Any]:
        """Root attributes, as Python values."""
        return self.as_asked(self._attributes())

    def _attributes(self) -> dict[str, Any]:
        return {name: _values.plain(value) for name, value in self.file.attrs.items()}

    @property
    def run_id(self) -> str:
        """UUID of the run."""
        return self.as_asked(_values.text(self.file.attrs.get("run_id", "")))

    @property
    def verdict(self) -> str:
        """``COMPLETE``, ``PARTIAL``, or ``OPEN`` while the run goes on."""
        return self.as_asked(_values.text(self.file.attrs.get("verdict", "")))

    @property
    def state(self) -> str:
        """``live``, ``sealed``, or ``partial``: sealed, and something is missing."""
        if self.live:
            return "live"
        return "sealed" if self.verdict == "COMPLETE" else "partial"

    @property
    def reasons(self) -> list[Any]:
        """The reasons of the verdict: what is missing. Empty if it is COMPLETE."""
        return self._list("verdict_reasons")

    @property
    def notes(self) -> list[Any]:
        """Facts worth knowing although nothing is missing: those of the verdict, and what the collector noted."""
        noted = _notes.of_attributes(self._attributes())
        return self._list("verdict_notes") + self.as_asked(noted)

    def _list(self, attribute: str) -> list[Any]:
        try:
            found = json.loads(_values.text(self.file.attrs.get(attribute, "")) or "[]")
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, list):
            raise RunFileError(
                f"{self.path} is damaged: its attribute {attribute} is not a JSON list"
            )
        return self.as_asked(found)

    def summary(self) -> dict[str, float]:
        """Metrics of the whole run: name to value, in the units of ``summary/workflow``; {} in a live file."""
        if "summary/workflow" not in self.file:
            return {}
        rows = self.file["summary/workflow"].fields(["name", "value"])[:]
        return {_values.text(row["name"]): float(row["value"]) for row in rows}

    # -------------------------------------------------------------- tables

    def keys(self) -> list[str]:  # type: ignore[override]  # a list prints well
        """Names of the tables, such as ``chunks`` or ``summary/waterfall``."""
        if self._keys is None:
            found: list[str] = []

            def note(name: str, item: Any) -> None:
                if isinstance(item, h5py.Dataset) and item.dtype.names:
                    found.append(name)

            self.file.visititems(note)
            self._keys = found  # a live file has all its tables from the start
        return list(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str) or not name.strip("/"):
            return False
        item = self.file.get(name)
        return isinstance(item, h5py.Dataset) and bool(item.dtype.names)

    __eq__ = object.__eq__  # two open files are one only if they are the same object
    __hash__ = object.__hash__

    def __getitem__(self, name: str) -> pd.DataFrame:
        return self.table(name)

    def table(
        self,
        name: str,
        *,
        columns: list[str] | None = None,
        names: bool = True,
        times: bool = False,
    ) -> pd.DataFrame:
        """Read a table.

        Parameters
        ----------
        name : str
            One of `keys`.
        columns : list of str, optional
            Only these columns of the file.
        names : bool, optional
            Put ``worker`` beside ``worker_id``, and likewise for every id that a dictionary of the file explains.
        times : bool, optional
            Turn points in time (``t_*_ns``) into UTC timestamps; 0, which means unknown, into NaT.

        Returns
        -------
        pandas.DataFrame
            Enumerations and names as categories, strings as str, everything else as it is in the file; units are in
            ``df.attrs["units"]``, what a row is in ``df.attrs["description"]``.

        Raises
        ------
        KeyError
            If there is no such table, or column.
        """
        import pandas as pd

        dataset = self._dataset(name)
        chosen = list(columns) if columns is not None else list(dataset.dtype.names)
        for column in chosen:
            if column not in dataset.dtype.names:
                raise KeyError(f"table {name!r} has no column {column!r}")
        rows = dataset.fields(chosen)[:] if chosen else np.empty(len(dataset), dtype=[])
        data: dict[str, Any] = {}
        for column in chosen:
            data[column] = (
                self._decoded(rows[column])
                if dataset.dtype[column].kind == "S"
                else _values.column(rows[column], dataset.dtype[column])
            )
            stem = column.removesuffix("_id")
            if names and stem != column and stem not in dataset.dtype.names:
                explained = self._explain(stem, rows[column])
                if explained is not None:
                    data[stem] = explained
            if times and _values.is_time(column):
                stamps = pd.to_datetime(rows[column], utc=True)
                data[column] = stamps.where(rows[column] != 0)
        frame = pd.DataFrame(data)
        frame.attrs["units"] = self.units(name)
        frame.attrs["description"] = _values.text(dataset.attrs.get("description", ""))
        return frame

    def frame(self, name: str) -> pd.DataFrame:
        """A table to look at: points in time are tz-aware timestamps, and ``t_start_ns`` is called ``t_start``.

        Parameters
        ----------
        name : str
            One of `keys`.

        Returns
        -------
        pandas.DataFrame
            As `table`. Of a sealed file it is read once: a column that you add is there the next time too.
        """
        known = self._frames.get(name)
        if known is not None:
            return known
        frame = self.table(name, times=True)
        stamps = {c: c.removesuffix("_ns") for c in frame.columns if _values.is_time(c)}
        units = frame.attrs["units"]
        frame = frame.rename(columns=stamps)
        frame.attrs["units"] = {
            stamps.get(c, c): "UTC" if c in stamps else u for c, u in units.items()
        }
        if not self.live:
            self._frames[name] = frame
        return frame

    def rows(self, name: str) -> list[SimpleNamespace]:
        """Rows of a table as objects with a field per column, for programs without pandas.

        Strings are str, enumerations are their labels; there are no names beside ids.
        """
        dataset = self._dataset(name)
        table = dataset[:]
        columns = []
        for column in dataset.dtype.names:
            labels = h5py.check_enum_dtype(dataset.dtype[column])
            if labels:
                by_code = {code: label for label, code in labels.items()}
                columns.append([by_code.get(code, "?") for code in table[column].tolist()])
            elif dataset.dtype[column].kind == "S":
                columns.append(self._decoded(table[column]).tolist())
            else:
                columns.append(table[column].tolist())
        return [
            SimpleNamespace(**dict(zip(dataset.dtype.names, row, strict=True)))
            for row in zip(*columns, strict=True)
        ]

    def arrays(self, name: str, columns: list[str]) -> dict[str, np.ndarray]:
        """Columns of a table as numpy arrays: numbers as they are in the file; of a sealed file each is read once.

        Rows are compressed whole, so that one more column costs as much as all: a table of a sealed file that is asked for
        again is read to its last column then.

        Raises
        ------
        KeyError
            If there is no such table, or column.
        """
        dataset = self._dataset(name)
        known = {} if self.live else self._arrays.setdefault(name, {})
        missing = [column for column in columns if column not in known]
        for column in missing:
            if column not in dataset.dtype.names:
                raise KeyError(f"table {name!r} has no column {column!r}")
        if missing and known:
            missing = [column for column in dataset.dtype.names if column not in known]
        if missing:
            read = [np.empty(len(dataset), dataset.dtype[column]) for column in missing]
            for start in range(0, len(dataset), _ROWS_AT_ONCE):
                rows = dataset.fields(missing)[start : start + _ROWS_AT_ONCE]
                for column, values in zip(missing, read, strict=True):
                    values[start : start + len(rows)] = rows[column]
            known.update(zip(missing, read, strict=True))
        return {column: known[column] for column in columns}

    def labels(self, name: str, column: str) -> dict[str, int]:
        """Code of each label of an enumeration."""
        return h5py.check_enum_dtype(self._dataset(name).dtype[column]) or {}

    def names(self, dictionary: str) -> list[str]:
        """Names of a dictionary by id: ``names("worker")[worker_id]``."""
        dataset = self._dataset(f"dict/{dictionary}")
        field = "name" if "name" in dataset.dtype.names else "uuid"
        return self._decoded(dataset.fields(field)[:]).tolist()

    def units(self, name: str) -> dict[str, str]:
        """Unit of each column of a table."""
        dataset = self._dataset(name)
        units = dataset.attrs.get("column_units", [])
        return dict(zip(dataset.dtype.names, map(_values.text, units), strict=False))

    def _dataset(self, name: str) -> h5py.Dataset:
        item = self.file.get(name)
        if not isinstance(item, h5py.Dataset) or not item.dtype.names:
            if self.live and name.startswith("summary/"):
                raise KeyError(f"{self.path} has no {name} yet: wait until its run has ended")
            there = ", ".join(self.keys()) or "none"
            raise KeyError(f"{self.path} has no table {name!r}; there are {there}")
        return item

    def _explain(self, dictionary: str, ids: np.ndarray) -> pd.Categorical | None:
        """Names of ids, NaN where an id is unknown; None if there is no such dictionary."""
        import pandas as pd

        if dictionary not in self._names or self.live:
            if f"dict/{dictionary}" not in self.file:
                return None
            dataset = self.file[f"dict/{dictionary}"]
            field = "name" if "name" in dataset.dtype.names else "uuid"
            if field not in dataset.dtype.names:  # a tree, such as dict/stack
                return None
            names, self._codes[dictionary] = np.unique(
                self._decoded(dataset.fields(field)[:]), return_inverse=True
            )
            self._names[dictionary] = pd.CategoricalDtype(names)
        rows = self._codes[dictionary]
        codes = np.full(len(ids), -1, dtype=np.int64)
        valid = ids < len(rows)
        codes[valid] = rows[ids[valid]]
        return pd.Categorical.from_codes(codes, dtype=self._names[dictionary])

    # -------------------------------------------------------------- its input once more

    def failed_items(self, fileset: Mapping[str, Any] | None = None) -> Items:
        """What failed or is missing, as coffea's WorkItems: ``runner(run.failed_items(), processor_instance=...)`` does it again.

        Parameters
        ----------
        fileset : mapping, optional
            As the Runner got it. Needed where the name of a file was cut because it held a secret: it is found by its hash and
            UUID, and a line says so. With it, items have the metadata of their datasets.

        Returns
        -------
        Items
            A list: each chunk of which no attempt counts, and ranges of known files in which no chunk began. Its attribute
            ``fileset`` has the given files of which the run has no chunk.

        Raises
        ------
        ValueError
            If names are missing, or the run is in progress.
        """
        return again.failed_items(self, fileset)

    def chunk(self, i: int, fileset: Mapping[str, Any] | None = None) -> Chunk:
        """Row `i` of ``run["chunks"]`` as a chunk: ``run.chunk(i).events()`` opens exactly its range, ``.item`` is coffea's WorkItem.

        Parameters
        ----------
        i : int
            Row of the table.
        fileset : mapping, optional
            As of `failed_items`.

        Returns
        -------
        Chunk

        Raises
        ------
        IndexError
            If there is no such row.
        ValueError
            If its name is missing.
        """
        return again.chunk(self, i, fileset)

    # -------------------------------------------------------------- the rest

    def refresh(self) -> None:
        """Make rows visible that were written to a live file since it was opened."""
        if self.live:
            for name in self.keys():
                self.file[name].refresh()

    def close(self) -> None:
        """Close the file; may be called again."""
        self.file.close()

    def __enter__(self) -> RunFile:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def report(self, path: str | os.PathLike | None = None) -> Page:
        """Write the page of the run, by default beside its file; returns the path, which a notebook shows with the page and a link.

        Raises
        ------
        KeyError
            If the file has no summaries: it is live.
        OSError
            If the page cannot be written, or would replace a run file.
        """
        from .html import write_report
        from .html.notebook import Page

        return Page(write_report(self, path))

    def _ipython_key_completions_(self) -> list[str]:
        return self.keys() if self.file else []

    def _repr_html_(self) -> str:
        from .html import notebook

        shown = notebook.first_screen(self)
        return (
            notebook.as_text(repr(self)) if shown is None else shown + notebook.page_of(self.path)
        )

    def __repr__(self) -> str:
        if not self.file:
            return f"<crema run file {self.path}, closed>"
        n = len(self.file["chunks"])
        if self.live:
            what = silence(self.path) or "live: the run is in progress"
        else:
            what = f"sealed, {self.verdict}"
            n_reasons = len(self.reasons)
            what += f" ({n_reasons} reason{'s' * (n_reasons > 1)})" if n_reasons else ""
        return f"<crema run file {self.path}: {what}, {n:,} chunks, {len(self)} tables>"
