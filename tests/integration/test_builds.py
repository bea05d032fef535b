"""Programs of two builds on one way, as while a cluster is being upgraded: they understand each other, or say that they do not.

CREMA_OTHER_BIN is the directory of the other build's programs, for example that of the preceding release.
"""

from __future__ import annotations

import os
import pathlib
import time

import pytest

import missing
from kept_records import PROGRAMS, Pipeline, must_have_kept_everything

OTHER = os.environ.get("CREMA_OTHER_BIN")
NAMES = ("crema-agent", "crema-aggregator", "crema-sink")

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(120),
    pytest.mark.skipif(not OTHER, reason=missing.OTHER_BUILD),
]


@pytest.fixture
def mixture(tmp_path):
    """Makes a directory of programs, some of the other build."""

    def make(*others: str) -> pathlib.Path:
        directory = tmp_path / "bin"
        directory.mkdir(exist_ok=True)
        for name in NAMES:
            link = directory / name
            link.unlink(missing_ok=True)
            link.symlink_to(pathlib.Path(OTHER if name in others else PROGRAMS, name).resolve())
        for name in ("torture_writer_main", "torture_check_main"):
            if not (directory / name).exists():
                (directory / name).symlink_to(PROGRAMS / name)
        return directory

    return make


@pytest.fixture
def pipeline_of(tmp_path):
    made = []

    def make(programs: pathlib.Path) -> Pipeline:
        (tmp_path / "work").mkdir()
        made.append(Pipeline(programs, tmp_path / "work"))
        return made[-1]

    yield make
    for pipeline in made:
        pipeline.destroy()


@pytest.mark.parametrize(
    "others",
    [(n,) for n in NAMES] + [tuple(m for m in NAMES if m != n) for n in NAMES] + [NAMES],
    ids="+".join,
)
def test_a_mixture_of_builds_keeps_everything(mixture, pipeline_of, others):
    pipeline = pipeline_of(mixture(*others))
    pipeline.start_writers(1000)
    time.sleep(3)
    books = must_have_kept_everything(pipeline)
    print(f"{others} of the other build: {books.records} records")


@pytest.mark.parametrize("name", NAMES)
def test_an_upgrade_in_the_middle_of_a_run_keeps_everything(mixture, pipeline_of, name):
    pipeline = pipeline_of(mixture(*NAMES))
    pipeline.start_writers(1000)
    time.sleep(2)
    mixture(*[other for other in NAMES if other != name])
    for program in pipeline.programs():
        if program.command[0].endswith(name):
            program.kill()
    time.sleep(2)
    must_have_kept_everything(pipeline)
