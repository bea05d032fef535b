"""Worker, scheduler and client of another version of crema: they record if they speak the same protocol, else they are named with it."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import pytest

import crema
from children import Child
from crema.hook import _columns
from run_traces import assert_nothing_left

VERSION = "9.9.1"
# The tests' own installation is found by a hook that comes before every path.
FIRST = """
import sys
sys.meta_path[:] = [found for found in sys.meta_path if "Redirecting" not in type(found).__name__]
"""


def install(directory: pathlib.Path, wire: int) -> pathlib.Path:
    """Another version of the package, as a copy: what it has in `directory` comes before the real one."""
    for path in reversed(crema.__path__):
        shutil.copytree(
            path,
            directory / "crema",
            dirs_exist_ok=True,
            ignore=lambda _, names: [name for name in names if name == "__pycache__"],
        )
    columns = directory / "crema" / "hook" / "_columns.py"
    text, n = re.subn(r"(?m)^WIRE_VERSION = \d+", f"WIRE_VERSION = {wire}", columns.read_text())
    assert n == 1
    columns.write_text(text)
    about = directory / f"coffea_crema-{VERSION}.dist-info"
    about.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: coffea-crema\nVersion: {VERSION}\n"
    (about / "METADATA").write_text(metadata)
    (directory / "sitecustomize.py").write_text(FIRST)
    return directory


@pytest.fixture(scope="module")
def same_protocol(tmp_path_factory):
    return install(tmp_path_factory.mktemp("same"), _columns.WIRE_VERSION)


@pytest.fixture(scope="module")
def other_protocol(tmp_path_factory):
    return install(tmp_path_factory.mktemp("other"), _columns.WIRE_VERSION + 1)


@contextlib.contextmanager
def dask(tmp_path, name: str, *arguments: str, package: pathlib.Path | None = None):
    """A scheduler or worker as a process, with the package of this tree or with another."""
    environ = {**os.environ, "PYTHONPATH": str(package)} if package else os.environ
    command = [sys.executable, "-m", "dask", *arguments, "--no-dashboard"]
    with open(tmp_path / f"{name}.log", "wb") as log:
        process = Child(command, env=environ, cwd=tmp_path, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


@contextlib.contextmanager
def cluster(tmp_path, package, workers: dict[str, pathlib.Path | None]):
    """A client of a scheduler with `package`, and a function that starts more workers."""
    from distributed import Client

    file = tmp_path / "scheduler.json"
    at = ("--scheduler-file", str(file))
    with contextlib.ExitStack() as stack:
        stack.enter_context(
            dask(tmp_path, "scheduler", "scheduler", "--port", "0", *at, package=package)
        )

        def start(name: str, package: pathlib.Path | None = None) -> None:
            options = (*at, "--nthreads", "1", "--no-nanny", "--name", name)
            stack.enter_context(dask(tmp_path, name, "worker", *options, package=package))

        for name, other in workers.items():
            start(name, other)
        until = time.monotonic() + 60
        while not file.exists() and time.monotonic() < until:
            time.sleep(0.05)
        client = stack.enter_context(Client(scheduler_file=str(file)))
        client.wait_for_workers(len(workers), timeout=60)
        yield client, start


def addresses(client) -> dict[str, str]:
    return {info["name"]: at for at, info in client.scheduler_info()["workers"].items()}


def versions(client) -> dict[str, str]:
    def version() -> str:  # in here it travels by value
        import crema

        return crema.__version__

    return client.run(version)


def total(client, worker: str) -> int:
    return client.submit(sum, [3, 4], workers=[worker], pure=False).result(timeout=60)


def run(client, start, package, tmp_path) -> tuple[crema.MetricsCollector, dict[str, str]]:
    """A run in which each worker works; one of `package` comes when it has begun."""
    with crema.MetricsCollector(client, output=tmp_path, quiet=True, timeout=60) as mc:
        start("late", package)
        client.wait_for_workers(3, timeout=60)
        at = addresses(client)
        assert {total(client, worker) for worker in at.values()} == {7}
        assert versions(client) == {
            at["ours"]: crema.__version__,
            at["early"]: VERSION,
            at["late"]: VERSION,
        }
    assert_nothing_left(mc)
    return mc, at


def test_another_version_of_the_same_protocol_records(same_protocol, tmp_path):
    workers = {"ours": None, "early": same_protocol}
    with cluster(tmp_path, same_protocol, workers) as (client, start):
        mc, at = run(client, start, same_protocol, tmp_path)
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
    with crema.open(mc.path) as file:
        recorded = set(file.table("task_events")["worker"].astype(str))
    assert set(at.values()) <= recorded


def test_a_worker_with_another_protocol_works_and_is_named_with_its_version(
    other_protocol, tmp_path, capfd
):
    workers = {"ours": None, "early": other_protocol}
    with cluster(tmp_path, other_protocol, workers) as (client, start):
        mc, at = run(client, start, other_protocol, tmp_path)
        scheduler = client.scheduler.address
    said = f"crema {VERSION}, whose protocol is not that of {crema.__version__} here"
    printed = capfd.readouterr().err
    assert f"{at['early']} ({said})" in printed
    assert f"the scheduler: {said}" in printed
    assert mc.verdict == "PARTIAL"
    found = {reason["subject"]: reason["text"] for reason in mc.reasons}
    assert set(found) == {at["early"], at["late"], scheduler}
    with crema.open(mc.path) as file:
        in_file = {reason["subject"]: reason["text"] for reason in file.reasons}
        recorded = set(file.table("task_events")["worker"].astype(str))
    for text in (*found.values(), *in_file.values()):
        assert f"crema {VERSION}" in text
    assert set(in_file) == set(found)
    assert at["ours"] in recorded and not {at["early"], at["late"]} & recorded


def test_one_that_left_before_the_end_is_named_with_its_version(other_protocol, tmp_path):
    with (
        cluster(tmp_path, None, {"ours": None, "early": other_protocol}) as (client, _),
        crema.MetricsCollector(client, output=tmp_path, quiet=True, timeout=60) as mc,
    ):
        early = addresses(client)["early"]
        assert total(client, early) == 7
        client.retire_workers([early])
    assert [reason["subject"] for reason in mc.reasons] == [early]
    assert f"crema {VERSION}" in mc.reasons[0]["text"]


CLIENT = """
import sys
import crema
from distributed import Client
with Client(scheduler_file=sys.argv[1]) as client:
    with crema.MetricsCollector(client, output=sys.argv[2], quiet=True) as mc:
        print(client.submit(sum, [3, 4]).result())
    print(crema.__version__, mc.verdict, mc.reasons)
