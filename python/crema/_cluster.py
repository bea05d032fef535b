"""What the collector asks of Dask: who is there, where they are, and that they carry the hooks."""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import __version__

if TYPE_CHECKING:
    from distributed import Client

CALL_S = 60.0  # how long Dask may take for one of these calls


class ClusterError(RuntimeError):
    """The cluster cannot be measured; the message says why and what would help."""


def bounded(call: Callable[[], Any], what: str, timeout_s: float = CALL_S) -> Any:
    """Result of a call of Dask's client, which has no limit of its own.

    Raises
    ------
    ClusterError
        If it takes longer; the call is left behind in its thread.
    """
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.extend((call(), None))
        except BaseException as error:
            outcome.extend((None, error))

    thread = threading.Thread(target=run, name=f"crema {what}", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if len(outcome) < 2:
        raise ClusterError(f"{what}: Dask did not answer within {timeout_s:g} s")
    result, error = outcome
    if error is not None:
        raise error
    return result


def check(client: Client) -> bool:
    """Make sure that every worker has this version of crema; False if the scheduler does not run code of clients.

    Raises
    ------
    ClusterError
        Naming the workers, or the scheduler, that lack it.
    """
    if not hasattr(client, "register_plugin"):
        raise ClusterError(f"client is a {type(client).__name__}, not a distributed.Client")
    if client.asynchronous:
        raise ClusterError("the client is asynchronous: a collector needs one that waits")
    probe = _make_probe()
    versions = bounded(
        lambda: client.run(probe, on_error="return"), "looking for crema on the workers"
    )
    _refuse_others("worker", versions)
    try:
        version = bounded(
            lambda: client.run_on_scheduler(probe), "looking for crema on the scheduler"
        )
    except ValueError:  # distributed.scheduler.pickle is off
        return False
    _refuse_others("scheduler", {client.scheduler.address: version})
    return True


def _make_probe() -> Callable[[], str | None]:
    # A function inside a function travels by value: one of this module could not even be unpickled without crema.
    def probe() -> str | None:
        try:
            import crema
        except ImportError:
            return None
        return crema.__version__

    return probe


def _refuse_others(role: str, versions: dict[str, Any]) -> None:
    wrong = {
        name: found
        for name, found in versions.items()
        if found != __version__ and not isinstance(found, OSError)  # it left meanwhile
    }
    if not wrong:
        return
    lines = []
    for name, found in sorted(wrong.items()):
        if isinstance(found, Exception):
            has = f"did not say: {found}"
        else:
            has = "no crema" if found is None else f"crema {found}"
        lines.append(f"  {role} {name}: {has}")
    raise ClusterError(
        f"crema {__version__} must be in the environment of every {role}, and is not:\n"
        + "\n".join(lines[:20])
        + (f"\n  and {len(lines) - 20} more" if len(lines) > 20 else "")
    )


def address_facing(client: Client) -> str:
    """Address of this machine that the cluster reaches it by: loopback if the scheduler is on loopback too.

    Raises
    ------
    ClusterError
        If the scheduler's address says nothing about the network, as behind a gateway.
    """
    from distributed.comm.addressing import parse_host_port

    scheme, _, rest = client.scheduler.address.partition("://")
    if scheme == "inproc":
        return "127.0.0.1"
    if scheme not in ("tcp", "tls", "ucx", "ws", "wss"):
        raise ClusterError(
            f"the scheduler at {client.scheduler.address} does not tell by which address the workers reach this machine: "
            "give it as MetricsCollector(host=...)"
        )
    host, port = parse_host_port(rest, 8786)
    try:
        family, _, _, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(target)  # sends nothing; chooses the route
            own = probe.getsockname()[0]
    except OSError as error:
        raise ClusterError(f"no route to the scheduler at {host}: {error}") from error
    if ipaddress.ip_address(own).is_loopback:
        return "127.0.0.1"
    return f"[{own}]" if ":" in own else own


def register(client: Client, hook: Any) -> None:
    """Give a plugin to all workers, now and later, or to the scheduler.

    Raises
    ------
    ClusterError
        If its set-up failed somewhere.
    """
    name = type(hook).__name__
    try:
        bounded(lambda: client.register_plugin(hook), f"registering {name}")
    except ClusterError:
        raise
    except Exception as error:
        raise ClusterError(f"{name} could not be set up: {error!r}") from error


def check_recording(client: Client, run_id: str) -> None:
    """Make sure that every worker has opened its stream.

    Raises
    ------
    ClusterError
        Naming those that have not: their spool directory cannot be written.
    """
    from .worker import status

    found = bounded(
        lambda: client.run(status, run_id, on_error="return"), "asking whether workers record"
    )
    silent = [
        name
        for name, state in sorted(found.items())
        if not state or not isinstance(state, (dict, OSError))  # OSError: it left meanwhile
    ]
    if silent:
        raise ClusterError(
            "these workers cannot write their records, their logs say why: "
            + ", ".join(silent[:20])
        )


def unregister_workers(client: Client, name: str) -> None:
    """Take the plugin back: each worker writes what it still holds. Workers that are gone are no error."""
    bounded(lambda: client.unregister_worker_plugin(name=name), "the last flush of the workers")


def unregister_scheduler(client: Client, name: str) -> None:
    """Take the scheduler's plugin back. Dask only lets go of it: its last records are written by a call before that."""
    from crema import scheduler

    run_id = name.removeprefix("crema-")
    bounded(
        lambda: client.run_on_scheduler(scheduler.close, run_id), "the last flush of the scheduler"
    )
    bounded(lambda: client.unregister_scheduler_plugin(name=name), "the flush of the scheduler")
