"""The tables of a run for inspection, such as `run.chunks`, and its plots."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from .plots import Plots


class Views:
    """Tables by name; times are tz-aware timestamps, names and labels categories, units in ``attrs``. Part of `RunFile`."""

    live: bool

    def frame(self, name: str) -> pd.DataFrame:
        """A table for inspection."""
        raise NotImplementedError

    @property
    def chunks(self) -> pd.DataFrame:
        """One row per attempt at a chunk, retries too."""
        return self.frame("chunks")

    @property
    def tasks(self) -> pd.DataFrame:
        """One row per interval that a task took on a thread: ``task_events``."""
        return self.frame("task_events")

    @property
    def workers(self) -> pd.DataFrame:
        """One row per worker process; of a sealed file with its share of the work: ``summary/per_worker``."""
        workers = self.frame("dict/worker")
        if self.live:
            return workers
        done = self.frame("summary/per_worker").drop(columns="worker")
        joined = workers.merge(done, left_on="id", right_on="worker_id", how="left", validate="1:1")
        joined.attrs["units"] = {**done.attrs["units"], **workers.attrs["units"]}
        joined.attrs["description"] = "one row per worker process"
        return joined

    @property
    def samples(self) -> pd.DataFrame:
        """State of each worker about once a second: ``worker_samples``."""
        return self.frame("worker_samples")

    @property
    def activities(self) -> pd.DataFrame:
        """Steps of Dask's fine metrics."""
        return self.frame("activities")

    @property
    def sections(self) -> pd.DataFrame:
        """One row per entry of a user's section."""
        return self.frame("sections")

    @property
    def custom(self) -> pd.DataFrame:
        """The user's own metrics, and coffea's report."""
        return self.frame("custom")

    @property
    def membership(self) -> pd.DataFrame:
        """When workers joined and left."""
        return self.frame("membership")

    @property
    def gaps(self) -> pd.DataFrame:
        """Which records are missing, from when to when, and why."""
        return self.frame("gaps")

    @property
    def files(self) -> pd.DataFrame:
        """Input files: ``dict/file``."""
        return self.frame("dict/file")

    @property
    def metrics(self) -> pd.DataFrame:
        """Metrics of the whole run by name: value, bounds, unit, status; of a sealed file."""
        return self.frame("summary/workflow").set_index("name")

    @property
    def waterfall(self) -> pd.DataFrame:
        """Where the thread-seconds went, by category; of a sealed file."""
        return self.frame("summary/waterfall").set_index("category")

    @property
    def bottlenecks(self) -> pd.DataFrame:
        """The causes that hold the run back, most expensive first; of a sealed file."""
        return self.frame("summary/bottlenecks").sort_values("rank").set_index("rank")

    @property
    def plot(self) -> Plots:
        """The plots: ``run.plot.waterfall()``, and ``dir(run.plot)`` for the others."""
        from .plots import Plots

        return Plots(self)
