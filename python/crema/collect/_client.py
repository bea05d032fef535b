"""A collector's connection to the aggregator: messages in the envelope of ``proto/wire/crema_wire.h``, with protobuf bodies.

libzmq ends a process that has no more descriptors or threads for it. So it runs in a program of its own
(``crema-aggregator --relay``), to which this process has one socket; the frames on it are those of ``aggregator/agg_relay.h``.
"""

from __future__ import annotations

import collections
import contextlib
import math
import os
import pathlib
import select
import socket
import struct
import subprocess
import time
import weakref
import zlib
from collections.abc import Iterable
from typing import Any

from .. import __version__
from ..hook import _columns
from ..hook._programs import program
from ..hook._records import MESSAGES
from ..hook._unix import in_each_child

# magic, version, type, flags, body_len, crc32, session
_HEADER = struct.Struct("<IBBHIIQ")
_CRC_OFFSET = 12  # the checksum covers everything but itself

_FRAME = struct.Struct("<Ic")  # length of the content, kind
_MESSAGE, _CONNECTED, _LOST, _ERROR = b"M", b"C", b"D", b"E"
_UNREAD_MAX = 1024  # messages that nobody has read; their sender repeats what matters
_AGAIN_S = 0.2  # between two starts of the program
_STUCK_S = 1.0  # a program that takes nothing for that long is stopped or overloaded
_END_S = 2.0

RUN_OPEN, RUN_END, RUN_QUERY, RUN_STATE, RUN_WRITERS = (
    _columns.MESSAGES[name]
    for name in ("RUN_OPEN", "RUN_END", "RUN_QUERY", "RUN_STATE", "RUN_WRITERS")
)
_BODIES = {
    RUN_OPEN: "RunOpen",
    RUN_END: "RunEnd",
    RUN_QUERY: "RunQuery",
    RUN_STATE: "RunState",
    RUN_WRITERS: "RunWriters",
}

_FENCE = _columns.MESSAGES["FENCE"]
# Texts for a FENCE to a collector, which has no session to lose.
_FENCES = {
    _columns.FENCE_REASONS["VERSION"]: "it speaks another version of the protocol",
    _columns.FENCE_REASONS["PRINCIPAL"]: "its key may not record runs there, or was revoked",
}

# Phases of a run, RunState.phase.
UNKNOWN, OPEN, BARRIER, VERDICT, SEALED, FAILED = (
    _columns.RUN_PHASES[name]
    for name in ("UNKNOWN", "OPEN", "BARRIER", "VERDICT", "SEALED", "FAILED")
)


class WireError(ValueError):
    """Bytes that are not a message of this protocol version."""


class OtherVersionError(WireError):
    """A message of another version of the protocol."""


def encode(kind: int, body: bytes) -> bytes:
    """Envelope and body of a message of type `kind`."""
    header = _HEADER.pack(_columns.WIRE_MAGIC, _columns.WIRE_VERSION, kind, 0, len(body), 0, 0)
    crc = _crc(header, body)
    return b"".join((header[:_CRC_OFFSET], struct.pack("<I", crc), header[_CRC_OFFSET + 4 :], body))


def decode(message: bytes) -> tuple[int, bytes]:
    """Type and body of a message.

    Raises
    ------
    WireError
        If magic, version, length or checksum are wrong.
    """
    if not _HEADER.size <= len(message) <= _columns.WIRE_MESSAGE_MAX:
        raise WireError(f"{len(message)} bytes are not a message")
    magic, version, kind, _, body_len, crc, *_ = _HEADER.unpack_from(message)
    header, body = message[: _HEADER.size], message[_HEADER.size :]
    if magic != _columns.WIRE_MAGIC:
        raise WireError("not a crema message")
    if version != _columns.WIRE_VERSION:
        raise OtherVersionError(
            f"it speaks version {version} of the protocol, this crema ({__version__}) version {_columns.WIRE_VERSION}"
        )
    if body_len != len(body) or crc != _crc(header, body):
        raise WireError("damaged message")
    return kind, body


