"""The worker counts the bytes of a host as its agent does (`test_agent_network` has the same cases)."""

from __future__ import annotations

import pytest

from crema.hook import _process

HEAD = """Inter-|   Receive                    |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets
    lo: 500 1 0 0 0 0 0 0 500 1 0 0 0 0 0 0
"""
BRIDGE = {"eth0": (1000, 2000), "br0": (990, 1990), "veth9": (980, 1980)}
ROUTES = """Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT
eth0 00000000 010011AC 0003 0 0 0 00000000 0 0 0
br0 000011AC 00000000 0001 0 0 0 0000FFFF 0 0 0
"""


@pytest.mark.parametrize(
    ("devices", "hardware", "routes", "counted"),
    [
        (BRIDGE, ["eth0"], "", (1000, 2000)),
        (BRIDGE, [], ROUTES, (1000, 2000)),
        (BRIDGE, [], "", (2970, 5970)),
        (BRIDGE | {"eth1": (5, 6)}, ["eth0", "eth1"], ROUTES, (1005, 2006)),
        ({}, [], "", (-1, -1)),
    ],
    ids=["hardware", "default route", "neither", "two cards", "nothing but loopback"],
)
def test_each_byte_counts_once(tmp_path, devices, hardware, routes, counted):
    (tmp_path / "net").mkdir()
    lines = (
        f"{name:>6}: {read} 1 0 0 0 0 0 0 {sent} 1 0 0 0 0 0 0\n"
        for name, (read, sent) in devices.items()
    )
    (tmp_path / "net" / "dev").write_text(HEAD + "".join(lines))
    if routes:
        (tmp_path / "net" / "route").write_text(routes)
    for name in hardware:
        (tmp_path / "class" / "net" / name / "device").mkdir(parents=True)
    assert _process.net_io_b(str(tmp_path), str(tmp_path)) == counted
