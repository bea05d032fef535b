"""What the kernel tells this process about its own threads: what they are blocked in, and since when they have had no core.

Nothing here releases the GIL: all reads of one look belong to the same moment. Whatever the kernel does not tell is None.
"""

from __future__ import annotations

import ctypes
import os
import platform
import socket
import struct
import sys
import threading
import time
from typing import Any

from ._unix import in_each_child

# Groups of system calls.
FUTEX, SLEEP, DESCRIPTOR, POLL, SELECT, EPOLL, WAIT, FILE_LOCK, PATH, MEMORY = range(10)

_X86_64 = {
    FUTEX: (202, 449, 455),
    SLEEP: (35, 230),
    DESCRIPTOR: (
        0, 1, 3, 17, 18, 19, 20, 40, 42, 43, 44, 45, 46, 47, 74, 75, 217, 275, 288, 295, 296,
    ),
    POLL: (7, 271),
    SELECT: (23, 270),
    EPOLL: (232, 281, 441),
    WAIT: (61, 247),
    FILE_LOCK: (72, 73),
    PATH: (2, 4, 6, 21, 59, 82, 83, 84, 87, 257, 262, 263, 316, 332),
    MEMORY: (9, 10, 11, 12, 25, 28),
}  # fmt: skip
_AARCH64 = {
    FUTEX: (98, 449, 455),
    SLEEP: (101, 115),
    DESCRIPTOR: (
        57, 61, 63, 64, 65, 66, 67, 68, 69, 70, 71, 76, 82, 83, 202, 203, 206, 207, 211, 212, 242,
    ),
    POLL: (73,),
    SELECT: (72,),
    EPOLL: (22, 441),
    WAIT: (95, 260),
    FILE_LOCK: (25, 32),
    PATH: (34, 35, 38, 48, 56, 79, 276, 291),
    MEMORY: (214, 215, 216, 222, 226, 233),
}  # fmt: skip
_CALLS = {
    number: group
    for group, numbers in {"x86_64": _X86_64, "aarch64": _AARCH64}.get(
        platform.machine(), {}
    ).items()
    for number in numbers
}
_GIL_BYTES = 64  # around the futex that a thread waits for; the GIL has two
_GIL_ROUNDS, _GIL_LOOKS = 6, 12  # of the attempt to find it
_STATE_BYTES = 160 << 10  # of the interpreter, at most
_POLLED_MAX = 16
_LINK_BYTES = 512
NOT_SEEN = object()  # in place of a stack


def _function(name: str, *arguments: type, result: type = ctypes.c_ssize_t) -> ctypes._CFuncPtr:
    function = getattr(ctypes.PyDLL(None), name)
    function.argtypes, function.restype = arguments, result
    return function


_int, _size, _pointer = ctypes.c_int, ctypes.c_size_t, ctypes.c_void_p
_pread = _function("pread", _int, _pointer, _size, ctypes.c_long)
_readlink = _function("readlink", ctypes.c_char_p, _pointer, _size)
_open = _function("open", ctypes.c_char_p, _int, result=_int)
_close = _function("close", _int, result=_int)
_usleep = _function("usleep", ctypes.c_uint, result=_int)
_getpeername = _function("getpeername", _int, _pointer, _pointer, result=_int)


def _address_of_state() -> int:
    try:
        return ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
    except (ValueError, AttributeError):
        return 0


_state = _address_of_state()


class _Buffer:
    def __init__(self, size: int) -> None:
        self.bytes = ctypes.create_string_buffer(size)
        self.address = ctypes.addressof(self.bytes)
        self.size = size


class File:
    """A file of /proc that stays open; for one thread at a time."""

    __slots__ = ("_buffer", "fd")

    def __init__(self, path: str, size: int = 256) -> None:
        self.fd = _open(path.encode(), os.O_RDONLY | os.O_CLOEXEC)
        if self.fd < 0:
            raise FileNotFoundError(path)
        self._buffer = _Buffer(size)

    def read(self, offset: int = 0) -> bytes:
        """What it contains now; empty if the thread has ended."""
        buffer = self._buffer
        n = _pread(self.fd, buffer.address, buffer.size, offset)
        return buffer.bytes.raw[:n] if n > 0 else b""

    def __del__(self) -> None:
        if self.fd >= 0:
            _close(self.fd)


def content(path: str, size: int = 4096) -> bytes:
    """What a small file contains; empty if it cannot be read."""
    try:
        return File(path, size).read()
    except OSError:
        return b""


class OwnWait:
    """How long the calling thread has been ready to run without a core."""

    def __init__(self) -> None:
        self._here = threading.local()
        in_each_child(self._forget)

    def _forget(self) -> None:
        self._here = threading.local()

    def ns(self) -> int:
        """Cumulative; -1 if the kernel does not report it."""
        try:
            return int(self._here.file.read().split()[1])
        except AttributeError:
            try:
                self._here.file = File("/proc/thread-self/schedstat", 64)
                return self.ns()
            except OSError:
                return -1
        except (IndexError, ValueError):
            return -1


class Thread:
    """Another thread of this process, to be looked at."""

    __slots__ = ("_clock", "_schedstat", "_syscall", "before", "native_id", "stack")

    def __init__(self, native_id: int) -> None:
        here = f"/proc/self/task/{native_id}/"
        self.native_id = native_id
        # Number of the last look, CPU time and waiting for a core then, what had passed since the look before, and the system call.
        self.before: tuple[int, tuple[int, int], tuple[int, int], list[bytes]] = (
            -1, (0, 0), (-1, -1), [],
        )  # fmt: skip
        self.stack: Any = NOT_SEEN  # at the last look
        self._clock = (~native_id << 3) | 6  # CLOCK of its CPU time
        self._schedstat = File(here + "schedstat", 64)
        try:
            self._syscall: File | None = File(here + "syscall")
        except FileNotFoundError:
            self._syscall = None

    def cpu_ns(self) -> int:
        """CPU time. Raises OSError if the thread has ended."""
        return time.clock_gettime_ns(self._clock)

    def wait_ns(self) -> int:
        """Waiting for a core. Raises IndexError or ValueError if the thread has ended."""
        return int(self._schedstat.read().split()[1])

    def call(self) -> list[bytes]:
        """System call and arguments; ``[b"running"]`` outside of one; empty if it is not known, or the thread has ended."""
        return [] if self._syscall is None else self._syscall.read().split()


