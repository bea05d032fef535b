"""A process that has few descriptors left, or loses them while it is measured, goes on: at worst it is not recorded."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

# What an analysis is about to find: `n` descriptors, of which it opens all that it can get.
BEGIN = """
import json, os, resource, sys
import crema
from crema.collect._threads import ROOM_FILES
crema.MetricsCollector  # at the latest: nothing can be imported without descriptors

hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]

def leave(n):
    last = os.open(os.devnull, os.O_RDONLY)
    while len(os.listdir("/proc/self/fd")) - 1 < last + 1:  # no gap below it
        last = max(last, os.open(os.devnull, os.O_RDONLY))
    resource.setrlimit(resource.RLIMIT_NOFILE, (last + 1 + n, hard))

def use_up():
    held = []
    try:
        while True:
            held.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return held

def done(mc, **what):
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print(json.dumps(what | {"verdict": mc.verdict, "codes": [r["code"] for r in mc.reasons], "room": ROOM_FILES}))
"""

AT_ENTRY = """
leave(int(sys.argv[2]))
with crema.MetricsCollector(output=sys.argv[1], quiet=True) as mc:
    result = sum(range(1000))
    crema.record_metric("crumbs", 1)
    held = use_up()
    for fd in held:
        os.close(fd)
done(mc, result=result, opened=len(held))
"""

INSIDE = """
with crema.MetricsCollector(output=sys.argv[1], quiet=True, timeout=20) as mc:
    crema.record_metric("crumbs", 1)
    leave(0)
    result = sum(range(1000))
    if sys.argv[2] == "for a while":
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
done(mc, result=result)
"""

ON_DASK = """
from distributed import Client, LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        client.submit(sum, range(10)).result()
        with crema.MetricsCollector(client, output=sys.argv[1], quiet=True, timeout=20) as mc:
            client.submit(sum, range(100)).result()
            leave(0)
            result = client.submit(sum, range(1000)).result()
            if sys.argv[2] == "for a while":
                resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    done(mc, result=result)
"""


def run(script, *arguments):
    command = [sys.executable, "-c", BEGIN + script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


FEW = {0, 13, 47, 64}


@pytest.mark.parametrize(
    "n", [n if n in FEW else pytest.param(n, marks=pytest.mark.slow) for n in range(65)]
)
def test_analysis_runs_with_few_descriptors_at_the_entry(n, tmp_path):
    found, said = run(AT_ENTRY, tmp_path, n)
    assert found["result"] == sum(range(1000))
    if found["verdict"] == "UNKNOWN":
        assert found["codes"] == ["not_recorded"]
        (line,) = said.splitlines()
        assert "the analysis runs unrecorded: " in line and "ulimit -n" in line
        assert found["opened"] >= n, "a descriptor is lost"
        assert not list(tmp_path.iterdir())
    else:
        assert found["verdict"] == "COMPLETE" and not said
        assert found["opened"] >= 32
    assert found["verdict"] == ("UNKNOWN" if n < found["room"] else "COMPLETE")


@pytest.mark.parametrize("how", ["for a while", "for good"])
@pytest.mark.parametrize(
    "script", [INSIDE, pytest.param(ON_DASK, marks=pytest.mark.slow)], ids=["here", "on Dask"]
)
def test_analysis_runs_where_descriptors_go_inside_the_block(script, how, tmp_path):
    found, said = run(script, tmp_path, how)
    assert found["result"] == sum(range(1000))
    assert found["verdict"] == "COMPLETE", (found, said)
