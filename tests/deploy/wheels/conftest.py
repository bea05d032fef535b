"""Environments as users have them: empty, without compilers, with a wheel of dist/ in them; and a run measured in one."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import platform
import resource
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
WHEELS = sorted((ROOT / "dist").glob("coffea_crema-*.whl"))
NATIVE = [wheel for wheel in WHEELS if "manylinux" in wheel.name]
PURE = [wheel for wheel in WHEELS if wheel.name.endswith("-none-any.whl")]


def name_of(wheel: pathlib.Path) -> str:
    return wheel.stem.rsplit("-", 1)[1]


def environment(path: pathlib.Path, *requirements: str | pathlib.Path) -> pathlib.Path:
    """An empty one with pip and `requirements`; returns its directory of programs."""
    subprocess.run([sys.executable, "-m", "venv", path], check=True)
    install(path / "bin", *requirements)
    return path / "bin"


def install(programs: pathlib.Path, *requirements: str | pathlib.Path) -> None:
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


@dataclasses.dataclass
class Measured:
    """The demonstration's analysis, measured with the wheel for this machine."""

    programs: pathlib.Path  # of the environment
    work: pathlib.Path  # with its input files
    path: pathlib.Path  # of the run file
    said: str
    installed_s: float
    took_s: float  # from the end of the installation to the verdict
    cpu_s: float  # of both
    busy: bool  # the cores had other work


@pytest.fixture(scope="session")
def measured(tmp_path_factory) -> Measured:
    wheel = next((w for w in NATIVE if w.name.endswith(f"_{platform.machine()}.whl")), None)
    if wheel is None:
        pytest.skip(f"dist/ has no wheel for {platform.machine()}")
    work = tmp_path_factory.mktemp("native")
    programs = environment(work / "venv", "coffea[dask]", "hist")
    busy, cpu_s = os.getloadavg()[0] > (os.cpu_count() or 1), children_cpu_s()
    began = time.monotonic()
    install(programs, wheel)
    installed = time.monotonic()
    words = ("--events", "50000", "--cache", str(work), "--output", str(work))
    done = run(programs, "python", "-m", "crema.demo", *words, cwd=work)
    took_s = time.monotonic() - installed
    return Measured(
        programs,
        work,
        path=next(work.glob("*.h5")),
        said=done.stdout + done.stderr,
        installed_s=installed - began,
        took_s=took_s,
        cpu_s=children_cpu_s() - cpu_s,
        busy=busy,
    )


def children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
