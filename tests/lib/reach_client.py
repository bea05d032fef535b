"""An analysis as a user runs it, in a process of its own: `python reach_client.py SCHEDULER OUTPUT FILE [SECONDS]` prints what came of it.

SCHEDULER is what a Client takes, proxy+HOST:PORT to go through a port of this process, as with a tunnel, tls+HOST:PORT+PEM the same with TLS, or
gateway+ADDRESS+PROXY for a cluster that dask-gateway is to make.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
import time
import urllib.request

from distributed import Client, Security

import measured_runs
import workloads


def tunnel(where: str) -> int:
    """A port on loopback that leads there."""
    host, _, port = where.partition(":")
    listener = socket.create_server(("127.0.0.1", 0))

    def pass_on(one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := one.recv(65536):
                other.sendall(piece)
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def serve() -> None:
        while True:
            here, _ = listener.accept()
            there = socket.create_connection((host, int(port)))
            for ends in ((here, there), (there, here)):
                threading.Thread(target=pass_on, args=ends, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    return listener.getsockname()[1]


@contextlib.contextmanager
def connected(scheduler: str):
    if scheduler.startswith("proxy+"):
        with Client(f"tcp://127.0.0.1:{tunnel(scheduler.partition('+')[2])}") as client:
            yield client
        return
    if scheduler.startswith("tls+"):
        _, where, pem = scheduler.split("+")
        security = Security(
            tls_ca_file=pem, tls_client_cert=pem, tls_client_key=pem, require_encryption=True
        )
        with Client(f"tls://127.0.0.1:{tunnel(where)}", security=security) as client:
            yield client
        return
    if not scheduler.startswith("gateway+"):
        with Client(scheduler) as client:
            yield client
        return
    from dask_gateway import Gateway

    _, address, proxy = scheduler.split("+")
    wait_for(f"{address}/api/health")
    with (
        Gateway(address, proxy_address=proxy, asynchronous=False) as gateway,
        gateway.new_cluster(shutdown_on_close=True) as cluster,
        cluster.get_client() as client,
    ):
        cluster.scale(2)
        yield client


def wait_for(url: str) -> None:
    """Until it answers: a proxy says "Not Found" until the server behind it has announced itself."""
    began = time.monotonic()
    while True:
        try:
            urllib.request.urlopen(url, timeout=10).close()
            return
        except OSError:
            if time.monotonic() - began > 60:
                raise
            time.sleep(0.1)


def main(scheduler: str, output: str, file: str, seconds: str = "0") -> None:
    fileset = {"dy": {"files": {file: "Events"}}}
    with connected(scheduler) as client:
        client.wait_for_workers(2, timeout=60)

        def pause(mc) -> None:
            client.submit(time.sleep, float(seconds), pure=False).result()

        measured = measured_runs.measure(
            client, fileset, workloads.JetCounter(), output, during=pause, quiet=True
        )
        ours = measured_runs.execute_totals(measured.path, measured.span_id)
        wrong = {
            "/".join(map(str, key)): [value, ours.get(key)]
            for key, value in measured.dask.items()
            if key[0] != "N/A" and abs(ours.get(key, 0.0) - value) > 1e-6 * max(1.0, abs(value))
        }
        chunks = measured_runs.counted_chunks(measured.path)
        print(
            json.dumps(
                {
                    "address": client.scheduler.address,
                    "verdict": measured.verdict,
                    "reasons": measured.reasons,
                    "entries": int(measured.result["metrics"]["entries"]),
                    "events": int(chunks["n_events"].sum()),
                    "keys": len(measured.dask),
                    "wrong": wrong,
                }
            )
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
