"""Why a test is skipped: what this machine or environment lacks, in the words by which the end of a run groups the skipped tests."""

from __future__ import annotations

import os
import pathlib
import stat
import sys

NETWORK_FAULTS = "network faults (no CAP_NET_ADMIN)"
MOUNTS = "mounted file systems (no CAP_SYS_ADMIN)"
OTHER_USERS = "files of other users (not root)"
OPEN_CHECKOUT = "programs of other users (not root, or a checkout that others may not enter)"
OTHERS_PROCESSES = "processes of other users (no CAP_SYS_PTRACE)"
ORDINARY_USER = "files that refuse their reader (root may read and write anywhere)"
CONTAINER_ENGINE = "test cluster (no container engine)"
SLURM = "batch jobs (no Slurm)"
PYPI = "what PyPI has (no answer from it)"
APT = "programs from apt (no such package here)"
RSYNC = "copies by rsync (no rsync)"
ZSH = "completion in zsh (no zsh)"
VALGRIND = "memory by valgrind (no valgrind)"
OTHER_BUILD = "another build (no CREMA_OTHER_BIN)"
CPU_QUOTA = "a CPU quota (no control groups of version 1 that may be made)"
CORE_WAITS = "waiting for a core (the kernel does not count it)"
SAMPLES = "coffea's sample files (not fetched: ./dev setup)"
OTHER_VERSIONS = "older or newer Dask and coffea (those of the other environment)"
LOCKED_VERSIONS = "the versions of a lock file (not installed from one)"
DESCRIPTORS = "thousands of open files (ulimit -n)"
PRIVATE_MEMORY = "limits of memory (a sanitizer has its own)"
PY_SPY = "stacks by py-spy (no py-spy, or it may not look)"
TRACING = "counted instructions (processes cannot be traced)"
OPTIMISED = "budgets of instructions (they are for gcc, optimised, on x86-64)"
PARSL = "parsl (not in this environment)"
DASK_AWKWARD = "dask-awkward (not in this environment)"
DASK_DATAFRAME = "dask.dataframe (not in this environment)"
DASK_JOBQUEUE = "dask-jobqueue (not in this environment)"


def others_may_run_python() -> bool:
    """Whether this process may become another user who can start this very Python with what the tests need."""
    needed = pathlib.Path(__file__).resolve(), pathlib.Path(sys.prefix).resolve()
    return os.geteuid() == 0 and all(
        directory.stat().st_mode & stat.S_IXOTH for path in needed for directory in path.parents
    )


WORDS = {value for name, value in vars().copy().items() if name.isupper()}


def of(reason: str) -> str:
    """The words with which a reason begins; what follows a colon is a detail."""
    return next((words for words in WORDS if reason.startswith(words)), reason)
