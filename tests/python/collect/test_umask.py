"""A umask that takes rights from the owner: private files are made as they are meant."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile

import pytest

import hook_support
import missing

pytestmark = pytest.mark.skipif(
    os.getuid() == 0 and not missing.others_may_run_python(), reason=missing.OPEN_CHECKOUT
)

RUN = """
import os, pathlib, stat, sys, tempfile
if os.getuid() == 0:  # whom no mode stops
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
mask, output = int(sys.argv[1], 8), pathlib.Path(sys.argv[2])
import crema, hook_support
from coffea import processor
from distributed import Client
from clusters import LocalCluster
fileset = eval(sys.argv[3])

def must_be_private():
    for path in sorted(pathlib.Path(tempfile.gettempdir()).glob("crema-*/**/*")):
        try:
            mode = path.lstat().st_mode
        except FileNotFoundError:
            continue
        usable = 0o600 if stat.S_ISREG(mode) else 0o700
        assert stat.S_IMODE(mode) == (0o644 if path.suffix == ".key" and mode & 0o044 else usable), (path, oct(mode))
        yield path

def measured(client, executor):
    instance = hook_support.Counter()
    with crema.MetricsCollector(client, processor_instance=instance, output=output / "runs", quiet=True) as mc:
        hook_support.run(executor, mc.checkpointer, fileset, instance)
        assert len(list(must_be_private())) > 10
    assert (mc.verdict, mc.reasons) == ("COMPLETE", []), mc.reasons
    with crema.open(mc.path) as run:
        assert len(run["chunks"]) == 9

if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=None) as cluster, Client(cluster) as client:
        os.umask(mask)
        client.run(os.umask, mask)
        measured(None, processor.IterativeExecutor(status=False))
        measured(client, processor.DaskExecutor(client=client, status=False))
    print("measured")
"""


@pytest.mark.parametrize(
    "mask", ["0777", *(pytest.param(m, marks=pytest.mark.slow) for m in ("0277", "0077"))]
)
def test_a_run_under_any_umask(mask):
    with tempfile.TemporaryDirectory(prefix="umask-") as place:
        mine = pathlib.Path(place, "mine")
        mine.mkdir()
        for directory, mode in ((mine.parent, 0o755), (mine, 0o777)):
            directory.chmod(mode)
        _run(mask, mine, hook_support.make_files(mine.parent))


def _run(mask, mine, fileset):
    script = mine.parent / "run.py"
    script.write_text(RUN)
    environment = os.environ | {
        "PYTHONPATH": str(pathlib.Path(hook_support.__file__).parent),
        "TMPDIR": str(mine),
        "HOME": str(mine),
        "DASK_TEMPORARY_DIRECTORY": str(mine),
    }
    command = [sys.executable, script, mask, mine, repr(fileset)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert "measured" in done.stdout, done.stderr[-3000:]
