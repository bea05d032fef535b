"""Analyses where the workers' hosts cannot connect to the client's: records travel over Dask, and every total is Dask's and coffea's own."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import pytest

import missing
from children import Child
from namespaces import CannotMakeError, Network
from paths import ROOT, SAMPLES

pytestmark = pytest.mark.timeout(300)

HERE = ROOT / "tests" / "lib"
DASK = shutil.which("dask", path=str(pathlib.Path(sys.executable).parent))
PORT = 8786


@pytest.fixture
def network():
    """Workers are near, the client is far, the scheduler is in the middle, where both reach it."""
    try:
        made = Network()
        made.within("middle", "ip", "link", "set", "lo", "up")
        made.within("far", "ip", "link", "set", "lo", "up")
    except CannotMakeError as why:
        pytest.skip(f"{missing.NETWORK_FAULTS}: {why}")
    yield made
    made.destroy()


@pytest.fixture
def start(tmp_path):
    """Starts programs that end with the test, each with a log and a directory for temporary files of its own."""
    with contextlib.ExitStack() as stack:

        def run(name: str, *command: str, **options) -> subprocess.Popen:
            (tmp_path / name).mkdir()
            environ = {**os.environ, "TMPDIR": str(tmp_path / name), "PYTHONPATH": str(HERE)}
            log = stack.enter_context(open(tmp_path / f"{name}.log", "wb"))
            process = Child(
                command,
                env=environ,
                stdin=subprocess.DEVNULL,
                stderr=log,
                cwd=tmp_path,
                **{"stdout": log, **options},
            )
            stack.callback(stop, process)
            return process

        yield run


def stop(process: subprocess.Popen) -> None:
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@pytest.fixture
def cluster(network, start):
    start_cluster(network, start, "tcp")


def start_cluster(network, start, protocol: str, *options: str) -> None:
    start("scheduler", *network.prefix("middle"), DASK, "scheduler", "--port", str(PORT),
          "--no-dashboard", "--host", f"{protocol}://0.0.0.0", *options)  # fmt: skip
    start("workers", *network.prefix("near"), DASK, "worker", f"{protocol}://10.77.1.1:{PORT}",
          "--nworkers", "2", "--nthreads", "1", "--no-dashboard", *options)  # fmt: skip


def analysed(start, network, tmp_path, scheduler: str, seconds: float = 0, meanwhile=None) -> dict:
    """What an analysis in the client's namespace said, as JSON and on standard error."""
    file = str(SAMPLES / "nano_dy.root")
    prefix = network.prefix("far") if network is not None else ()
    client = start("client", *prefix, sys.executable, str(HERE / "reach_client.py"), scheduler,
                   str(tmp_path / "out"), file, str(seconds), stdout=subprocess.PIPE)  # fmt: skip
    if meanwhile is not None:
        meanwhile()
    out, _ = client.communicate(timeout=240)
    said = (tmp_path / "client.log").read_text()
    assert client.returncode == 0, said[-3000:]
    return {**json.loads(out.splitlines()[-1]), "said": said}


def must_be_whole(found: dict) -> None:
    assert (found["verdict"], found["reasons"]) == ("COMPLETE", [])
    assert found["events"] == found["entries"] > 0
    assert found["keys"] > 0 and found["wrong"] == {}


def must_have_left_nothing(tmp_path) -> None:
    left = [
        path
        for side in ("client", "workers", "scheduler")
        for path in (tmp_path / side).glob("crema-*/*")
    ]
    assert left == []


def test_workers_on_another_host_connect_where_they_can(network, cluster, start, tmp_path):
    found = analysed(start, network, tmp_path, f"tcp://10.77.2.1:{PORT}")
    must_be_whole(found)
    assert "over Dask" not in found["said"]


@pytest.mark.slow
def test_records_travel_over_dask_behind_a_proxy_on_loopback(network, cluster, start, tmp_path):
    """The address of the scheduler says nothing, as with an ssh tunnel; of the client's host only the scheduler is reached."""
    network.cut("near", "far")
    found = analysed(start, network, tmp_path, f"proxy+10.77.2.1:{PORT}")
    must_be_whole(found)
    assert found["address"].startswith("tcp://127.0.0.1:")
    assert "travel over Dask: no connection to" in found["said"]
    must_have_left_nothing(tmp_path)


