"""Keys on the client's side: where its own are, and the pair for the agents of one run."""

from __future__ import annotations

import dataclasses
import ipaddress
import os
import pathlib
import struct
from typing import Any

import zmq
import zmq.auth
import zmq.utils.z85

from ..hook._agent import write_keys
from ..hook._unix import make_dir


class KeysError(RuntimeError):
    """A key directory that cannot be used; the message says which, and why."""


def client_directory(directory: pathlib.Path) -> pathlib.Path:
    """The directory with the client's pair: this one, or ``client`` below it."""
    below = directory / "client"
    return below if (below / "client.key_secret").is_file() else directory


def server_key(directory: pathlib.Path) -> str:
    """The server's public key, in Z85, that a client's directory holds.

    Raises
    ------
    KeysError
        If it does not hold one, or no secret of a client.
    """
    directory = client_directory(directory)
    try:
        public, _ = zmq.auth.load_certificate(directory / "server.key")
        _, secret = zmq.auth.load_certificate(directory / "client.key_secret")
    except (OSError, ValueError) as error:
        raise KeysError(f"{directory} is not a client's key directory: {error}") from error
    if secret is None:
        raise KeysError(f"{directory / 'client.key_secret'} holds no secret key")
    return public.decode()


def public_key(text: Any) -> bytes:
    """The 32 bytes of a public key in Z85; empty if it is not one."""
    try:
        return zmq.utils.z85.decode(text.encode()) if len(text) == 40 else b""
    except (AttributeError, KeyError, TypeError, ValueError, struct.error):
        return b""


def may_go_in_the_clear(endpoint: str) -> bool:
    """Whether a connection without keys stays on this host, or was requested (``CREMA_INSECURE``)."""
    if os.environ.get("CREMA_INSECURE", "").lower() in ("1", "true", "yes", "on"):
        return True
    if endpoint.startswith(("ipc://", "inproc://")):
        return True
    host = endpoint.removeprefix("tcp://").rpartition(":")[0].strip("[]")
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclasses.dataclass(frozen=True)
class AgentKeys:
    """Key pair of the agent that a collector starts on its own machine; no secret is sent to a worker.

    Parameters
    ----------
    public : bytes
        Sent to the aggregator with RUN_OPEN: 32 bytes.
    files : dict
        Texts of the files of an agent's key directory, by name.
    """

    public: bytes
    files: dict[str, str]

    @classmethod
    def fresh(cls, server: str) -> AgentKeys:
        """A new pair, for the server with that public key."""
        pair = _pair()
        files = {**_pair_files("agent", *pair), "server.key": _certificate(server)}
        return cls(zmq.utils.z85.decode(pair[0]), files)


def make_for_run(directory: pathlib.Path) -> None:
    """Keys of a pipeline for one run: the server's, its aggregator's and its client's, as ``crema-aggregator --make-keys`` lays them out.

    That program also makes an agent's and a monitor's, and waits until all are on the disk; these end with the run.
    """
    pairs = {role: _pair() for role in ("server", "aggregator", "client")}
    admitted = {
        f"{role}.default.key": _certificate(pairs[role][0]) for role in ("aggregator", "client")
    }
    make_dir(directory, 0o700)
    server = {"server.key": _certificate(pairs["server"][0])}
    for role, pair in pairs.items():
        others = admitted if role == "server" else server
        write_keys(directory / role, _pair_files(role, *pair) | others)


def _pair() -> tuple[str, str]:
    """A new public and secret key, in Z85."""
    public, secret = zmq.curve_keypair()
    return public.decode(), secret.decode()


def _pair_files(role: str, public: str, secret: str) -> dict[str, str]:
    """Texts of the two files of a pair, by name."""
    return {
        f"{role}.key": _certificate(public),
        f"{role}.key_secret": _certificate(public, secret),
    }


def _certificate(public: str, secret: str = "") -> str:
    """A CZMQ certificate."""
    lines = ["metadata", "curve", f'    public-key = "{public}"']
    if secret:
        lines.append(f'    secret-key = "{secret}"')
    return "\n".join([*lines, ""])
