"""What is not coffea on Dask: plain tasks, and coffea in processes of its own, that wait for a service."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
import time

from coffea import processor
from coffea.nanoevents import NanoAODSchema

from planted import services
from planted_runs import Case, marked_line

HOST = "127.0.0.4"


class _Limits(socketserver.BaseRequestHandler):
    def handle(self):
        while self.request.recv(64):
            time.sleep(0.25)
            self.request.sendall(b"limit")


@contextlib.contextmanager
def no_files(case, directory):
    with socketserver.ThreadingTCPServer((HOST, 0), _Limits) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address
        server.shutdown()


def ask(address, number):
    began = time.monotonic()
    with socket.create_connection(address) as connection:
        for _ in range(3):
            connection.sendall(b"%d" % number)
            connection.recv(64)  # planted: plain
    return time.monotonic() - began


def as_plain_tasks(case, directory, address):
    from distributed import Client

    import crema
    from clusters import LocalCluster

    with (
        LocalCluster(
            n_workers=case.workers, threads_per_worker=case.threads, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
        crema.MetricsCollector(client, output=directory, quiet=True) as mc,
    ):
        seconds = client.gather(client.map(ask, [address] * case.files, range(case.files)))
    return mc.path, {"process_s": sum(seconds), "planted_s": sum(seconds)}


def without_dask(case, directory, fileset):
    """The processes are there, and have imported what they need, before the run begins."""
    import crema
    from clusters import ProcessPool

    instance = case.processor()
    with ProcessPool(2) as pool:
        list(pool.map(time.sleep, (0.5, 0.5)))
        with crema.MetricsCollector(None, instance, output=directory, quiet=True) as mc:
            executor = processor.FuturesExecutor(pool=pool, status=False)
            measured = processor.Runner(executor=executor, schema=NanoAODSchema)(
                fileset, processor_instance=instance, treename="Events"
            )
    return mc.path, measured


CASES = [
    Case("plain-tasks", None, frozenset({"service"}), (marked_line(__file__, "plain"), HOST),
         "tasks without coffea ask a service three times, 0.25 s each",
         files=24, fileset=no_files, execute=as_plain_tasks, long=True),
    Case("futures", services.AsksAService, frozenset({"service"}), ("inference", services.HOST),
         "coffea's executor of processes; four requests of 0.2 s in each chunk",
         execute=without_dask),
]  # fmt: skip
