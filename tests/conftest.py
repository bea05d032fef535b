"""What all tests in Python share: an environment without a pipeline of the developer's, real input files, and pipelines to hurt."""

from __future__ import annotations

import os
import random

import pytest

import missing
from children import none_outlive_this
from left_processes import LeftProcesses
from outcomes import pytest_runtest_protocol, pytest_terminal_summary  # noqa: F401
from paths import EXTRA, SAMPLES


def pytest_configure(config):
    """No test may pick up a pipeline or a proxy of the developer's own environment; a worker that comes back slowly still comes back."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(LeftProcesses())
    names = "AGGREGATOR", "KEYS", "RUN", "SPOOL", "ADVERTISE", "PORT"
    for name in (f"CREMA_{name}" for name in names):
        os.environ.pop(name, None)
    for name in ("no_proxy", "NO_PROXY"):  # for PyPI it is wanted
        os.environ[name] = ",".join(filter(None, [os.environ.get(name), "127.0.0.1,localhost,::1"]))
    # A LocalCluster closes the nanny of a worker that has been away for 15 s. On a busy machine a new one takes longer to start.
    os.environ["DASK_DISTRIBUTED__DEPLOY__LOST_WORKER_TIMEOUT"] = "10 minutes"
    # Processes that idle look around less often: what they spend on it is taken from the tests beside them.
    os.environ["DASK_DISTRIBUTED__WORKER__PROFILE__INTERVAL"] = "100 ms"
    os.environ["DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL"] = "200 ms"


@pytest.fixture(autouse=True)
def no_child_outlives_its_test():
    with none_outlive_this():
        yield


# ---------------------------------------------------------------- input files and pipelines


def _sample(name: str) -> str:
    path = SAMPLES / name
    if not path.is_file():
        pytest.skip(missing.SAMPLES)
    return str(path)


@pytest.fixture(scope="session")
def nano_files() -> dict[str, dict[str, str]]:
    """Fileset of small real NanoAOD files: name -> {file: tree}."""
    return {
        "dy": {"files": {_sample("nano_dy.root"): "Events"}},
        "dimuon": {"files": {_sample("nano_dimuon.root"): "Events"}},
    }


@pytest.fixture(scope="session")
def wide_files(nano_files: dict) -> dict[str, dict[str, str]]:
    """Those of `nano_files` and, where they are at hand, NanoAOD v12 and v15 with up to 1,800 branches."""
    wide = sorted(EXTRA.glob("nano_*v1*.root"))
    return nano_files | {path.stem: {"files": {str(path): "Events"}} for path in wide}


@pytest.fixture(scope="session")
def wide_file() -> str:
    """A real NanoAOD file with the most branches at hand."""
    wide = EXTRA / "nano_tt_v12.root"
    return str(wide) if wide.is_file() else _sample("nano_dy.root")


@pytest.fixture
def seed() -> int:
    """Of what a test draws; shown with a failure, and taken from CREMA_SEED."""
    value = int(os.environ.get("CREMA_SEED") or random.SystemRandom().randrange(2**32))
    print(f"CREMA_SEED={value}")
    return value


@pytest.fixture
def short_minute(monkeypatch):
    """An aggregator of this build asks five times for what is missing at the end of a run; that then takes 5 s instead of a minute.

    To be named before the fixture that starts the aggregator.
    """
    monkeypatch.setenv("SHORT_WAITS", "aggregator.barrier_cap:1000")


@pytest.fixture
def pipelines(tmp_path):
    """Makes pipelines that are gone after the test, whatever happened; a failure is shown with what their programs logged."""
    from kept_records import PROGRAMS, Pipeline

    made = []

    def make(**options) -> Pipeline:
        made.append(Pipeline(PROGRAMS, tmp_path, **options))
        return made[-1]

    yield make
    for pipeline in made:
        pipeline.destroy()
        pipeline.print_logs()


def pytest_collection_modifyitems(items):
    """Looks come first: they cost more, and are rarer, in a process that has the threads of other tests."""
    items.sort(key=lambda item: "test_looking.py" not in item.nodeid)
