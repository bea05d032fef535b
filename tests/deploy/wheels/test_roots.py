"""The wheel for this machine in minimal systems as old as can be had: the programs, and an analysis from its start to its run file.

There is no compiler, no network and no root there, and nothing can be written but /tmp.
"""

from __future__ import annotations

import pathlib
import re
import subprocess

import pytest
from carried import carry

from conftest import ROOT

PYTHON, PACKAGES = pathlib.PurePath("/opt/python"), pathlib.PurePath("/opt/packages")
UNPACKED = (
    "crema-old-root"  # of an archive's packages that are only unpacked: a C library and a shell
)
SYSTEMS = {  # with their glibc
    f"{UNPACKED}:xenial": "2.23",
    "debian:bullseye-slim": "2.31",
    "debian:bookworm-slim": "2.36",
}

SCRIPT = f"""
set -e
test "$(id -u)" = 1000
if command -v cc gcc clang make python3; then exit 1; fi
for name in agent aggregator sink; do
    {PACKAGES}/crema/bin/crema-$name --version
    /lib64/ld-linux-x86-64.so.2 --list {PACKAGES}/crema/bin/crema-$name
done
/lib/x86_64-linux-gnu/libc.so.6 | head -n 1
export HOME=/tmp PYTHONHOME={PYTHON} PYTHONPATH={PACKAGES} PYTHONDONTWRITEBYTECODE=1
{PYTHON}/bin/python -m crema.demo --events 20000 --cache /tmp --output /tmp
{PYTHON}/bin/python -c 'from crema.read.command import main; main()' check /tmp/*.h5
"""


@pytest.fixture(scope="module")
def python(measured, tmp_path_factory) -> pathlib.Path:
    if docker("version").returncode != 0:
        pytest.skip("no container engine answers here")
    folder = tmp_path_factory.mktemp("carried") / "python"
    carry(folder, PYTHON, packages_of(measured))
    return folder


def packages_of(measured) -> pathlib.Path:
    return next(measured.programs.parent.glob("lib/python3.*/site-packages"))


def have(image: str, work: pathlib.Path) -> None:
    name, suite = image.split(":")
    if name != UNPACKED:
        subprocess.run([ROOT / "compose" / "base-image.sh", image], check=True, capture_output=True)
    elif docker("image", "inspect", image).returncode != 0:
        root = work / "root.tar"
        make = [ROOT / "packaging" / "old-root.sh", suite, root]
        made = subprocess.run(make, capture_output=True, text=True, check=False)
        assert made.returncode == 0, made.stderr
        assert docker("import", root, image).returncode == 0


def docker(*words: str | pathlib.Path) -> subprocess.CompletedProcess:
    return subprocess.run(["docker", *words], capture_output=True, check=False)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("image", SYSTEMS)
def test_an_analysis_is_measured_on_an_old_system(image, python, measured, tmp_path, capsys):
    have(image, tmp_path)
    words = ["docker", "run", "--rm", "--network=none", "--user=1000:1000", "--read-only", "--init"]
    words += ["--cap-drop=ALL", "--security-opt=no-new-privileges", "--tmpfs=/tmp:mode=1777"]
    words += [f"--volume={python}:{PYTHON}:ro", f"--volume={packages_of(measured)}:{PACKAGES}:ro"]
    done = subprocess.run(
        [*words, image, "sh", "-c", SCRIPT],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "COMPLETE" in done.stderr + done.stdout
    version = re.search(r"release version ([0-9.]+)", done.stdout)[1].rstrip(".")
    assert version == SYSTEMS[image]
    loaded = set(re.findall(r"=> (\S+)", done.stdout))
    assert "/lib/x86_64-linux-gnu/libc.so.6" in loaded and not [x for x in loaded if "/opt" in x]
    with capsys.disabled():
        print(f"\nmeasured: {image}, glibc {version}: an analysis measured, COMPLETE")
