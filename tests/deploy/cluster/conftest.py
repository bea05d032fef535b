"""The test cluster, once for all tests; figures that were measured are told at the end."""

from __future__ import annotations

import os
import pathlib
import time

import pytest

import missing
from stack import COMPOSE, VERSION, Stack, compose_command, docker, say

BUILD_S = 1200  # beside other tests; a quiet machine takes three minutes
FIGURES: list[str] = []


def pytest_terminal_summary(terminalreporter):
    if FIGURES:
        terminalreporter.section("measured")
        for line in FIGURES:
            terminalreporter.line(line)


@pytest.fixture(scope="session")
def figure():
    """Tells a figure at the end of the session."""
    return FIGURES.append


@pytest.fixture(scope="session")
def project(figure) -> str:
    if compose_command() is None:
        pytest.skip(missing.CONTAINER_ENGINE)
    figure(say([*compose_command(), "version"]).splitlines()[0])
    return os.environ.get("CREMA_TEST_PROJECT", f"crema-test-{os.getpid()}")


@pytest.fixture(scope="session")
def images(project, figure) -> None:
    began = time.monotonic()
    say([COMPOSE / "base-image.sh"], BUILD_S)
    stack = Stack(project)
    stack.compose("build", "sink", "jupyter", timeout_s=BUILD_S)
    figure(f"images are there after {time.monotonic() - began:.0f} s")
    for image in (f"crema:{VERSION}", f"crema-dask:{VERSION}"):
        size = int(docker("image", "inspect", "--format", "{{.Size}}", image))
        figure(f"image {image}: {size / 1e6:.0f} MB")


@pytest.fixture(scope="session")
def keep_logs():
    """Keeps a stack's logs where they can be read when it is gone."""
    directory = COMPOSE.parent / ".cache" / "log"
    directory.mkdir(parents=True, exist_ok=True)

    def keep(name: str, text: str) -> pathlib.Path:
        path = directory / f"cluster-{name}.log"
        path.write_text(text)
        return path

    return keep


@pytest.fixture(scope="module")
def stacks(project, images, keep_logs):
    """Makes a stack of the files given, one at a time; all are gone in the end."""
    made: list[Stack] = []

    def take_down() -> None:
        for stack in made:
            keep_logs(
                "-".join(pathlib.Path(file).stem for file in stack.files),
                stack.compose("logs", "--no-color", check=False),
            )
            stack.destroy()
        made.clear()

    def make(*files: str, **options) -> Stack:
        take_down()
        made.append(Stack(project, *files, **options))
        return made[-1]

    try:
        yield make
    finally:
        take_down()
        Stack(project).destroy()
