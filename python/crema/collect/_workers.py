"""Whether the processes of a cluster have crema, and whether its hosts can reach the address of a run's aggregator."""

from __future__ import annotations

import contextlib
import os
import pathlib
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from .. import __version__
from . import _client, _cluster
from ._finding import Finding, ok, problem, warning
from ._keys import KeysError, client_directory, may_go_in_the_clear, server_key
from ._reach import Reach, ReachError, host_and_port, of_this_host

if TYPE_CHECKING:
    from distributed import Client

DIAL_S = 1.0  # time an agent gives an address
ANSWER_S = 5.0  # of an aggregator
CONNECT_S = 10.0  # to a scheduler
_WITHOUT_PORT = ("inproc://", "ucx")  # addresses of which Dask may not know the port
_TOKEN_BYTES = 16
_ZMTP = b"\xff"  # first byte that a ZeroMQ socket sends


def examine(client: Client) -> Iterator[Finding]:
    """Findings about a cluster's scheduler and workers."""
    address = str(getattr(getattr(client, "scheduler", None), "address", "") or client)
    try:
        found = _cluster.installed(client)
    except Exception as error:
        remedy = "give a client, or an address, of a scheduler that answers"
        yield problem("cluster", f"it cannot be asked: {error}", address, remedy)
        return
    yield from _versions(found)
    if len(found) == 1:  # the scheduler
        remedy = "start one to see whether it can record"
        yield warning("cluster", "there are no workers", address, remedy)
        return
    try:
        yield from _reached(client, found[_cluster.SCHEDULER].lack != _cluster.NO_PLUGINS)
    except (OSError, ReachError, _cluster.ClusterError) as error:
        remedy = "see advertise= and port= of MetricsCollector, CREMA_ADVERTISE and CREMA_PORT"
        yield problem("reach", f"not known: {error}", address, remedy)


def at(address: str) -> Iterator[Finding]:
    """Findings about the cluster of a scheduler."""
    try:
        from distributed import Client
        from distributed.comm import get_address_host_port

        if not address.startswith(_WITHOUT_PORT):
            get_address_host_port(address)  # a client that fails at it waits when it is collected
        client = Client(address, timeout=CONNECT_S, set_as_default=False)
    except (ImportError, OSError, ValueError, TypeError) as error:
        remedy = "check that it runs and that the address is right, such as tcp://HOST:8786"
        yield problem("cluster", f"no scheduler answers: {error}", address, remedy)
        return
    with client:
        yield from examine(client)


def _versions(found: dict[str, _cluster.Installed]) -> Iterator[Finding]:
    """One finding per group of processes with the same installation."""
    alike: dict[_cluster.Installed, list[str]] = {}
    for name, what in found.items():
        alike.setdefault(what, []).append(name)
    for what, names in alike.items():
        where = _names(names)
        count = f"{len(names)} process{'es' * (len(names) != 1)}"
        if what.lack == _cluster.NO_PLUGINS:
            remedy = "start it without distributed.scheduler.pickle: false to record it too"
            yield warning("cluster", "the scheduler accepts no plugins", where, remedy)
        elif what.lack:
            remedy = f"install coffea-crema {__version__} in their environment"
            yield problem("cluster", f"{count} cannot record: {what.lack}", where, remedy)
        elif what.version != __version__:
            what_ = (
                f"crema {what.version} on {count}, {__version__} here: they speak the same protocol"
            )
            yield warning("cluster", what_, where, f"install coffea-crema {__version__} there")
        else:
            yield ok("cluster", f"crema {what.version} on {count}", where)


