"""One run in a process of its own, as an analysis would make it; it does what the lines on its standard input say.

    burst       record a great deal at once
    end         leave the block, print verdict and number of records, exit

With --dask the records are made by the tasks of a cluster of two worker processes.
"""

from __future__ import annotations

import json
import os
import select
import sys

import crema

PAUSE_S = 0.1
BURST = 200_000


class Recorder:
    """Records in this process."""

    def __init__(self):
        self.recorded = 0

    def record(self, n: int):
        for i in range(n):
            crema.record_metric("crumbs", i)
        self.recorded += n


class Cluster:
    """Records in the tasks of a Dask cluster."""

    def __init__(self, client):
        self.client, self.recorded = client, 0

    def record(self, n: int):
        wanted = range(self.recorded, self.recorded + n)
        self.client.gather(self.client.map(crumb, wanted, pure=False))
        self.recorded += n


def crumb(i: int):
    crema.record_metric("crumbs", i)


def say(**what):
    print(json.dumps(what), flush=True)


def obey(recorder, *, chunk: int):
    """Record until the end is wanted."""
    while True:
        recorder.record(chunk)
        if not select.select([sys.stdin], [], [], PAUSE_S)[0]:
            continue
        word = sys.stdin.readline().strip()
        if word != "burst":
            return
        recorder.record(BURST)
        say(recorded=recorder.recorded)


def measure(recorder, chunk: int, client=None):
    options = {"quiet": True, "on_error": "raise", "timeout": 600}
    with crema.MetricsCollector(client, output=".", **options) as mc:
        say(run_id=str(mc.run_id), pid=os.getpid())
        obey(recorder, chunk=chunk)
    say(verdict=mc.verdict, recorded=recorder.recorded, path=str(mc.path))


def main():
    if "--dask" not in sys.argv:
        return measure(Recorder(), 1)
    from distributed import Client

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with Client(**options) as client:
        return measure(Cluster(client), 4, client)


if __name__ == "__main__":
    main()