@pytest.mark.slow
def test_records_travel_over_dask_behind_a_tls_proxy_on_loopback(network, start, tmp_path):
    """As in coffea-casa, whose client is `Client("tls://localhost:8786")`; the proxy passes on what it cannot read."""
    pem = tmp_path / "all.pem"
    request = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
               "/CN=dask", "-keyout", str(tmp_path / "key.pem"), "-out", str(pem))  # fmt: skip
    subprocess.run(request, check=True, capture_output=True)
    pem.write_text(pem.read_text() + (tmp_path / "key.pem").read_text())
    names = ("--tls-ca-file", "--tls-cert", "--tls-key")
    start_cluster(network, start, "tls", *(word for name in names for word in (name, str(pem))))
    network.cut("near", "far")
    found = analysed(start, network, tmp_path, f"tls+10.77.2.1:{PORT}+{pem}")
    must_be_whole(found)
    assert found["address"].startswith("tls://127.0.0.1:")
    assert "travel over Dask: no connection to" in found["said"]
    must_have_left_nothing(tmp_path)


@pytest.mark.slow
def test_packets_between_client_and_scheduler_are_lost_for_a_while(
    network, cluster, start, tmp_path
):
    """Eight seconds, in which the worker's own connection stands still as well."""
    network.cut("near", "far")

    def drop():
        began = time.monotonic()
        while "over Dask" not in (tmp_path / "client.log").read_text():
            assert time.monotonic() - began < 120
            time.sleep(0.2)
        network.within("middle", "iptables", "-A", "INPUT", "-i", "far", "-j", "DROP")
        time.sleep(8)
        network.within("middle", "iptables", "-F", "INPUT")

    found = analysed(start, network, tmp_path, f"tcp://10.77.2.1:{PORT}", 12, drop)
    must_be_whole(found)


GATEWAY = """
c.DaskGateway.backend_class = "dask_gateway_server.backends.local.UnsafeLocalBackend"
c.DaskGateway.address = "127.0.0.1:18000"
c.Proxy.address = "0.0.0.0:18001"
c.Proxy.tcp_address = "0.0.0.0:18786"
c.Backend.api_url = "http://127.0.0.1:18001/api"
c.LocalBackend.clusters_directory = "{directory}"
c.LocalBackend.sigint_timeout = 5
c.ClusterConfig.scheduler_cmd = ["{directory}/dask-scheduler"]
c.ClusterConfig.worker_cmd = ["{directory}/dask-worker"]
"""


@pytest.mark.slow
def test_records_travel_over_dask_behind_dask_gateway(network, start, tmp_path):
    """Its server, proxy, scheduler and workers are in the middle, which answers the client and cannot call it."""
    directory = tmp_path / "clusters"
    directory.mkdir()
    for name in ("scheduler", "worker"):
        path = directory / f"dask-{name}"
        temporary = tmp_path / f"of-{name}"
        temporary.mkdir()
        path.write_text(
            f'#!/bin/sh\nexport PYTHONPATH={HERE} TMPDIR={temporary}\nexec {DASK} {name} "$@"\n'
        )
        path.chmod(0o755)
    config = tmp_path / "config.py"
    config.write_text(GATEWAY.format(directory=directory))
    network.within(
        "middle", "iptables", "-A", "OUTPUT", "-o", "far", "-p", "tcp", "--syn", "-j", "DROP"
    )
    server = shutil.which("dask-gateway-server", path=str(pathlib.Path(sys.executable).parent))
    start("gateway", *network.prefix("middle"), server, "-f", str(config))
    found = analysed(
        start, network, tmp_path, "gateway+http://10.77.2.1:18001+gateway://10.77.2.1:18786"
    )
    must_be_whole(found)
    assert found["address"].startswith("gateway://")
    assert "travel over Dask: no connection to" in found["said"]