"""


def client_of(package, tmp_path, **environ) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", CLIENT, str(tmp_path / "scheduler.json"), str(tmp_path)]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(package), **environ},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"7\n{VERSION} "), done.stdout
    return done


@pytest.mark.slow
def test_a_client_of_another_version(same_protocol, other_protocol, tmp_path):
    """It records if its protocol is that of the others; a pipeline that does not speak it is named at once."""
    from crema.collect import _attributes, _service

    assert importlib.util.find_spec("crema").origin.startswith(crema.__path__[-1])
    service = _service.LocalService(_attributes.new_run_id(), tmp_path)
    try:
        service.start()
        pipeline = {"CREMA_AGGREGATOR": service.endpoint, "CREMA_KEYS": str(service.keys)}
        with cluster(tmp_path, None, {"ours": None}):
            done = client_of(same_protocol, tmp_path)
            assert done.stdout.endswith(f"{VERSION} COMPLETE []\n"), done.stdout
            began = time.monotonic()
            done = client_of(other_protocol, tmp_path, **pipeline)
            took_s = time.monotonic() - began
    finally:
        service.close(sealed=True)
    wire = _columns.WIRE_VERSION
    why = f"it speaks version {wire} of the protocol, this crema ({VERSION}) version {wire + 1}"
    assert why in done.stderr and "UNKNOWN" in done.stdout
    assert took_s < 15, "it waited for an answer that it had"
