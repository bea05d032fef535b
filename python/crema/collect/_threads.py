"""Blocking calls beside an event loop, with what they raise as their result; whether threads can be started and files opened."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Callable

from ..hook._unix import resource

# Threads for the analysis, the hook and the live view. Without them uproot waits without end for one that could not be started.
ROOM = 16
# Descriptors: for the analysis, which must be able to open what it could have opened without crema, and for the collector.
ROOM_FILES = 32 + 16


def outcome(call: Callable[[], None]) -> BaseException | None:
    """What a call raised, or None."""
    try:
        call()
    except BaseException as error:
        return error
    return None


async def in_thread(call: Callable[[], None]) -> BaseException | None:
    """The same for a blocking call while the event loop continues; a cancelled one is still awaited."""
    done = asyncio.ensure_future(asyncio.to_thread(outcome, call))
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError as error:
        await done
        return error


def must_start(n: int) -> None:
    """Start `n` threads, and let them end.

    Raises
    ------
    OSError
        If this process may not have as many more.
    """
    over = threading.Event()
    started: list[threading.Thread] = []
    try:
        for _ in range(n):
            thread = threading.Thread(target=over.wait, name="crema-trial", daemon=True)
            thread.start()
            started.append(thread)
    except RuntimeError as error:
        limits = "ulimit -u and -v, and the container's limit of processes"
        raise OSError(f"this process can start no more threads: see {limits}") from error
    finally:
        over.set()
        for thread in started:
            thread.join()


def must_open(n: int) -> None:
    """Open `n` files, and close them.

    Raises
    ------
    OSError
        If this process may not have as many more.
    """
    held: list[int] = []
    try:
        for _ in range(n):
            held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        limits = f"see ulimit -n, which is {resource.getrlimit(resource.RLIMIT_NOFILE)[0]} here"
        raise OSError(f"this process can open {len(held)} more files, not {n}: {limits}") from error
    finally:
        for fd in held:
            os.close(fd)