def _crc(header: bytes, body: bytes) -> int:
    crc = zlib.crc32(header[:_CRC_OFFSET])
    crc = zlib.crc32(header[_CRC_OFFSET + 4 :], crc)
    return zlib.crc32(body, crc)


class AggregatorClient:
    """Exchanges messages with the aggregator about one run.

    Parameters
    ----------
    endpoint : str
        Where the aggregator listens, ``tcp://host:port``.
    keys : pathlib.Path or None
        Key directory with the client's pair and the server's public key; None for an unencrypted connection.

    Raises
    ------
    OSError
        If its program cannot be started, as without free descriptors.

    Notes
    -----
    Use it from one thread at a time. A message to an aggregator that is not connected is dropped:
    the sender repeats it.

    Attributes
    ----------
    fenced : str
        Why the aggregator refused this client, if that was its last message.
    failed : str
        Why there can be no connection, as without keys that can be used.
    connections : int
        How many connections were made so far.
    """

    fenced = failed = ""
    connections = 0

    def __init__(self, endpoint: str, keys: pathlib.Path | None) -> None:
        how = ["--insecure"] if keys is None else ["--keys", str(keys)]
        self._command = [program("crema-aggregator"), "--relay", endpoint, *how]
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen | None = None
        self._start()
        _links.add(self)

    # -------------------------------------------------------------- the program

    def _start(self) -> None:
        self._connected = False
        self._received, self._unsent = bytearray(), bytearray()
        self._unread: collections.deque[bytes] = collections.deque(maxlen=_UNREAD_MAX)
        self._started_at = time.monotonic()
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = subprocess.Popen(
                    self._command,
                    stdin=theirs,
                    stdout=theirs,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,  # Ctrl-C is for the analysis
                    env={k: v for k, v in os.environ.items() if not k.startswith("CREMA_")},
                )
        except BaseException:
            ours.close()
            raise
        self._socket = ours

    def _is_there(self) -> bool:
        """Whether the program runs; one that has ended is started again after a while, unless it gave a reason."""
        if self._socket is None and not self.failed:
            with contextlib.suppress(OSError):
                if time.monotonic() - self._started_at > _AGAIN_S:
                    self._start()
        return self._socket is not None

    def _end(self) -> None:
        """End the program: it ends with its standard input."""
        sock, self._socket, self._connected = self._socket, None, False
        process, self._process = self._process, None
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)  # also if a child of this process holds it
            sock.close()
        if process is not None:
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    # -------------------------------------------------------------- frames

    def _look(self, timeout_s: float) -> bool:
        """Take what arrives within a time; False if nothing did."""
        if not self._is_there():
            time.sleep(min(max(timeout_s, 0.0), _AGAIN_S))
            return False
        if not _is_ready(self._socket, select.POLLIN, timeout_s):
            return False
        try:
            got = self._socket.recv(1 << 18)
        except OSError:
            got = b""
        if not got:
            self._end()
            return False
        self._received += got
        at = 0
        while len(self._received) - at >= _FRAME.size:
            size, kind = _FRAME.unpack_from(self._received, at)
            end = at + _FRAME.size + size
            if len(self._received) < end:
                break
            self._take(kind, bytes(self._received[at + _FRAME.size : end]))
            at = end
        del self._received[:at]
        return True

    def _take(self, kind: bytes, content: bytes) -> None:
        if kind == _MESSAGE:
            self._unread.append(content)
        elif kind == _CONNECTED:
            self._connected = True
            self.connections += 1
        elif kind == _LOST:
            self._connected = False
        elif kind == _ERROR:
            self.failed = content.decode(errors="replace")

    def _receive(self, timeout_s: float) -> bytes | None:
        """The next message, if one arrives in time."""
        deadline = time.monotonic() + timeout_s
        while not self._unread:
            left = deadline - time.monotonic()
            if not self._look(max(left, 0.0)) and left <= 0:
                return None
        return self._unread.popleft()

    def _flush(self, wait_s: float) -> bool:
        """Hand the program what is for it; False if it did not take everything in time."""
        deadline = time.monotonic() + wait_s
        while self._unsent and self._socket is not None:
            try:
                done = self._socket.send(self._unsent, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
                del self._unsent[:done]
            except BlockingIOError:
                left = deadline - time.monotonic()
                if left <= 0 or not _is_ready(self._socket, select.POLLOUT, left):
                    return False
            except OSError:
                self._end()
        return self._socket is not None

    # -------------------------------------------------------------- messages

    def send(self, kind: int, wait_s: float = 0.0, **fields: Any) -> bool:
        """Send a message, as soon as there is a connection for it; False if there is none within `wait_s`."""
        message = encode(kind, MESSAGES[_BODIES[kind]](**fields).SerializeToString())
        deadline = time.monotonic() + wait_s
        while self._look(0.0):
            pass
        while not self._connected and not self.failed:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self._look(left)
        if not self._connected or not self._flush(0.0):
            return False
        self._unsent += _FRAME.pack(len(message), _MESSAGE) + message
        self._flush(_STUCK_S)
        return self._connected

    def wait(self, fd: int, timeout_s: float) -> bool:
        """Wait until `fd` is readable or something arrives; True if a connection was made."""
        before = self.connections
        if self._is_there():
            asked = select.poll()
            for one in (fd, self._socket.fileno()):
                asked.register(one, select.POLLIN)
            asked.poll(1e3 * timeout_s)
            self._look(0.0)
        else:
            asked = select.poll()
            asked.register(fd, select.POLLIN)
            asked.poll(1e3 * min(timeout_s, _AGAIN_S))
        return self.connections > before

    def states(self, run_id: bytes, timeout_s: float) -> Iterable[Any]:
        """RunState messages of `run_id` that arrive within `timeout_s`, as they come."""
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0:
            message = self._receive(left)
            if message is None:
                return
            try:
                kind, body = decode(message)
            except OtherVersionError as error:
                self.fenced = str(error)
                continue
            except WireError:
                continue  # not from our aggregator; the caller asks again
            if kind == _FENCE:
                self.fenced = _FENCES.get(MESSAGES["Fence"].FromString(body).reason, self.fenced)
            if kind != RUN_STATE:
                continue
            self.fenced = ""
            state = MESSAGES["RunState"].FromString(body)
            if state.run_id == run_id:
                yield state

    def forget_answers(self) -> None:
        """Drop what has arrived: answers to earlier questions, as of an aggregator that was restarted since."""
        while self._receive(0.0) is not None:
            pass

    def clock(self, run_id: bytes, tries: int = 3, wait_s: float = 0.2) -> tuple[int, int]:
        """How far this host's clock is ahead of the aggregator's, and the uncertainty, in ns; (0, 0) without an answer.

        The aggregator must know the run.
        """
        best = None
        for _ in range(tries):
            self.forget_answers()
            asked_ns = time.time_ns()
            if not self.send(RUN_QUERY, run_id=run_id):
                continue
            for state in self.states(run_id, wait_s):
                told_ns = time.time_ns()
                offset_ns = (asked_ns + told_ns) // 2 - state.t_now_ns
                bound_ns = (told_ns - asked_ns) // 2
                if state.t_now_ns and (best is None or bound_ns < best[1]):
                    best = offset_ns, bound_ns
                break
        return best or (0, 0)

    def close(self) -> None:
        """Drop the connection; may be called again."""
        self._started_at = math.inf  # never again
        self._end()


def _is_ready(sock: socket.socket, what: int, timeout_s: float) -> bool:
    asked = select.poll()
    asked.register(sock, what)
    return bool(asked.poll(1e3 * timeout_s))


_links: weakref.WeakSet[AggregatorClient] = weakref.WeakSet()  # of this process


def _after_fork_in_child() -> None:
    """A child may outlive this process, with which the program must end."""
    for link in list(_links):
        if link._socket is not None:
            link._socket.close()


in_each_child(_after_fork_in_child)
