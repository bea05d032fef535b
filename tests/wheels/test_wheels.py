"""The wheels in dist/, as a user gets them: what is in them, and an analysis measured from an empty environment without compilers.

`./dev wheel` makes them and runs this.
"""

from __future__ import annotations

import os
import pathlib
import platform
import re
import subprocess
import sys
import time
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = ROOT / ".cache" / "wheel" / "tools" / "bin"
WHEELS = sorted((ROOT / "dist").glob("coffea_crema-*.whl"))
NATIVE = [wheel for wheel in WHEELS if "manylinux" in wheel.name]
PURE = [wheel for wheel in WHEELS if wheel.name.endswith("-none-any.whl")]
PROGRAMS = {f"crema/bin/crema-{name}" for name in ("agent", "aggregator", "sink")}
LINKED = {"czmq", "hdf5", "libdeflate", "libsodium", "protobuf-c", "zeromq3", "zig", "zlib"}


def name_of(wheel: pathlib.Path) -> str:
    return wheel.stem.rsplit("-", 1)[1]


def environment(path: pathlib.Path, *requirements: str) -> pathlib.Path:
    """An empty one with pip and `requirements`; returns its directory of programs."""
    subprocess.run([sys.executable, "-m", "venv", path], check=True)
    install(path / "bin", *requirements)
    return path / "bin"


def install(programs: pathlib.Path, *requirements: str) -> None:
    if requirements:
        words = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        run(programs, "python", *words, *map(str, requirements))


def run(programs: pathlib.Path, name: str, *words: str, cwd=None) -> subprocess.CompletedProcess:
    """With nothing but the environment on PATH: no compiler, no other crema."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "CREMA_"))}
    variables["PATH"] = str(programs)
    done = subprocess.run(
        [programs / name, *words],
        env=variables,
        cwd=cwd or programs,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.mark.parametrize("wheel", NATIVE, ids=name_of)
def test_it_asks_for_an_old_glibc_and_for_nothing_else(wheel):
    said = subprocess.run(
        [TOOLS / "auditwheel", "show", wheel], check=True, capture_output=True, text=True
    ).stdout
    processor = wheel.stem.rsplit("manylinux_2_17_", 1)[1]
    assert f'platform tag: "manylinux_2_17_{processor}"' in " ".join(said.split())
    libraries = set(re.findall(r"(\S+\.so\.\d+)\s+with", said))
    assert libraries <= {f"lib{name}.so.{n}" for name, n in SYSTEM}


SYSTEM = [("c", 6), ("m", 6), ("pthread", 0), ("dl", 2), ("rt", 1)]


@pytest.mark.parametrize("wheel", NATIVE, ids=name_of)
def test_it_holds_programs_and_the_licences_of_what_is_in_them(wheel):
    assert wheel.stat().st_size < 10e6
    with zipfile.ZipFile(wheel) as files:
        names = files.namelist()
        programs = [files.read(name) for name in PROGRAMS]
    assert not [p for p in programs if str(ROOT).encode() in p]  # a path of this machine
    licences = {n.split("/licenses/")[1] for n in names if "/licenses/" in n}
    assert "LICENSE" in licences
    assert {n.split("/")[0] for n in licences if "/" in n} == LINKED


@pytest.mark.parametrize("wheel", PURE, ids=name_of)
def test_the_one_for_everybody_else_has_no_programs(wheel):
    with zipfile.ZipFile(wheel) as files:
        names = set(files.namelist())
    assert not names & PROGRAMS
    assert {"crema/crema.desc", "crema/hook/_columns.py"} <= names


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> tuple[pathlib.Path, str]:
    """Run file of the demonstration's analysis, made with the wheel for this machine, and what was printed."""
    wheel = next((w for w in NATIVE if w.name.endswith(f"_{platform.machine()}.whl")), None)
    if wheel is None:
        pytest.skip(f"dist/ has no wheel for {platform.machine()}")
    work = tmp_path_factory.mktemp("native")
    programs = environment(work / "venv", "coffea[dask]", "hist")
    began = time.monotonic()
    install(programs, wheel)
    installed = time.monotonic()
    words = ("--events", "50000", "--cache", str(work), "--output", str(work))
    done = run(programs, "python", "-m", "crema.demo", *words, cwd=work)
    print(
        f"installed in {installed - began:.1f} s, measured in {time.monotonic() - installed:.1f} s"
    )
    return next(work.glob("*.h5")), done.stdout + done.stderr


@pytest.mark.timeout(1800)
def test_an_analysis_is_measured_from_an_empty_environment(measured):
    assert "COMPLETE" in measured[1]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("wheel", PURE, ids=name_of)
def test_the_one_for_everybody_else_reads_and_says_what_collecting_needs(wheel, measured, tmp_path):
    programs = environment(tmp_path / "venv", wheel)
    assert "COMPLETE" in run(programs, "crema", "show", str(measured[0])).stdout
    script = f"import crema; print(len(crema.open({str(measured[0])!r})['chunks']))"
    assert int(run(programs, "python", "-c", script).stdout) > 0
    agent = subprocess.run(
        [programs / "crema-agent"],
        env={"PATH": str(programs)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert agent.returncode != 0
    assert "wheels for Linux" in agent.stderr
