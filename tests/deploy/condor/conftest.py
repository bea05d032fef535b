"""A pool of HTCondor for all tests here, and what is left of each of them afterwards."""

from __future__ import annotations

import os
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
HTCONDOR = ROOT / ".cache" / "condor"


def pytest_configure(config):
    for name in ("CREMA_AGGREGATOR", "CREMA_KEYS", "CREMA_RUN", "CREMA_SPOOL", "CREMA_INSECURE"):
        os.environ.pop(name, None)


@pytest.fixture(scope="session")
def nano_files() -> dict[str, dict[str, str]]:
    path = ROOT / ".cache" / "coffea-samples" / "nano_dy.root"
    return {"dy": {"files": {str(path): "Events"}}}


@pytest.fixture(scope="session")
def one_pool(tmp_path_factory):
    from pool import Pool

    if not (HTCONDOR / "complete").exists() or os.geteuid() == 0:
        pytest.skip("./dev test-condor fetches HTCondor, and runs these tests as an ordinary user")
    made = Pool(HTCONDOR, tmp_path_factory.mktemp("pool"))
    yield made
    print(made.log())
    made.stop()


@pytest.fixture
def pool(one_pool, tmp_path, monkeypatch):
    """Afterwards no job, no process of crema and no file of a run may be there."""
    from waiting import wait_for

    for name, value in one_pool.environment.items():
        monkeypatch.setenv(name, value)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr("tempfile.tempdir", None)
    yield one_pool
    one_pool.run("condor_rm", "-all")  # of a test that failed
    wait_for(lambda: not one_pool.jobs(), 60, "no job is left")
    wait_for(lambda: not list(one_pool.execute.iterdir()), 60, "no job's directory is left")
    wait_for(lambda: not programs(), 60, "no program of crema is left")
    assert not list(scratch.rglob("crema-*/*"))


def programs() -> list[str]:
    """Of crema, in this namespace of processes, which is the tests' own."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/comm"):
        try:
            found += [name for name in [path.read_text().strip()] if name.startswith("crema-")]
        except OSError:
            continue
    return found


@pytest.fixture
def services():
    from service_kit import services

    yield from services()
