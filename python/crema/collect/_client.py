"""A collector's connection to the aggregator: one DEALER, the envelope of ``proto/wire/crema_wire.h``, protobuf bodies."""

from __future__ import annotations

import pathlib
import struct
import time
import zlib
from collections.abc import Iterable
from typing import Any

import zmq
import zmq.auth

from .. import __version__
from ..hook import _columns
from ..hook._records import MESSAGES
from ._threads import must_start

# magic, version, type, flags, body_len, crc32, session
_HEADER = struct.Struct("<IBBHIIQ")
_CRC_OFFSET = 12  # the checksum covers everything but itself

# Of a context: one for input and output, one that frees sockets; and one to spare, as others start threads too.
_ZMQ_THREADS = 3

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

    Notes
    -----
    Use it from one thread at a time. A message to an aggregator that is not connected is dropped:
    the sender repeats it.

    Attributes
    ----------
    fenced : str
        Why the aggregator refused this client, if that was its last message.
    """

    fenced = ""

    def __init__(self, endpoint: str, keys: pathlib.Path | None) -> None:
        must_start(_ZMQ_THREADS)
        self._context = zmq.Context()
        self._monitor: zmq.Socket | None = None
        self._socket = self._context.socket(zmq.DEALER)
        options = {
            zmq.LINGER: 0,
            zmq.IMMEDIATE: 1,
            zmq.MAXMSGSIZE: _columns.WIRE_MESSAGE_MAX,
            zmq.HEARTBEAT_IVL: 1000,
            zmq.HEARTBEAT_TIMEOUT: 3000,
            zmq.HEARTBEAT_TTL: 3000,
            zmq.HANDSHAKE_IVL: 3000,
            zmq.CONNECT_TIMEOUT: 3000,
            zmq.RECONNECT_IVL: 100,
            zmq.RECONNECT_IVL_MAX: 1000,
        }
        try:
            for option, value in options.items():
                self._socket.setsockopt(option, value)
            if keys is not None:
                public, secret = zmq.auth.load_certificate(keys / "client.key_secret")
                server, _ = zmq.auth.load_certificate(keys / "server.key")
                self._socket.curve_publickey = public
                self._socket.curve_secretkey = secret
                self._socket.curve_serverkey = server
            self._socket.connect(endpoint)
        except BaseException:
            self.close()
            raise

    def send(self, kind: int, wait_s: float = 0.0, **fields: Any) -> bool:
        """Send a message, as soon as there is a connection for it; False if there is none within `wait_s`."""
        body = MESSAGES[_BODIES[kind]](**fields).SerializeToString()
        if wait_s:
            self._socket.poll(wait_s * 1000, zmq.POLLOUT)
        try:
            self._socket.send(encode(kind, body), zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def wait(self, fd: int, timeout_s: float) -> bool:
        """Wait until `fd` is readable or a connection is made; True for a connection."""
        if self._monitor is None:
            events = zmq.EVENT_HANDSHAKE_SUCCEEDED
            self._monitor = self._socket.get_monitor_socket(events)
        poller = zmq.Poller()
        poller.register(fd, zmq.POLLIN)
        poller.register(self._monitor, zmq.POLLIN)
        poller.poll(timeout_s * 1000)
        made = False
        while self._monitor.poll(0):
            self._monitor.recv_multipart()
            made = True
        return made

    def states(self, run_id: bytes, timeout_s: float) -> Iterable[Any]:
        """RunState messages of `run_id` that arrive within `timeout_s`, as they come."""
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0:
            if not self._socket.poll(left * 1000):
                return
            try:
                kind, body = decode(self._socket.recv())
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

    def clock(self, run_id: bytes, tries: int = 3, wait_s: float = 0.2) -> tuple[int, int]:
        """How far this host's clock is ahead of the aggregator's, and the uncertainty, in ns; (0, 0) without an answer.

        The aggregator must know the run.
        """
        best = None
        for _ in range(tries):
            while self._socket.poll(0):  # answers to earlier questions
                self._socket.recv()
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
        if self._monitor is not None:
            self._socket.disable_monitor()
            self._monitor.close(linger=0)
            self._monitor = None
        self._socket.close(linger=0)
        self._context.term()
