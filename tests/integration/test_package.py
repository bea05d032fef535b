"""The source archive: all that is needed to build the package away from this tree."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tarfile
import zipfile

import pytest

from paths import ROOT

PROGRAMS = {"crema-agent", "crema-aggregator", "crema-sink"}


@pytest.fixture(scope="module")
def archive(tmp_path_factory) -> pathlib.Path:
    made = tmp_path_factory.mktemp("sdist")
    script = "import sys, scikit_build_core.build as b; b.build_sdist(sys.argv[1])"
    subprocess.run([sys.executable, "-c", script, made], cwd=ROOT, check=True, timeout=120)
    return next(made.glob("coffea_crema-*.tar.gz"))


def test_archive_of_sources_holds_each_and_nothing_of_a_developers(archive):
    with tarfile.open(archive) as tar:
        held = {name.split("/", 1)[1] for name in tar.getnames() if "/" in name}
    sources = {
        str(path.relative_to(base))
        for base, folders in (
            (ROOT, ("proto", "agent", "aggregator", "sink")),
            (ROOT, ("python/crema",)),
        )
        for folder in folders
        for path in (base / folder).rglob("*")
        if path.suffix in {".c", ".h", ".in", ".proto", ".py", ".txt"}
    }
    assert len(sources) > 200
    assert sources - held == set()
    assert {"CMakeLists.txt", "LICENSE", "pyproject.toml"} <= held
    assert not [
        name for name in held if name.startswith(("tests", "python/notebooks", "build", "."))
    ]


@pytest.mark.long
def test_a_wheel_made_of_it_has_the_programs(archive, tmp_path):
    words = ("-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SKBUILD")}
    subprocess.run([sys.executable, *words, archive], check=True, env=environment, timeout=600)
    with zipfile.ZipFile(next(tmp_path.glob("coffea_crema-*.whl"))) as wheel:
        names = {pathlib.PurePath(name).name for name in wheel.namelist()}
        version = next(n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
        metadata = wheel.read(version).decode()
    assert names >= PROGRAMS
    declared = (ROOT / "CMakeLists.txt").read_text().split("project(crema VERSION ")[1].split()[0]
    assert f"\nVersion: {declared}\n" in metadata
