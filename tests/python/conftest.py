"""What the tests of the package share: generated input files, a small cluster, one measured run."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import resource
from typing import Any

import pytest

import missing


@pytest.fixture(scope="session")
def fileset(tmp_path_factory):
    from crema._demo_data import make_fileset

    return make_fileset(tmp_path_factory.mktemp("nano"), 4000, lambda n: None)


@pytest.fixture(scope="session")
def client():
    from distributed import Client

    from clusters import LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client


@dataclasses.dataclass
class Measured:
    collector: Any
    path: pathlib.Path
    report: dict


@pytest.fixture(scope="session")
def measured(client, fileset, tmp_path_factory):
    """A clean run on the cluster."""
    from coffea import processor

    from coffea_runs import run_coffea
    from crema import MetricsCollector
    from workloads import DijetProcessor

    instance = DijetProcessor()
    with MetricsCollector(
        client,
        processor_instance=instance,
        output=tmp_path_factory.mktemp("run"),
        run_label="a label",
        attributes={"chunksize": 500},
        quiet=True,
    ) as mc:
        executor = processor.DaskExecutor(client=client, status=False)
        _, report = run_coffea(mc, executor, fileset, instance)
        mc.set_coffea_report(report)
    assert mc.path is not None, mc.reasons
    return Measured(mc, mc.path, report)


@pytest.fixture
def many_open_files():
    """New descriptors have numbers above 1023, as in a process with a thousand connections: `select` cannot wait for them."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[1] != resource.RLIM_INFINITY and limits[1] < 2000:
        pytest.skip(missing.DESCRIPTORS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, limits[1]), limits[1]))
    with contextlib.ExitStack() as files:
        for _ in range(1100):
            files.enter_context(open(os.devnull, "rb"))
        yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.fixture
def client_here():
    """Scheduler and two workers in this process, so that parts of them can be looked at and taken away."""
    from distributed import Client

    from clusters import LocalCluster

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client
