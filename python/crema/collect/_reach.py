"""The address at which a run's aggregator listens, and the addresses that its agents try, each verified by a handshake."""

from __future__ import annotations

import dataclasses
import ipaddress
import os
import re
import socket
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from distributed import Client

ADDRESSES_MAX = 8  # that an agent tries at once
LOOPBACK = "127.0.0.1"
_HERE = frozenset(("127.0.0.1", "localhost", "::1"))


class ReachError(ValueError):
    """``advertise=``, ``port=`` or one of their variables is not an address or port; the message names it."""


@dataclasses.dataclass(frozen=True)
class Reach:
    """The user's settings for how agents reach this machine; usually empty.

    Parameters
    ----------
    advertise : str
        Addresses or names of this machine, separated by commas, each with ``:port`` if that port is forwarded.
    ports : tuple of int
        First and last port that the aggregator may listen at; empty: any.
    """

    advertise: str = ""
    ports: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        advertise: str | None,
        port: int | str | tuple[int, int] | None,
        environ: Mapping[str, str] = os.environ,
    ) -> Reach:
        """Create it from the arguments, or from ``CREMA_ADVERTISE`` and ``CREMA_PORT``.

        Raises
        ------
        ReachError
            If one of them is invalid.
        """
        text = environ.get("CREMA_ADVERTISE", "") if advertise is None else advertise
        addresses = [part.strip() for part in text.split(",") if part.strip()]
        for address in addresses:
            if not re.fullmatch(r"([\w.-]+|\[[0-9A-Fa-f:.%\w]+\])(:\d{1,5})?", address):
                raise ReachError(
                    f"advertise: {address!r} is not an address such as 10.0.0.7 or login.site.org:4000"
                )
        if len(addresses) > ADDRESSES_MAX:
            raise ReachError(f"advertise: {len(addresses)} addresses, agents try {ADDRESSES_MAX}")
        return cls(",".join(addresses), _ports(environ.get("CREMA_PORT") if port is None else port))

    def plan(self, client: Client | None) -> Plan:
        """The addresses for this cluster."""
        given = self.advertise.split(",") if self.advertise else []
        if client is None or (not given and is_all_here(client)):
            return dataclasses.replace(HERE, ports=self.ports)
        facing = address_facing(client)
        found = dict.fromkeys(filter(None, [*given, facing, *own_addresses(), LOOPBACK]))
        listens = "[::]" if ":" in facing else "0.0.0.0"
        return Plan(listens, tuple(found)[:ADDRESSES_MAX], self.ports)


@dataclasses.dataclass(frozen=True)
class Plan:
    """Where the aggregator listens and what agents try.

    Parameters
    ----------
    listens : str
        Address to bind to.
    addresses : tuple of str
        Addresses to try, the most likely first; each may have its own port.
    ports : tuple of int
        First and last port; empty: any.
    """

    listens: str
    addresses: tuple[str, ...]
    ports: tuple[int, ...] = ()

    def bind(self) -> str:
        """Endpoint to bind to, with a port that is free now.

        Raises
        ------
        OSError
            If none of the ports is.
        """
        if not self.ports:
            return f"tcp://{self.listens}:*"
        first, last = self.ports[0], self.ports[-1]
        for port in range(first, last + 1):
            if _is_free(self.listens, port):
                return f"tcp://{self.listens}:{port}"
        which = f"port {first}" if first == last else f"none of the ports {first}-{last}"
        what = "is taken by another process" if first == last else "is free"
        raise OSError(
            f"{which} {what} at {self.listens}: give others as MetricsCollector(port=...) or CREMA_PORT"
        )

    def endpoints(self, bound: str) -> str:
        """The endpoints for agents, given the one that the aggregator has bound."""
        port = bound.rpartition(":")[2]
        return ",".join(
            f"tcp://{address}"
            if re.search(r"[^:]:\d+$", address) and not address.endswith("]")
            else f"tcp://{address}:{port}"
            for address in self.addresses
        )


HERE = Plan(LOOPBACK, (LOOPBACK,))  # this host only


def of_this_host(bound: str) -> str:
    """The endpoint by which this host reaches a socket that is bound to all addresses."""
    return bound.replace("//0.0.0.0:", f"//{LOOPBACK}:").replace("//[::]:", "//[::1]:")


def _ports(port: int | str | tuple[int, int] | None) -> tuple[int, ...]:
    if port is None or port == "":
        return ()
    parts: Iterable = port if isinstance(port, (tuple, list)) else re.split("[-:]", str(port))
    try:
        numbers = tuple(int(part) for part in parts)
    except (TypeError, ValueError):
        numbers = ()
    if len(numbers) not in (1, 2) or not 1 <= numbers[0] <= numbers[-1] <= 65535:
        raise ReachError(
            f"port: {port!r} is not a port or range of ports such as 4000 or 10000-10100"
        )
    return numbers


def _is_free(address: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address.strip("[]"), port))
        except OSError:
            return False
    return True


# ---------------------------------------------------------------- facts from the cluster and this
# machine


def host_and_port(address: str) -> tuple[str, int] | None:
    """Host and port of one of Dask's addresses; None if it has neither, as behind a gateway."""
    from distributed.comm.addressing import parse_host_port

    scheme, _, rest = address.partition("://")
    if scheme not in ("tcp", "tls", "ucx", "ucxx", "ws", "wss"):
        return None
    return parse_host_port(rest, 8786)


def is_all_here(client: Client) -> bool:
    """Whether the scheduler and at least one worker have addresses, and all of them are on this host."""
    from ._cluster import bounded

    workers = bounded(client.nthreads, "asking who is there")
    return bool(workers) and all(
        address.startswith("inproc://") or (host_and_port(address) or ("",))[0] in _HERE
        for address in (client.scheduler.address, *workers)
    )


def address_facing(client: Client) -> str:
    """Address of this machine on its way to the scheduler; empty if the scheduler's address says nothing about the network."""
    where = host_and_port(client.scheduler.address)
    if where is None:
        return ""
    try:
        family, _, _, _, target = socket.getaddrinfo(*where, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(target)  # sends nothing; only selects the route
            own = ipaddress.ip_address(probe.getsockname()[0].partition("%")[0])
    except (OSError, ValueError):
        return ""
    if own.is_loopback or own.is_link_local:
        return ""
    return f"[{own}]" if own.version == 6 else str(own)


def own_addresses() -> list[str]:
    """IPv4 addresses of this machine that other hosts may reach."""
    import psutil  # comes with distributed, without which nobody asks

    found = [
        entry.address
        for entries in psutil.net_if_addrs().values()
        for entry in entries
        if entry.family == socket.AF_INET
    ]
    return [
        text
        for text in found
        if not (address := ipaddress.ip_address(text)).is_loopback and not address.is_link_local
    ]
