"""The root attributes of a run file that the client knows."""

from __future__ import annotations

import functools
import getpass
import importlib.metadata
import inspect
import json
import os
import pathlib
import platform
import shlex
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from .. import __version__
from ..hook import _columns
from ..hook._secrets import cleaned, cleaned_words
from ._patience import bounded

TEXT_BYTES_MAX = 4096  # of a value; a longer one is cut, with a mark

_PACKAGES = ("dask", "distributed", "coffea", "uproot", "awkward", "hist", "numpy")

# attribute -> environment variables that may hold it, the first one set wins
_ENVIRONMENT = {
    "facility": ("CREMA_FACILITY",),
    "site": ("CREMA_SITE", "GLIDEIN_CMSSite", "SITE_NAME"),
    "container_image": (
        "CREMA_CONTAINER_IMAGE",
        "APPTAINER_CONTAINER",
        "SINGULARITY_CONTAINER",
        "JUPYTER_IMAGE",
    ),
    "slurm_job_id": ("SLURM_JOB_ID",),
    "experiment_id": ("CREMA_EXPERIMENT_ID",),
    "scaling_series_id": ("CREMA_SCALING_SERIES_ID",),
}


def new_run_id() -> uuid.UUID:
    """A UUIDv7: its first 48 bits are the time in milliseconds, so that names sort by time."""
    random = int.from_bytes(os.urandom(10), "big")
    value = (time.time_ns() // 1_000_000) << 80 | random
    value = value & ~(0xF << 76) | 7 << 76
    value = value & ~(0x3 << 62) | 2 << 62
    return uuid.UUID(int=value)


def text(value: Any) -> str:
    """`value` as an attribute's text: a str unchanged, everything else as JSON if possible."""
    try:
        plain = value if isinstance(value, str) else json.dumps(value, default=str)
    except (TypeError, ValueError):  # keys that are not strings, or a value that contains itself
        plain = str(value)
    plain = plain.replace("\0", "\ufffd")
    raw = plain.encode("utf-8", "replace")
    if len(raw) > TEXT_BYTES_MAX:
        raw = raw[: TEXT_BYTES_MAX - 4].decode("utf-8", "ignore").encode() + b" ..."
    return raw.decode("utf-8")


def must_be_free(names: Iterable[str]) -> None:
    """Refuse names of attributes that only the sink writes.

    Raises
    ------
    ValueError
        Naming them.
    """
    taken = sorted(set(names).intersection(_columns.RESERVED_ATTRIBUTES))
    if taken:
        raise ValueError(
            f"attributes {', '.join(taken)}: only crema writes these into a run file; choose other names"
        )


def of_client(extra: Mapping[str, Any]) -> dict[str, str]:
    """Attributes of this process and its environment; `extra` comes from the caller and takes precedence."""
    found: dict[str, Any] = {
        "user": _user(),
        "host_client": socket.gethostname(),
        "cmdline": shlex.join([sys.executable, *cleaned_words(sys.argv)])
        if sys.argv
        else sys.executable,
        "python_version": platform.python_version(),
        "crema_version": __version__,
    }
    for name, variables in _ENVIRONMENT.items():
        found[name] = next((os.environ[v] for v in variables if os.environ.get(v)), "")
    for package in _PACKAGES:
        try:
            found[f"{package}_version"] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    found.update(extra)
    texts = {text(name): cleaned(text(value)) for name, value in found.items() if value is not None}
    return {name: value for name, value in texts.items() if value}


def of_cluster(client: Any) -> dict[str, Any]:
    """Facts about the cluster from Dask, as of now."""
    threads = list(bounded(client.nthreads, "asking for the workers' threads").values())
    return {
        "executor": "dask",
        "backend": type(client.cluster).__name__ if client.cluster is not None else "",
        "workers_at_start": len(threads),
        "threads_at_start": sum(threads),
        "cores_per_worker": threads[0] if len(set(threads)) == 1 else "",
    }


def processor_name(instance: Any) -> str:
    """Class of a processor, name of a function."""
    if instance is None:
        return ""
    if isinstance(instance, type):
        return instance.__name__
    own = getattr(instance, "__name__", None)
    return own if isinstance(own, str) else type(instance).__name__


def processor_prefixes(instance: Any) -> list[str]:
    """Prefixes that Dask gives to the tasks of a processor's chunks, or to those of a function.

    Notes
    -----
    coffea's DaskExecutor names the mapped function after the processor's type; `Client.map` makes the key from `funcname`
    of it, at most 50 characters, and `key_split` makes the prefix from the key. Without compression the tasks are called
    ``automatic_retries``, as those of the preprocessing are: there the hook distinguishes them task by task.
    """
    if instance is None:
        return []
    kind = instance if isinstance(instance, type) else type(instance)
    try:
        from dask.utils import funcname, key_split
    except ImportError:
        return [kind.__name__]  # without Dask there are no Dask tasks: only a name for the file

    class Named:
        """Stands for coffea's wrapper in `funcname`: no ``__name__``, only a text."""

        def __str__(self) -> str:
            return kind.__name__

    names = [funcname(Named())]
    if inspect.isroutine(instance) or isinstance(instance, functools.partial):
        names.insert(0, funcname(instance))  # tasks of Client.map or Client.submit, not of coffea
    return [key_split(f"{name}-{'0' * 32}") for name in names]


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a uid without a name
        return str(os.getuid())


def _source_directory(processor: Any) -> pathlib.Path | None:
    """Where the file is that defines a processor; None if it is in none, as in a notebook."""
    is_function = inspect.isroutine(processor) or isinstance(processor, type)
    try:
        path = inspect.getsourcefile(processor if is_function else type(processor))
    except (TypeError, OSError):
        path = None
    file = pathlib.Path(path or "")
    return file.resolve().parent if file.is_file() else None


class GitCommit:
    """``git describe`` of the processor's directory, or else the working directory: on a network file system it takes seconds, so it runs beside the analysis."""

    def __init__(self, processor: Any = None) -> None:
        command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--match="]
        try:
            self._process: subprocess.Popen | None = subprocess.Popen(
                command,
                cwd=_source_directory(processor),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=os.environ | {"GIT_OPTIONAL_LOCKS": "0"},  # it may be ended at any time
            )
        except OSError:
            self._process = None

    def get(self) -> str | None:
        """The commit, with ``-dirty`` if tracked files differ; empty without a repository; None if git is still looking, or has been asked before."""
        if self._process is None or self._process.poll() is None:
            return None
        said, _ = self._process.communicate()
        process, self._process = self._process, None
        return said.strip() if process.returncode == 0 else ""

    def close(self) -> None:
        """End git if it is still looking."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
