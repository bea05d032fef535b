"""Checks everything that a run needs on this host and on the cluster of a client."""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ..hook import _unix
from . import _installed
from ._finding import Finding, Findings, problem

if TYPE_CHECKING:
    from distributed import Client


def doctor(
    client: Client | str | None = None,
    *,
    output: str | os.PathLike | None = None,
    keys: Iterable[str | os.PathLike] = (),
) -> Findings:
    """Check everything that a run needs, and look for leftovers of earlier runs. Nothing is changed.

    Parameters
    ----------
    client : distributed.Client or str, optional
        Client of a cluster to be checked too, or the address of its scheduler.
    output : path, optional
        Directory of the run files; ``CREMA_RUNS`` of the environment if not given, else the working directory.
    keys : iterable of path, optional
        Key directories in addition to the one named by ``CREMA_KEYS``.

    Returns
    -------
    Findings
        A list that prints one line each; ``problems`` are those that prevent recording or delivery.
    """
    return Findings(_look(client, output, keys))


def _look(
    client: Client | str | None,
    output: str | os.PathLike | None,
    keys: Iterable[str | os.PathLike],
) -> Iterator[Finding]:
    try:
        _unix.require()
    except OSError as error:
        yield problem("system", str(error), sys.platform, "nothing to do if you only read")
        return
    runs = pathlib.Path(output or os.environ.get("CREMA_RUNS") or ".").expanduser().absolute()
    yield from _installed.programs()
    yield from _installed.packages()
    try:
        from . import _places, _undelivered, _workers
    except ImportError as error:
        remedy = "pip install coffea-crema with all its dependencies, then run this again"
        yield problem("package", f"nothing else can be checked: {error}", error.name, remedy)
        return
    yield from _places.room(runs)
    yield from _places.spool()
    yield from _undelivered.undelivered()
    for directory in dict.fromkeys(filter(None, [os.environ.get("CREMA_KEYS"), *keys])):
        yield from _places.keys(pathlib.Path(directory))
    yield from _places.run_files(runs)
    yield from _workers.aggregator()
    if client is not None:
        yield from _workers.at(client) if isinstance(client, str) else _workers.examine(client)
