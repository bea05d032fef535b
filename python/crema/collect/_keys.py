"""Keys on the client's side: where its own are, and the pair for the agents of one run."""

from __future__ import annotations

import functools
import ipaddress
import os
import pathlib
import re
import subprocess
from typing import Any

from ..hook._programs import program

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_ANSWER_S = 20.0


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
        public = _of_certificate(directory / "server.key", "public-key")
        secret = _of_certificate(directory / "client.key_secret", "secret-key")
    except (OSError, ValueError) as error:
        raise KeysError(f"{directory} is not a client's key directory: {error}") from error
    if not public:
        raise KeysError(f"{directory / 'server.key'} holds no public key")
    if not secret:
        raise KeysError(f"{directory / 'client.key_secret'} holds no secret key")
    return public


def _of_certificate(path: pathlib.Path, name: str) -> str:
    """A key of a CZMQ certificate, in Z85; empty if it has none."""
    found = re.search(rf'^\s*{name}\s*=\s*"(\S{{40}})"', path.read_text(), re.MULTILINE)
    return found[1] if found else ""


def public_key(text: Any) -> bytes:
    """The 32 bytes of a public key in Z85; empty if it is not one."""
    try:
        digits = [_Z85.index(char) for char in text]
        if len(digits) != 40:
            return b""
        fives = (digits[i : i + 5] for i in range(0, 40, 5))
        numbers = (functools.reduce(lambda n, digit: 85 * n + digit, five) for five in fives)
        return b"".join(number.to_bytes(4, "big") for number in numbers)
    except (TypeError, ValueError, OverflowError):
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


def make_for_run(directory: pathlib.Path) -> None:
    """Keys of a pipeline for one run: the server's, its aggregator's and its client's.

    Raises
    ------
    KeysError
        With the program's reason.
    OSError
        If it cannot be started.
    """
    _ask("crema-aggregator", "--make-run-keys", str(directory))


def make_for_agent(directory: pathlib.Path, server: str) -> bytes:
    """Key pair of the agent that a collector starts on its own machine, in ``keys`` below a directory; no secret is sent to a worker. Returns the public key.

    Raises
    ------
    KeysError, OSError
        As `make_for_run`.
    """
    where = ["--spool", str(directory), "--server-key", server]
    return public_key(_ask("crema-agent", *where, "--print-key").strip())


def _ask(name: str, *options: str) -> str:
    """What a program prints that answers and ends."""
    done = subprocess.run(
        [program(name), *options],
        capture_output=True,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        timeout=_ANSWER_S,
        env={k: v for k, v in os.environ.items() if not k.startswith("CREMA_")},
    )
    if done.returncode != 0:
        raise KeysError(done.stderr.strip() or f"{name} ended with status {done.returncode}")
    return done.stdout
