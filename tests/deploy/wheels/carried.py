"""A Python that a system too old to have one can run: this one, with the C library that it was built for beside it.

The programs of a wheel are not part of it: they run with the C library of the system that they find themselves on.
"""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig

LOADER = re.compile(r"^\s*(/\S*/ld-linux\S*) ", re.MULTILINE)
NEEDED = re.compile(r"=> (/(?:usr/)?lib/\S+) ")
LATE = ("libnss_files.so.2", "libnss_dns.so.2", "libresolv.so.2", "libgcc_s.so.1")  # by dlopen
NOT_NEEDED = shutil.ignore_patterns(
    "test", "tests", "idlelib", "lib2to3", "config-*", "dist-packages"
)


def carry(folder: pathlib.Path, at: pathlib.PurePath, packages: pathlib.Path) -> None:
    """Put a Python into `folder`, as `bin/python` to be found at `at`, that can load the extensions in `packages`."""
    (folder / "bin").mkdir(parents=True)
    libraries = folder / "libraries"
    libraries.mkdir()
    stdlib = pathlib.Path(sysconfig.get_path("stdlib"))
    shutil.copytree(stdlib, folder / "lib" / stdlib.name, ignore=NOT_NEEDED)
    python = folder / "bin" / "python"
    shutil.copy(pathlib.Path(sys._base_executable).resolve(), python)

    needed, loader = _needed([python, *folder.rglob("*.so"), *packages.rglob("*.so*")])
    beside = {loader.parent / name for name in LATE} | {
        pathlib.Path("/lib", sysconfig.get_config_var("MULTIARCH") or "", name) for name in LATE
    }
    for library in {*needed, *filter(pathlib.Path.exists, beside)}:
        shutil.copy(library.resolve(), libraries / library.name)
    shutil.copy(loader.resolve(), libraries / loader.name)
    # What the extensions need is loaded first: some look for it in places of their own only.
    names = sorted(file.name for file in libraries.iterdir() if file.name != loader.name)
    patch(python, *(word for name in names for word in ("--add-needed", name)))
    patch(python, "--set-interpreter", at / "libraries" / loader.name)
    patch(
        python, "--force-rpath", "--set-rpath", at / "libraries"
    )  # RUNPATH is not for what those load


def patch(program: pathlib.Path, *words: str | pathlib.PurePath) -> None:
    subprocess.run(["patchelf", *words, program], check=True)


def _needed(files: list[pathlib.Path]) -> tuple[set[pathlib.Path], pathlib.Path]:
    """Libraries of this system that the files are linked with, and its loader."""
    said = subprocess.run(["ldd", *files], capture_output=True, text=True, check=False).stdout
    return set(map(pathlib.Path, NEEDED.findall(said))), pathlib.Path(LOADER.search(said)[1])
