"""What a run shows: a view while it goes on; then its verdict, its metrics, its run file."""

from __future__ import annotations

import contextlib
import os
import pathlib
import sys
import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rich.console import Console

from ..hook._printable import printable
from ..hook._secrets import cleaned
from ..hook._unix import local_path, make_dir
from ._progress import NoDisplay
from ._service import Service

if TYPE_CHECKING:
    from ..read.html.notebook import Page
    from ..read.live import Display


class CremaError(RuntimeError):
    """A run cannot be recorded, or one of its files is missing."""


class RunView:
    """What users look at; `MetricsCollector` documents the attributes."""

    run_id: str
    path: pathlib.Path | None
    verdict: str | None
    reasons: list[dict[str, Any]]
    _quiet: bool
    _how: str
    _on_error: str
    _entered: bool
    _recorder_pid: int
    _output: pathlib.Path
    _service: Service | None
    _displays: list[Display]

    def __repr__(self) -> str:
        where = f", {self.path}" if self.path else ""
        return f"<crema.MetricsCollector of run {self.run_id}: {self.verdict or 'no verdict yet'}{where}>"

    def _repr_html_(self) -> str:
        from ..read.html import notebook

        with contextlib.suppress(Exception):
            if self.path is not None and self.path.is_file():
                from ..read.reader import open as open_run

                with open_run(self.path) as run:
                    return run._repr_html_()
        missing = [f"  {reason['text']}" for reason in self.reasons]
        return notebook.as_text("\n".join([repr(self), *missing]))

    # -------------------------------------------------------------- during the run

    def live(self, n_events: int | None = None) -> Display | NoDisplay:
        """Show the run in this cell of a notebook, once a second, until the block ends.

        Parameters
        ----------
        n_events : int, optional
            Number of events of the whole input: enables an estimate of the remaining time.

        Returns
        -------
        Display or NoDisplay
            The latter, which shows nothing, if the run cannot be watched from here; a line gives the reason.

        Raises
        ------
        CremaError
            With ``on_error="raise"``: outside the block, without IPython, or if an operator's
            pipeline writes the file; `crema top` on the sink's host shows that run.
        """
        try:
            shown = self._watch(n_events)
        except Exception as error:
            if self._on_error == "raise":
                raise
            self._say(f"crema: mc.live() shows nothing: {str(error) or repr(error)}")
            return NoDisplay()
        self._displays.append(shown)
        return shown

    def _watch(self, n_events: int | None) -> Display:
        if self.path is not None:
            raise CremaError("the run is over: mc.report() or crema show")
        if self._service is None or not self._recorder_pid:
            raise CremaError(
                "the run is not recorded"
                if self._entered
                else "a run can only be watched inside the with block"
            )
        if not self._service.owned:
            raise CremaError("the sink writes elsewhere; watch with crema top on its host")
        try:
            from ..read.live import Display, Watch

            return Display(Watch(self._output / f"{self.run_id}.live.h5", n_events))
        except ImportError as error:
            raise CremaError(
                f"mc.live() is for notebooks: {error}; crema top is for terminals"
            ) from error

    def extract_metrics_from_output(self, output: Any) -> None:
        """Nothing needs to be extracted: chunks and sections are in the run file. Removes what roastcoffea's decorator has added."""
        if isinstance(output, dict):
            output.pop("__roastcoffea_metrics__", None)

    # -------------------------------------------------------------- after the run

    @property
    def metrics(self) -> dict[str, Any]:
        """Same as `get_metrics`."""
        return self.get_metrics()

    @property
    def span_metrics(self) -> dict[tuple[str, str, str, str], float]:
        """Dask's fine metrics of tasks: ``("execute", prefix, activity, unit)`` to its sum over all workers; empty without a run file."""
        from ..read import roastcoffea

        return self._read(roastcoffea.span_metrics, {})

    def get_metrics(self) -> dict[str, Any]:
        """Metrics of the whole run, name to value, in the units of ``summary/workflow``; roastcoffea's names too. Empty without a run file."""
        from ..read import roastcoffea

        return self._read(roastcoffea.metrics, {})

    def save_measurement(
        self, output_dir: str | os.PathLike, measurement_name: str | None = None
    ) -> pathlib.Path | None:
        """Write metrics and a copy of the run file to a new directory in roastcoffea's layout; returns the directory, as `report` its page."""
        from ..read import roastcoffea

        return self._use(
            lambda path: roastcoffea.save_measurement(path, output_dir, measurement_name), None
        )

    def print_summary(self) -> None:
        """Print the tables of the run file."""
        from ..read.report import print_report

        self._read(lambda run: print_report(run.path), None)

    def _read(self, read: Callable[[Any], Any], otherwise: Any) -> Any:
        """Result of `read` for the open run file."""
        from ..read.reader import open as open_run

        def of(path: pathlib.Path) -> Any:
            with open_run(path) as run:
                return read(run)

        return self._use(of, otherwise)

    def _use(self, use: Callable[[pathlib.Path], Any], otherwise: Any) -> Any:
        """Result of `use` for the path of the run file. If that fails a line says so: the script goes on, and keeps its output."""
        try:
            return use(self._file())
        except Exception as error:
            if self._on_error == "raise":
                raise
            self._say(f"crema: {error}")
            return otherwise

    def report(self, path: str | os.PathLike | None = None) -> Page | None:
        """Write the report of the run: one HTML page that opens offline. A notebook shows it, with a link.

        Parameters
        ----------
        path : path, optional
            Path of the page; beside the run file by default.

        Returns
        -------
        Page or None
            Path of the page, a `pathlib.Path`. None if there is no run file on this machine, or the page cannot be
            written: a line on standard error gives the reason.

        Raises
        ------
        CremaError, OSError, ImportError
            With ``on_error="raise"``, in place of that line.
        """

        def write(run_file: pathlib.Path) -> Page:
            from ..read.html import write_report
            from ..read.html.notebook import Page

            return Page(write_report(run_file, path))

        return self._use(write, None)

    def _file(self) -> pathlib.Path:
        if self.path is None or not self.path.is_file():
            raise CremaError(f"there is no run file of run {self.run_id} on this machine")
        return self.path

    def _print_result(self) -> None:
        """Print the result of the run."""
        if self.verdict == "UNKNOWN":
            for reason in self.reasons:
                self._say(f"crema: no verdict: {reason['text']}")
        elif self._quiet or self._how == "none":
            return
        elif self.path is None or not self.path.is_file():
            self._say(
                f"crema: verdict {self.verdict}; the run file is {self.path} on the sink's host"
            )
        else:
            try:
                self._show(self.path)
            except Exception as error:
                self._say(f"crema: {self.path} cannot be shown: {error}")

    def _show(self, path: pathlib.Path) -> None:
        from ..read import brief
        from ..read.reader import open as open_run
        from ..read.report import print_report

        if self._how == "full":
            print_report(path, console=Console(stderr=True))
            return
        with open_run(path) as run:
            console = Console(stderr=True)
            # A terminal wraps its lines; in a notebook rich shows them in an element that does not.
            console.print(brief.lines(run), soft_wrap=not console.is_jupyter)

    @staticmethod
    def _say(line: str) -> None:
        with contextlib.suppress(Exception):  # a closed standard error must not be an error
            if sys.stderr is not None:  # else it would be printed on standard output
                print(printable(cleaned("; ".join(line.splitlines()))), file=sys.stderr, flush=True)


def output_directory(output: str | os.PathLike) -> pathlib.Path:
    """Where run files go; a file's name would become a directory of that name, where no one looks for a file."""
    directory = local_path(output).expanduser()
    with contextlib.suppress(FileNotFoundError):  # the working directory is gone: entering says so
        directory = directory.absolute()
    if directory.suffix in (".h5", ".hdf5") and not directory.is_dir():
        raise ValueError(
            f"output is the directory of run files, which are named by their run_id, and {output} is "
            f"the name of a file: give {directory.parent}, and take the file's name from mc.path"
        )
    return directory


def must_be_writable(directory: pathlib.Path) -> None:
    """Check that a directory exists, or can be made, and that a file can be made in it.

    Raises
    ------
    CremaError
        If that fails: better now than at the end of the run.
    """
    try:
        make_dir(directory)
        with tempfile.NamedTemporaryFile(prefix=".crema-", dir=directory):
            pass
    except OSError as error:
        raise CremaError(f"run files cannot be written to {directory}: {error}") from error
