"""The wheel for the other processor: an analysis measured with its programs under qemu and the C library of an old system."""

from __future__ import annotations

import os
import pathlib
import platform
import re
import shutil
import subprocess
import zipfile

import pytest

from conftest import NATIVE, ROOT, name_of

SUITE, GLIBC = "bullseye", "2.31"
FOREIGN = [w for w in NATIVE if not w.name.endswith(f"_{platform.machine()}.whl")]

# In place of each program: the same words, and qemu in front.
LAUNCHER = r"""
#include <string.h>
#include <unistd.h>
int main(int count, char **words)
{
    char *all[count + 4];
    all[0] = words[0];
    all[1] = "-L";
    all[2] = ROOT;
    all[3] = PROGRAM;
    memcpy(all + 4, words + 1, (size_t) count * sizeof *words);
    execv("/usr/bin/qemu-aarch64", all);
    return 127;
}
"""


@pytest.fixture(scope="module")
def system(tmp_path_factory) -> pathlib.Path:
    """The C library of a system for that processor."""
    work = tmp_path_factory.mktemp("system")
    lines = subprocess.check_output([ROOT / "packaging" / "debian-archive.sh", SUITE], text=True)
    sources = work / "sources.list"
    sources.write_text("\n".join(x for x in lines.splitlines() if "security" not in x) + "\n")
    words = ["mmdebstrap", "--quiet", "--variant=extract", "--architectures=arm64"]
    words += [
        "--include=libc6",
        '--aptopt=Acquire::Check-Valid-Until "false"',
        "--format=directory",
    ]
    root = work / "root"
    subprocess.run([*words, SUITE, root, sources], check=True, capture_output=True)
    for other in set(root.iterdir()) - {
        root / "lib"
    }:  # what is there, qemu opens in place of this system's
        shutil.rmtree(other)
    assert (root / f"lib/aarch64-linux-gnu/libc-{GLIBC}.so").exists()
    return root


@pytest.fixture(params=FOREIGN, ids=name_of)
def package(request, system, tmp_path) -> pathlib.Path:
    """Directory of the wheel's package, whose programs this machine can start."""
    with zipfile.ZipFile(request.param) as files:
        files.extractall(tmp_path / "package")
    for program in (tmp_path / "package" / "crema" / "bin").glob("crema-*"):
        real = tmp_path / program.name
        program.rename(real).chmod(0o755)
        words = [f'-DROOT="{system}"', f'-DPROGRAM="{real}"', "-x", "c", "-", "-o", str(program)]
        subprocess.run(["cc", "-Wall", *words], input=LAUNCHER, text=True, check=True)
    return tmp_path / "package"


@pytest.mark.timeout(1800)
def test_an_analysis_is_measured_with_programs_of_another_processor(package, measured, capsys):
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "CREMA_"))}
    variables |= {"PATH": "/nowhere", "PYTHONPATH": str(package)}
    words = ["-m", "crema.demo", "--events", "20000", "--output", str(package)]
    began = [measured.programs / "python", *words, "--cache", str(measured.work)]
    done = subprocess.run(
        began, env=variables, cwd=package, capture_output=True, text=True, timeout=900, check=False
    )
    # A program in qemu cannot start itself for sealing; what the collector says to do then is done.
    said = done.stdout + done.stderr
    by_hand = re.search(r"by hand: crema-sink (rebuild \S+ --output \S+)", said)
    assert by_hand, said
    programs = package / "crema" / "bin"
    sealed = subprocess.check_output([programs / "crema-sink", *by_hand[1].split()], text=True)
    assert "COMPLETE" in sealed
    shutil.rmtree(pathlib.Path(by_hand[1].split()[1]).parents[1])
    agent = subprocess.check_output([programs / "crema-agent", "--version"], text=True).strip()
    with capsys.disabled():
        print(f"\nmeasured: {agent} and the others under qemu, glibc {GLIBC}: {sealed.strip()}")
