"""A network of three namespaces, `near` - `middle` - `far`: what the middle forwards can be cut or lost.

Packets are dropped where they are forwarded, never where they are sent: there, TCP would learn of it at once and try again.
"""

from __future__ import annotations

import os
import pathlib
import subprocess

ESTABLISHED = "01"


class CannotMakeError(Exception):
    """This machine lets nobody make namespaces, veth pairs or rules."""


class Network:
    """The wire between agents and services. `host` is the far side's address."""

    host = "10.77.2.2"
    ADDRESSES = (("near", "10.77.1"), ("far", "10.77.2"))

    def __init__(self):
        self.names = {side: f"crema{os.getpid()}-{side}" for side in ("near", "middle", "far")}
        try:
            for name in self.names.values():
                self._run("ip", "netns", "add", name)
            for side, subnet in self.ADDRESSES:
                self._join(side, subnet)
            self.within("middle", "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
            self.heal()
        except (OSError, CannotMakeError) as why:
            self.destroy()
            raise CannotMakeError(str(why)) from None

    def _run(self, *command: str):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise CannotMakeError(f"{' '.join(command)}: {done.stderr.strip()}")

    def within(self, side: str, *command: str):
        self._run(*self.prefix(side), *command)

    def prefix(self, side: str) -> tuple[str, ...]:
        return ("ip", "netns", "exec", self.names[side])

    def _join(self, side: str, subnet: str):
        own, middle = self.names[side], self.names["middle"]
        self._run("ip", "link", "add", side, "netns", own, "type", "veth",
                  "peer", "name", side, "netns", middle)  # fmt: skip
        for name, address in ((own, f"{subnet}.2/24"), (middle, f"{subnet}.1/24")):
            self._run("ip", "-n", name, "address", "add", address, "dev", side)
            self._run("ip", "-n", name, "link", "set", side, "up")
        self._run("ip", "-n", own, "link", "set", "lo", "up")
        self._run("ip", "-n", own, "route", "add", "default", "via", f"{subnet}.1")

    def cut(self, *senders: str):
        """Drop all that `near`, `far` or both send to the other side."""
        for side in senders or ("near", "far"):
            self.within("middle", "iptables", "-A", "FORWARD", "-i", side, "-j", "DROP")

    def lose(self, share: float):
        """Drop this share of the packets, each way, at random."""
        self.within("middle", "iptables", "-A", "FORWARD", "-m", "statistic", "--mode", "random",
                    "--probability", str(share), "-j", "DROP")  # fmt: skip

    def dropped(self) -> int:
        """Packets, since it was healed last."""
        command = (*self.prefix("middle"), "iptables", "-nvxL", "FORWARD")
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return sum(int(row.split()[0]) for row in said.splitlines() if " DROP " in row)

    def heal(self):
        self.within("middle", "iptables", "-F", "FORWARD")

    def destroy(self):
        for name in self.names.values():
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)


def connections(pid: int, endpoint: str) -> set[tuple[int, str]]:
    """(local port, state) of the TCP connections that lead to the port of `endpoint` in the namespace of a process."""
    port = int(endpoint.rsplit(":", 1)[1])
    lines = pathlib.Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]
    rows = [line.split() for line in lines]
    return {
        (int(row[1].split(":")[1], 16), row[3])
        for row in rows
        if int(row[2].split(":")[1], 16) == port
    }


def established(pid: int, endpoint: str) -> int:
    """Connections with the port of `endpoint` at either end that the namespace of a process believes in."""
    port = f":{int(endpoint.rsplit(':', 1)[1]):04X}"
    lines = pathlib.Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]
    rows = [line.split() for line in lines]
    return sum(
        row[3] == ESTABLISHED and (row[1].endswith(port) or row[2].endswith(port)) for row in rows
    )
