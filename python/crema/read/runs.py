"""All run files of a directory as one table: what each run was, and its headline numbers."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING

from ._errors import line
from ._named import directory_of_runs
from .reader import TIMES
from .reader import open as open_run

if TYPE_CHECKING:
    import pandas as pd

_LEAST = {"run_id": "", "run_label": "", "t_run_start_ns": 0}  # of a file that lacks them
_FIRST = ("file", "run_label", "state", "verdict", "t_run_start", "wall_time", "total_events")


def runs(directory: str | os.PathLike | None = None) -> pd.DataFrame:
    """Root attributes and headline numbers of all run files in a directory.

    Parameters
    ----------
    directory : path, optional
        Directory of the run files; by default ``CREMA_RUNS`` of the environment, or the working directory. Directories
        below it are not searched.

    Returns
    -------
    pandas.DataFrame
        One row per file, by start of the run. The index is ``run_id``; columns are ``file``, the root attributes (with
        ``t_run_start`` and the like as timestamps), and the metrics of ``summary/workflow``, NaN while a run is in progress.
        Units of the metrics are in ``df.attrs["units"]``, the directory in ``df.attrs["directory"]``.

    Raises
    ------
    FileNotFoundError
        If there is no such directory.

    Warns
    -----
    UserWarning
        For each ``.h5`` file that cannot be read as a run file; it is left out.
    """
    import pandas as pd

    where = directory_of_runs(directory)
    rows: list[dict] = []
    units: dict[str, str] = {}
    for path in sorted(where.glob("*.h5")):
        try:
            with open_run(path) as run:
                row = {**_LEAST, **run.attributes, "file": _shown(path.name)}
                if not run.live:
                    for metric in run.rows("summary/workflow"):
                        row[metric.name] = metric.value
                        units[metric.name] = metric.units
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            warnings.warn(f"left out: {line(error, [path])}", stacklevel=2)
            continue
        rows.append(row)
    frame = pd.DataFrame(rows, columns=None if rows else ["run_id", *_FIRST])
    for column in [c for c in TIMES if c in frame.columns]:
        stamps = pd.to_datetime(frame[column], utc=True).where(frame[column] != 0)
        frame[column.removesuffix("_ns")] = stamps
        frame = frame.drop(columns=column)
    first = [name for name in _FIRST if name in frame.columns]
    frame = frame[["run_id", *first, *(c for c in frame.columns if c not in {"run_id", *first})]]
    frame = frame.sort_values("t_run_start").set_index("run_id")
    frame.attrs.update(units=units, directory=str(where))
    return frame


def _shown(name: str) -> str:
    """The name of a file; bytes that are not UTF-8, which a column of text cannot hold, as escapes."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