def group_of(call: list[bytes]) -> int | None:
    """Group of a system call; None for others."""
    return _CALLS.get(int(call[0]))


def link(path: bytes, buffer: _Buffer | None = None) -> str:
    """Target of a symbolic link; empty if there is none."""
    buffer = buffer or _Buffer(_LINK_BYTES)
    n = _readlink(path, buffer.address, buffer.size)
    return buffer.bytes.raw[:n].decode("utf-8", "replace") if n > 0 else ""


def target(fd: int) -> str:
    """What a descriptor is open on: a path, ``socket:[...]``, ``pipe:[...]``; empty if it is closed."""
    return link(b"/proc/self/fd/%d" % fd)


def peer(fd: int) -> str:
    """Other end of a socket as host:port or unix:path; empty if it is not connected."""
    buffer = _Buffer(128)
    length = ctypes.c_uint32(128)
    if _getpeername(fd, buffer.address, ctypes.addressof(length)) != 0:
        return ""
    raw = buffer.bytes.raw[: length.value]
    family = struct.unpack_from("=H", raw)[0] if len(raw) >= 2 else 0
    if family == socket.AF_INET and len(raw) >= 8:
        return f"{socket.inet_ntop(family, raw[4:8])}:{int.from_bytes(raw[2:4], 'big')}"
    if family == socket.AF_INET6 and len(raw) >= 24:
        host = socket.inet_ntop(family, raw[8:24])
        host = host.removeprefix("::ffff:") if "." in host else f"[{host}]"
        return f"{host}:{int.from_bytes(raw[2:4], 'big')}"
    if family == socket.AF_UNIX:
        return "unix:" + raw[2:].rstrip(b"\0").decode("utf-8", "replace").replace("\0", "@")
    return ""


class Memory:
    """Memory of this process, read without touching it: what is gone is an error, not a crash."""

    def __init__(self) -> None:
        self._file = File("/proc/self/mem", 1024)

    def polled(self, address: int, n: int) -> list[int]:
        """Descriptors of ``poll(address, n)``."""
        raw = self._file.read(address)[: 8 * min(n, _POLLED_MAX)]
        return [fd for fd, _, _ in struct.iter_unpack("=iHH", raw[: len(raw) // 8 * 8]) if fd >= 0]

    def selected(self, n: int, *addresses: int) -> list[int]:
        """Descriptors of ``select(n, ...)``."""
        found = []
        for address in addresses:
            raw = self._file.read(address)[: (min(n, 1024) + 7) // 8] if address else b""
            found += [fd for fd in range(min(n, 8 * len(raw))) if raw[fd >> 3] >> (fd & 7) & 1]
        return found[:_POLLED_MAX]


def epolled(fd: int) -> list[int]:
    """Descriptors that an epoll descriptor watches."""
    lines = content(f"/proc/self/fdinfo/{fd}").split(b"\n")[:-1]  # what follows may be cut
    found = [int(line.split()[1]) for line in lines if line.startswith(b"tfd:")]
    return found[:_POLLED_MAX]


def find_gil() -> int:
    """Address of a futex of the GIL, found by a thread that wants it while the caller holds it; 0 if none was seen."""
    wanting: list[int] = []
    found = False

    def want() -> None:
        wanting.append(threading.get_native_id())
        until = time.monotonic() + 0.2
        while not found and time.monotonic() < until:
            pass

    try:
        threading.Thread(target=want, name="crema wants the GIL", daemon=True).start()
        for _ in range(_GIL_ROUNDS):
            time.sleep(0.001)  # it gets the GIL, and has to hand it over
            if not wanting:
                continue
            thread, before = Thread(wanting[0]), 0
            for _ in range(_GIL_LOOKS):
                keep_gil()
                call = thread.call()
                futex = len(call) > 1 and group_of(call) == FUTEX
                address = int(call[1], 16) if futex else 0
                if address and address == before:  # it stays there
                    return address
                before = address
        return 0
    except (OSError, ValueError, RuntimeError):  # the last one: no thread can be started
        return 0
    finally:
        found = True


def keep_gil() -> None:
    """Wait half a millisecond with the GIL."""
    _usleep(500)


def interpreters_futex(call: list[bytes]) -> int:
    """Address of the futex that a thread waits for, if it surely is in the interpreter's own state; else 0."""
    if _state == 0 or len(call) < 2 or group_of(call) != FUTEX:
        return 0
    address = int(call[1], 16)
    return address if is_of_interpreter(address) else 0


def is_of_interpreter(address: int) -> bool:
    """Whether it is in the interpreter's own state, where the GIL is; True if that is not known."""
    return _state == 0 or 0 <= address - _state < _STATE_BYTES


def is_gil(address: int, gil: int) -> bool:
    """Whether a futex is one of those of the GIL."""
    return abs(address - gil) <= _GIL_BYTES


def why_not() -> str:
    """Why threads cannot be looked at here; empty if they can."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return "free-threaded Python"
    try:
        own = Thread(threading.get_native_id())
        own.cpu_ns()
        own.wait_ns()
    except (OSError, ValueError, IndexError):
        return "the kernel does not report the times of threads"
    return ""
