"""What recording needs of the system beside Python: None on Windows, where run files are read and nothing is recorded."""

from __future__ import annotations

import os
import pathlib
import select
import stat
from collections.abc import Callable

try:
    import fcntl
    import resource
except ImportError:
    fcntl = resource = None  # type: ignore[assignment]

__all__ = [
    "fcntl",
    "in_each_child",
    "is_readable",
    "keep_usable",
    "local_path",
    "make_dir",
    "open_file",
    "require",
    "resource",
]


def require() -> None:
    """Raise OSError where nothing can be recorded, whatever is installed."""
    if fcntl is None:
        raise OSError(
            "recording needs Linux (wheels for x86_64 and aarch64); on this system run files can only be read, plotted and reported"
        )


def is_readable(fd: int, timeout_s: float) -> bool:
    """Whether something, or the end, can be read in time. `select.select` could not ask for a number above 1023, which a process with many connections gives."""
    asked = select.poll()
    asked.register(fd)
    return bool(asked.poll(1e3 * timeout_s))


def in_each_child(call: Callable[[], None]) -> None:
    """Have `call` run in every process that is forked from this one."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=call)


def keep_usable(fd: int) -> None:
    """Give this user back the rights to a file it has made, where the umask (0777, 0277) took them."""
    mode, rights = stat.S_IMODE(os.fstat(fd).st_mode), stat.S_IRUSR | stat.S_IWUSR
    if mode & rights != rights:
        os.fchmod(fd, mode | rights)


def make_dir(path: pathlib.Path, mode: int = 0o777) -> os.stat_result:
    """Make a directory, if it does not exist, and its parents, usable by this user whatever the umask is.

    A run that ends may remove an empty parent at any moment, so each step is tried again.
    """
    tries = 100
    while True:
        tries -= 1
        try:
            if not path.is_dir():
                path.mkdir(mode)
                path.chmod(stat.S_IMODE(path.stat().st_mode) | stat.S_IRWXU)
            return path.stat()
        except (FileNotFoundError, FileExistsError):
            if tries == 0:  # nothing can be made below /proc, or a file has this name
                raise
            make_dir(path.parent, mode | 0o055)


def open_file(path: pathlib.Path, flags: int) -> int:
    """Open a file of this user only; one that is made is usable whatever the umask is."""
    fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
    if flags & os.O_CREAT:
        keep_usable(fd)
    return fd


def local_path(path: str | os.PathLike) -> pathlib.Path:
    """A path as this process can use it: where its locale is ASCII, other characters stand for their bytes in UTF-8."""
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        path = os.fsdecode(os.fspath(path).encode("utf-8", "surrogateescape"))
    return pathlib.Path(path)
