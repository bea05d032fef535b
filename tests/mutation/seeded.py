#!/usr/bin/env python3
"""Puts the bugs of seeded.txt into a copy of the tree, one at a time: the simulator and the tests must find each of them.

usage: ./dev mutants [NUMBER...]   exit 1 if a bug survives, or if a test fails without any
       seeded.py --check           whether each bug can still be put into the sources; builds nothing
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORK = ROOT / "build" / "mutants"
FOLDERS = ("proto", "agent", "aggregator", "sink", "tests")
SEEDS = os.environ.get("SEEDS", "6000")  # histories of the simulator
TARGETS = {"sim": "sim_main"}  # whose program has another name


@dataclasses.dataclass
class Bug:
    """What is wrong, what finds it, and how to make it: file, lines before, lines after."""

    number: int
    finder: str
    text: str
    edits: list[tuple[str, str, str]]

    def made_in(self, root: pathlib.Path) -> dict[str, str]:
        """The files that have it, with their texts."""
        texts: dict[str, str] = {}
        for file, before, after in self.edits:
            text = texts.get(file) or (root / file).read_text()
            if text.count(before) != 1:
                raise ValueError(
                    f"bug {self.number}: {file} has these lines {text.count(before)} times, not once:\n{before}"
                )
            texts[file] = text.replace(before, after)
        return texts


def _edits(lines: list[str]) -> list[tuple[str, str, str]]:
    edits: list[tuple[str, str, str]] = []
    file = ""
    body = "\n".join(lines) + "\n"
    for part in re.finditer(r"^((?:-.*\n)+)((?:\+.*\n)*)|^([^-+\n].*)\n", body, re.MULTILINE):
        if part[3]:
            file = part[3]
        else:
            before, after = (re.sub(r"^[-+]", "", part[i], flags=re.MULTILINE) for i in (1, 2))
            edits.append((file, before, after))
    return edits


def bugs() -> list[Bug]:
    """All of seeded.txt."""
    found = []
    for block in (HERE / "seeded.txt").read_text().split("\n\n"):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        if lines:
            number, finder, text = re.fullmatch(r"(\d+) (\w+): (.*)", lines[0]).groups()
            found.append(Bug(int(number), finder, text, _edits(lines[1:])))
    return found


def _run(*command: str | pathlib.Path) -> subprocess.CompletedProcess:
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


def _prepare() -> pathlib.Path:
    """A copy of the sources, and a build of it."""
    source = WORK / "source"
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    for name in ("CMakeLists.txt", *FOLDERS, "packaging", "python", "docs"):
        if (ROOT / name).is_dir():  # as of now: what the last run built is of other sources
            shutil.copytree(ROOT / name, source / name, copy_function=shutil.copy)
        else:
            shutil.copy(ROOT / name, source / name)
    launcher = "ccache" if shutil.which("ccache") else ""
    done = _run(
        "cmake", "-S", source, "-B", WORK / "build", "-G", "Ninja", "-DCMAKE_C_FLAGS=-O1 -w",
        "-DCMAKE_BUILD_TYPE=None", f"-DCMAKE_C_COMPILER_LAUNCHER={launcher}",
    )  # fmt: skip
    if done.returncode:
        sys.exit(done.stdout)
    return source


def _found_by(finder: str) -> str:
    """The line in which the program says what is wrong; empty if it finds nothing."""
    built = _run("ninja", "-C", WORK / "build", TARGETS.get(finder, finder))
    if built.returncode:
        sys.exit(f"mutants: {finder} cannot be built:\n{built.stdout}")
    arguments = ("--seeds", SEEDS, "--first", "1") if finder == "sim" else ()
    done = _run(WORK / "build" / "bin" / finder, *arguments)
    if not done.returncode:
        return ""
    said = (line for line in done.stdout.splitlines() if re.match(r"seed|.*ERROR", line))
    return next(said, f"exit status {done.returncode}")


def main(arguments: list[str]) -> int:
    """Check or prove."""
    known = bugs()
    if arguments == ["--check"]:
        for bug in known:
            bug.made_in(ROOT)
        return 0
    source = _prepare()
    chosen = [bug for bug in known if not arguments or str(bug.number) in arguments]
    for finder in sorted({bug.finder for bug in chosen}):
        if said := _found_by(finder):
            sys.exit(f"mutants: {finder} fails without any bug: {said}")
    survivors = 0
    for bug in chosen:
        texts = bug.made_in(source)
        sound = {file: (source / file).read_text() for file in texts}
        for file, text in texts.items():
            (source / file).write_text(text)
        said = _found_by(bug.finder)
        for file, text in sound.items():
            (source / file).write_text(text)
        survivors += not said
        how = (
            f"found by {bug.finder}, {said[:90]}" if said else f"SURVIVES {bug.finder}: {bug.text}"
        )
        print(f"mutant {bug.number:2} {how}", flush=True)
    print(f"mutants: {survivors} of {len(chosen)} survive")
    return survivors > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