def _names(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _reached(client: Client, has_way: bool) -> Iterator[Finding]:
    """One finding for the hosts that reach an address, one for those that reach none."""
    configured = os.environ.get("CREMA_AGGREGATOR")
    with contextlib.ExitStack() as stack:
        if configured:
            endpoints, proof = configured.split(","), _ZMTP
        else:
            proof = secrets.token_bytes(_TOKEN_BYTES)
            endpoints = stack.enter_context(_listening(client, proof)).split(",")
        hosts = _a_worker_of_each_host(client)
        call = _dialling(endpoints, proof)
        answers = _cluster.bounded(
            lambda: client.run(call, workers=list(hosts), on_error="return"),
            "asking which addresses the workers reach",
        )
    by_address: dict[str, list[str]] = {}
    for worker, answer in sorted(answers.items()):
        reached = answer if isinstance(answer, str) else ""
        by_address.setdefault(reached, []).append(hosts.get(worker, worker))
    tried = ", ".join(endpoints)
    for reached, names in by_address.items():
        count = f"{len(names)} host{'s' * (len(names) != 1)}"
        if reached:
            yield ok("reach", f"{count} can connect to {reached}", _names(names))
        elif has_way and not configured:
            remedy = "nothing is lost; faster with an open port: CREMA_PORT, CREMA_ADVERTISE"
            what = f"{count} cannot connect to {tried}: their records travel over Dask"
            yield warning("reach", what, _names(names), remedy)
        else:
            remedy = "open that port to them, or give an address that they reach: "
            remedy += "CREMA_AGGREGATOR" if configured else "CREMA_PORT, CREMA_ADVERTISE"
            yield problem("reach", f"{count} cannot connect to {tried}", _names(names), remedy)


def _a_worker_of_each_host(client: Client) -> dict[str, str]:
    """Address of one worker per host, to the host's name: each host has one agent."""
    workers = _cluster.bounded(client.nthreads, "asking who is there")
    hosts = {(host_and_port(address) or (address,))[0]: address for address in sorted(workers)}
    return {address: host for host, address in hosts.items()}


@contextlib.contextmanager
def _listening(client: Client, token: bytes) -> Iterator[str]:
    """Listen where a run's aggregator would, send `token` to each connection; yields the endpoints that agents would try."""
    plan = Reach.of(None, None).plan(client)
    address, _, port = plan.bind().removeprefix("tcp://").rpartition(":")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address.strip("[]"), 0 if port == "*" else int(port)))
        listener.listen(1024)
        listener.settimeout(0.1)
        over = threading.Event()

        def greet() -> None:
            while not over.is_set():
                with contextlib.suppress(OSError):
                    connection, _ = listener.accept()
                    with connection:
                        connection.sendall(token)

        thread = threading.Thread(target=greet, name="crema doctor", daemon=True)
        thread.start()
        try:
            yield plan.endpoints(f"tcp://{address}:{listener.getsockname()[1]}")
        finally:
            over.set()
            thread.join()


def _dialling(endpoints: list[str], proof: bytes) -> Callable[[], Any]:
    """A function for ``client.run``: the first endpoint, in their order, that answers with `proof`; it is pickled by value."""
    limit_s = DIAL_S

    async def dial() -> str:
        import asyncio

        async def proves(endpoint: str) -> bool:
            host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
            try:
                reader, writer = await asyncio.wait_for(
                    asyncio.open_connection(host.strip("[]"), int(port)), limit_s
                )
            except (OSError, ValueError):
                return False
            try:
                return await asyncio.wait_for(reader.readexactly(len(proof)), limit_s) == proof
            except (OSError, EOFError):
                return False
            finally:
                writer.close()

        found = await asyncio.gather(*map(proves, endpoints))
        return next((e for e, is_it in zip(endpoints, found) if is_it), "")  # noqa: B905

    return dial


def aggregator() -> Iterator[Finding]:
    """Whether the aggregator that ``CREMA_AGGREGATOR`` names answers this client; nothing if the collector starts its own."""
    endpoint = os.environ.get("CREMA_AGGREGATOR", "")
    if not endpoint:
        return
    directory = os.environ.get("CREMA_KEYS")
    keys = client_directory(pathlib.Path(directory)) if directory else None
    if keys is None and not may_go_in_the_clear(endpoint):
        remedy = "set CREMA_KEYS, or CREMA_INSECURE=1 if that is intended"
        yield problem(
            "aggregator", "it is on another host, and there are no keys", endpoint, remedy
        )
        return
    try:
        if keys is not None:
            server_key(keys)
        link = _client.AggregatorClient(of_this_host(endpoint), keys)
    except (KeysError, OSError, ValueError) as error:
        remedy = "CREMA_AGGREGATOR is tcp://HOST:PORT, CREMA_KEYS a copy of keys/client"
        yield problem("aggregator", f"it cannot be asked: {error}", endpoint, remedy)
        return
    try:
        answered = _asked(link)
        if link.failed:
            remedy = "CREMA_AGGREGATOR is tcp://HOST:PORT, CREMA_KEYS a copy of keys/client"
            yield problem("aggregator", f"it cannot be asked: {link.failed}", endpoint, remedy)
        elif link.fenced:
            remedy = "ask the operator of the pipeline for another key, or install the pipeline's version"
            yield problem("aggregator", f"it refuses this client: {link.fenced}", endpoint, remedy)
        elif answered:
            yield ok("aggregator", "it answers", endpoint)
        else:
            remedy = (
                "check that it runs, the address, and that CREMA_KEYS is a copy of its keys/client"
            )
            what = f"no answer within {ANSWER_S:g} s"
            yield problem("aggregator", what, endpoint, remedy)
    finally:
        link.close()


def _asked(link: _client.AggregatorClient) -> bool:
    """Whether the aggregator answers a question about an unknown run."""
    nobodys = secrets.token_bytes(16)
    deadline = time.monotonic() + ANSWER_S
    while time.monotonic() < deadline and not (link.fenced or link.failed):
        if link.send(_client.RUN_QUERY, run_id=nobodys):
            if any(True for _ in link.states(nobodys, 1.0)):
                return True
        else:
            time.sleep(0.1)
    return False
