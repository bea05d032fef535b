"""What a system other than Linux lacks, taken away from this interpreter; a script starts with `other_systems.pretend(system)`."""

from __future__ import annotations

import asyncio
import builtins
import concurrent.futures.process
import importlib
import multiprocessing.util
import os
import signal
import socket
import subprocess
import sys
import tempfile

# Loaded before something is taken away: they ask for the real system.
_LOADED = (
    asyncio,
    builtins,
    concurrent.futures.process,
    multiprocessing.util,
    subprocess,
    tempfile,
)
_PACKAGES = ("click", "h5py", "matplotlib.pyplot", "numpy", "pandas", "rich.console")

_MACOS = {
    os: "sched_getaffinity sched_setaffinity pipe2 memfd_create eventfd O_PATH O_TMPFILE "
    "posix_fallocate pidfd_open",
}
_WINDOWS = {
    os: f"{_MACOS[os]} getuid geteuid getgid getegid fork register_at_fork statvfs uname killpg setsid getpgid getloadavg mkfifo "
    "pread pwrite preadv pwritev fchmod fchown chown nice sysconf WNOHANG O_CLOEXEC O_DIRECTORY O_NONBLOCK O_NOFOLLOW O_SYNC O_DSYNC",
    signal: "SIGHUP SIGKILL SIGUSR1 SIGUSR2 SIGPIPE SIGALRM SIGCHLD SIGQUIT SIGSTOP SIGCONT pthread_sigmask setitimer",
    socket: "AF_UNIX",
}
_NOT_ON_WINDOWS = ("fcntl", "grp", "pwd", "resource", "syslog", "termios")


def pretend(system: str) -> None:
    """Take away what `system`, ``"macos"`` or ``"windows"``, does not have."""
    for name in _PACKAGES:
        importlib.import_module(name)
    for module, names in (_WINDOWS if system == "windows" else _MACOS).items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    if system == "windows":
        sys.modules.update(dict.fromkeys(_NOT_ON_WINDOWS))  # None: importing it fails
