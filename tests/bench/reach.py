#!/usr/bin/env python3
"""What records that travel over Dask cost the scheduler: `python tests/bench/reach.py [CONNECTIONS...]`, each in turn.

A real scheduler in a process of its own, the worker's, scheduler's and collector's parts as they are, and simulated agents: each sends what the agent of a
small host does, 350 B a second and a word of 100 B every five seconds, and gets an answer of 100 B to each piece. Printed are core-seconds of the scheduler's process per
second, beside those of the same process with nothing to do, and how long a piece takes there and back.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import types

import psutil
from distributed import Client
from distributed.core import ConnectionPool

from crema.collect._carrier import Carrier
from crema.hook._broker import Broker
from crema.hook._way import Way, over

RUN = "0" * 32
SECONDS = 20.0
EACH_S = 1.0
BYTES = 350


def serve(dask_scheduler) -> None:
    dask_scheduler.crema_bench = Broker(RUN)
    dask_scheduler.crema_bench.serve(dask_scheduler)


def stop_serving(dask_scheduler) -> None:
    dask_scheduler.crema_bench.close(dask_scheduler)


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """In place of the aggregator: 100 B for whatever comes."""
    with contextlib.suppress(OSError):
        while await reader.read(1 << 18):
            writer.write(bytes(100))
            await writer.drain()
    writer.close()


class Agent:
    """Writes, and times the answers."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self.took_s: list[float] = []

    async def run(self) -> None:
        reader, writer = await asyncio.open_unix_connection(str(self.directory / "way"))
        try:
            while True:
                began = time.monotonic()
                writer.write(bytes(BYTES))
                await reader.read(1 << 18)
                self.took_s.append(time.monotonic() - began)
                await asyncio.sleep(max(0.0, began + EACH_S - time.monotonic()))
        finally:
            writer.close()


def core_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


async def measure(n: int, address: str, process: psutil.Process, directory: pathlib.Path) -> str:
    aggregator = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = aggregator.sockets[0].getsockname()[1]
    async with Client(address, asynchronous=True) as client:
        await client.run_on_scheduler(serve)
        before, began = core_s(process), time.monotonic()
        await asyncio.sleep(SECONDS / 4)
        idle = (core_s(process) - before) / (time.monotonic() - began)
        carrier = Carrier(client, RUN, f"tcp://127.0.0.1:{port}", lambda hosts: None)
        pools = [ConnectionPool(limit=64) for _ in range(n)]
        ways, agents = [], []
        for number, pool in enumerate(pools):
            place = directory / f"{n}-{number}"
            place.mkdir()
            worker = types.SimpleNamespace(scheduler=pool(address))
            await pool.start()
            ways.append(Way(over(worker, RUN), place))
            agents.append(Agent(place))
        while not all(way._server for way in ways):
            await asyncio.sleep(0.05)
        tasks = [asyncio.create_task(agent.run()) for agent in agents]
        while not all(agent.took_s for agent in agents):
            await asyncio.sleep(0.1)
        await asyncio.sleep(12)  # past the first pieces, which wait for nobody
        for agent in agents:
            agent.took_s.clear()
        before, began = core_s(process), time.monotonic()
        await asyncio.sleep(SECONDS)
        busy = (core_s(process) - before) / (time.monotonic() - began)
        took = sorted(second for agent in agents for second in agent.took_s)
        for task in tasks:
            task.cancel()
        for way in ways:
            way.close()
        await client.run_on_scheduler(stop_serving)
        carrier._main.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for pool in pools:
            await pool.close()
    aggregator.close()
    median, most = statistics.median(took), took[int(0.99 * (len(took) - 1))]
    rss = process.memory_info().rss / 2**20
    return f"{n:11d} {idle:10.3f} {busy:10.3f} {1000 * median:10.1f} {1000 * most:10.1f} {rss:8.0f}"


def main(counts: list[int]) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        dask = pathlib.Path(sys.executable).parent / "dask"
        file = directory / "scheduler.json"
        with open(directory / "log", "wb") as log:
            scheduler = subprocess.Popen(
                [dask, "scheduler", "--port", "0", "--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", file],
                stdout=log, stderr=log,
            )  # fmt: skip
        try:
            while not file.exists():
                time.sleep(0.1)

            address = json.loads(file.read_text())["address"]
            print(
                f"load {os.getloadavg()[0]:.0f}; core-s/s of the scheduler, ms there and back, MiB"
            )
            print("connections       idle       busy     median        p99      rss")
            for n in counts:
                print(
                    asyncio.run(measure(n, address, psutil.Process(scheduler.pid), directory)),
                    flush=True,
                )
        finally:
            scheduler.terminate()
            scheduler.wait()


if __name__ == "__main__":
    main([int(text) for text in sys.argv[1:]] or [10, 100, 1000])
