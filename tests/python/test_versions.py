"""The oldest versions that the package says it works with are those it is tested with."""

from __future__ import annotations

import importlib.metadata
import itertools
import pathlib
import re
import sys
import tomllib

import pytest
from packaging.requirements import Requirement

import missing
from crema.collect._installed import TESTED
from paths import ROOT

PYTHON = ROOT / "python"


def declared() -> list[Requirement]:
    """Requirements of the package, optional ones too, but for its own name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    texts = itertools.chain(project["dependencies"], *project["optional-dependencies"].values())
    return [r for r in map(Requirement, texts) if r.name != "coffea-crema"]


def pinned(lock: str) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==([\w.]+)", (PYTHON / lock).read_text(), re.MULTILINE))


def test_each_lower_bound_is_what_the_oldest_environment_has():
    oldest = pinned("requirements-oldest.lock")
    for requirement in declared():
        lowest = str(requirement.specifier).removeprefix(">=")
        assert f"{oldest[requirement.name]}.".startswith(f"{lowest}."), requirement


@pytest.mark.parametrize("package", ["dask", "distributed", "coffea", "protobuf", "h5py"])
def test_this_environment_is_what_its_lock_says(package):
    if not pathlib.Path(sys.prefix, "installed.lock").exists():
        pytest.skip(missing.LOCKED_VERSIONS)
    oldest = pathlib.Path(sys.prefix).name == ".venv-oldest"
    lock = "requirements-oldest.lock" if oldest else "requirements-dev.lock"
    assert importlib.metadata.version(package) == pinned(lock)[package]


def test_the_doctor_knows_the_versions_that_are_tested():
    oldest, newest = pinned("requirements-oldest.lock"), pinned("requirements-dev.lock")
    assert {name: (oldest[name], newest[name]) for name in TESTED} == TESTED


def test_the_demo_has_a_part_of_what_the_tests_have():
    demo, tests = (
        {line for line in (PYTHON / lock).read_text().splitlines() if "==" in line}
        for lock in ("requirements-demo.lock", "requirements-dev.lock")
    )
    assert demo < tests
