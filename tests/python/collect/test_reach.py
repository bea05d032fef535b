"""Where the aggregator listens, and which addresses agents are told to try."""

from __future__ import annotations

import re
import socket
import sys
import threading
import time

import pytest
from distributed import Client

import crema
from clusters import LocalCluster
from crema.collect import _reach
from crema.collect._plugins import Plugins
from crema.collect._reach import LOOPBACK, Plan, Reach


@pytest.mark.parametrize(
    ("advertise", "port", "environ", "wanted"),
    [
        (None, None, {}, Reach()),
        ("login.site.org", None, {}, Reach("login.site.org")),
        (" 10.0.0.7:4000 , [fd00::1]", None, {}, Reach("10.0.0.7:4000,[fd00::1]")),
        (None, None, {"CREMA_ADVERTISE": "a,b", "CREMA_PORT": "4000"}, Reach("a,b", (4000,))),
        ("c", 5000, {"CREMA_ADVERTISE": "a,b", "CREMA_PORT": "4000"}, Reach("c", (5000,))),
        (None, "10000-10100", {}, Reach("", (10000, 10100))),
        (None, (10000, 10100), {}, Reach("", (10000, 10100))),
        (None, "10000:10100", {}, Reach("", (10000, 10100))),
    ],
)
def test_arguments_come_before_variables(advertise, port, environ, wanted):
    assert Reach.of(advertise, port, environ) == wanted


@pytest.mark.parametrize("port", ["x", "1-2-3", 0, 65536, "200-100", (1, 2, 3), 1.5j])
def test_a_port_that_is_none_raises_at_once(port):
    with pytest.raises(ValueError, match="is not a port or range of ports"):
        crema.MetricsCollector(port=port)


@pytest.mark.parametrize("advertise", ["tcp://10.0.0.7", "a b", "host:port", ",".join("abcdefghi")])
def test_an_address_that_is_none_raises_at_once(advertise):
    with pytest.raises(ValueError, match="advertise: "):
        crema.MetricsCollector(advertise=advertise)


def test_a_cluster_on_loopback_keeps_the_aggregator_there(client):
    assert Reach().plan(client) == Plan(LOOPBACK, (LOOPBACK,))


@pytest.mark.parametrize("advertise", ["", "there:4000"])
def test_a_plan_without_a_cluster_stays_on_this_host(advertise, monkeypatch):
    """Nor is psutil needed, which comes with distributed."""
    monkeypatch.setitem(sys.modules, "psutil", None)
    assert Reach(advertise).plan(None) == Plan(LOOPBACK, (LOOPBACK,))


def test_an_empty_cluster_may_get_workers_anywhere():
    with (
        LocalCluster(n_workers=0, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        plan = Reach("there:4000").plan(client)
    assert plan.listens == "0.0.0.0"
    assert plan.addresses[0] == "there:4000" and plan.addresses[-1] == LOOPBACK
    assert set(_reach.own_addresses()[:6]) <= set(plan.addresses)
    assert len(plan.addresses) <= 8


def test_endpoints_have_the_bound_port_unless_they_have_their_own():
    plan = Plan("0.0.0.0", ("10.0.0.7", "there:4000", "[fd00::1]", "[fd00::1]:5000"))
    assert plan.endpoints("tcp://0.0.0.0:41234").split(",") == [
        "tcp://10.0.0.7:41234",
        "tcp://there:4000",
        "tcp://[fd00::1]:41234",
        "tcp://[fd00::1]:5000",
    ]


def test_the_first_free_port_of_a_range_is_used():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        plan = Plan(LOOPBACK, (LOOPBACK,), (port, min(port + 20, 65535)))
        assert re.fullmatch(rf"tcp://127\.0\.0\.1:(?!{port}$)\d+", plan.bind())
        with pytest.raises(OSError, match=f"port {port} is taken by another process"):
            Plan(LOOPBACK, (LOOPBACK,), (port,)).bind()


def test_a_run_listens_at_the_port_that_it_is_given(client, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with crema.MetricsCollector(client, output=tmp_path, port=port, quiet=True) as mc:
        assert mc._service.endpoint == f"tcp://127.0.0.1:{port}"
        assert client.submit(sum, (1, 2)).result() == 3
    assert mc.verdict == "COMPLETE", mc.reasons


def test_an_agent_whose_key_comes_late_needs_no_other_way(client, tmp_path, monkeypatch, capfd):
    """A slow scheduler or client: the aggregator refuses the agent at first. It may not leave it without an answer."""
    on_key = Plugins._on_key

    def late(self, event):
        threading.Timer(0.7, on_key, (self, event)).start()

    monkeypatch.setattr(Plugins, "_on_key", late)
    with crema.MetricsCollector(client, output=tmp_path, quiet=True) as mc:
        assert client.submit(sum, (1, 2), pure=False).result() == 3
        time.sleep(2)
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
    assert "over Dask" not in capfd.readouterr().err
