"""Bugs put at random into the pure modules, the journal and the store: the tests must find them.

universalmutator changes one line at a time by the rules of ``c.rules``: an operator negated, a bound moved, a statement removed.
Of all these mutants a seeded sample is compiled. One that compiles to the same machine code as the original is not a bug. The
others are given to the test of the module, then to all quick tests, to the simulator, last to the test of the module with address
sanitizer. A survivor is a missing test, unless ``equivalent.txt`` says why nothing can tell it from the original.

usage: ./dev mutants --generic [--sample N] [--seed N] [--only PATTERN] [--jobs N]
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import contextlib
import hashlib
import io
import os
import pathlib
import queue
import random
import re
import resource
import shutil
import subprocess
import sys
import time
from typing import NamedTuple

from universalmutator import mutator

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "unit"))
import layers  # noqa: E402

SHARE = 0.85  # of the mutants that compile, at least so many must be found
TEST_CPU_S = 60  # a test that computes for longer hangs, on a busy machine too
TEST_S = 900  # and one that waits for longer
MEMORY_B = 4 << 30
SEEDS = 400  # histories of the simulator
DURABLE = re.compile(r"sink_(store|journal|segment|tombs|commit|put|fs)\w*")
SANITIZE = "-O1 -w -fsanitize=address,undefined -fno-sanitize-recover=all"
SLOW = r"^(sim|test_power_store(_others)?|test_nth_store|test_sink_(seal|check)|installed_package|layers.*)$"
# A module whose test has another name.
TESTED_BY = (
    ("agg_core_", "test_agg_core"),
    ("agg_access", "test_agg_core_budget"),
    ("agg_members", "test_agg_run"),
    ("agg_messages", "test_agg_core"),
    ("agg_next", "test_agg_core"),
    ("agg_verdict", "test_agg_core_verdict"),
    ("crema_session_", "test_crema_session"),
    ("crema_metrics_", "test_crema_metrics"),
    ("sink_store_", "test_sink_store"),
    ("sink_journal_", "test_sink_journal"),
    ("sink_decoder_", "test_sink_decoder"),
    ("sink_summary_", "test_sink_summary"),
    ("sink_workflow_", "test_sink_summary"),
    ("sink_facts_", "test_sink_facts"),
    ("sink_diagnosis", "test_sink_diagnosis_rules"),
)


class Mutant(NamedTuple):
    """One line of one file, changed."""

    file: str  # relative to the root
    line: int
    was: str
    now: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.was.strip()}  =>  {self.now.strip()}"


class Outcome(NamedTuple):
    """What became of a mutant; `by` is the test that found it."""

    mutant: Mutant
    kind: str  # found, survived, same, broken
    by: str = ""


def modules() -> list[str]:
    """The sources that are mutated: what is pure, and what makes bytes durable."""
    tree = layers.Tree(ROOT)
    return sorted(
        name
        for name in tree.text
        if name.endswith(".c")
        and name.split("/")[0] in layers.SHIPPED
        and (tree.is_pure(name) or DURABLE.fullmatch(pathlib.Path(name).stem))
    )


def mutants_of(file: str) -> list[Mutant]:
    """All mutants of one file, in its order."""
    lines = (ROOT / file).read_text().splitlines(keepends=True)
    with contextlib.redirect_stdout(io.StringIO()):  # it talks
        found = mutator.mutants_regexp(lines, ruleFiles=[str(HERE / "c.rules")], ignorePatterns=[])
    return [Mutant(file, number, lines[number - 1], now) for number, now, *_ in found]


def excuses() -> set[tuple[str, str, str]]:
    """The mutants that ``equivalent.txt`` excuses: file, line before, line after; each with its reason below."""
    said = set()
    for block in (HERE / "equivalent.txt").read_text().split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if not lines:
            continue
        file, was, now, *why = (line.strip() for line in lines)
        if not why or not was.startswith("- ") or not now.startswith("+ "):
            sys.exit(
                f"equivalent.txt: an entry is a file, '- before', '+ after', and why; not {block!r}"
            )
        said.add((file, was[2:], now[2:]))
    return said


def _limit_cpu() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (TEST_CPU_S, TEST_CPU_S))


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_B, MEMORY_B))
    _limit_cpu()


class Bench:
    """A copy of the tree with a build of its own, for one mutant at a time."""

    def __init__(self, number: int) -> None:
        self.source = ROOT / "build" / "mutation" / str(number) / "source"
        self.build = self.source.parent / "build"
        shutil.rmtree(self.source, ignore_errors=True)
        self.source.mkdir(parents=True)
        for name in ("CMakeLists.txt", *layers.FOLDERS, "packaging", "python", "docs"):
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
            if (ROOT / name).exists():
                copy(ROOT / name, self.source / name)
        self.sanitized = self.source.parent / "sanitized"
        self._configure(self.build, "-O1 -w")
        self._configure(self.sanitized, SANITIZE)
        self._run("ninja", "-C", self.build)
        self.tests = set(re.findall(r"Test +#\d+: (\S+)", self._run("ctest", "-N").stdout))

    def _configure(self, build: pathlib.Path, flags: str) -> None:
        self._run(
            "cmake", "-S", self.source, "-B", build, "-G", "Ninja", f"-DCMAKE_C_FLAGS={flags}",
            "-DCMAKE_BUILD_TYPE=None", "-DCMAKE_COMPILE_WARNING_AS_ERROR=OFF", "-DCREMA_FAILPOINTS=ON",
            "-DCMAKE_C_COMPILER_LAUNCHER=ccache" if shutil.which("ccache") else "-Wno-dev",
        )  # fmt: skip

    def _run(self, *command, timeout: float = 7200, check: bool = True, limit=_limit):
        done = subprocess.run(
            [str(c) for c in command],
            cwd=self.build if self.build.exists() else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
            preexec_fn=limit,
        )
        if check and done.returncode:
            sys.exit(f"mutation: {' '.join(map(str, command))} failed:\n{done.stdout[-4000:]}")
        return done

    def _object(self, file: str) -> bytes | None:
        """The machine code of a source; None if it does not compile."""
        folder, name = file.split("/", 1)
        library = "crema" if folder == "proto" else f"crema_{folder}"
        target = f"{folder}/CMakeFiles/{library}.dir/{name}.o"
        if self._run("ninja", target, check=False).returncode:
            return None
        return hashlib.sha256((self.build / target).read_bytes()).digest()

    def _fails(self, pattern: str, exclude: str = "^$") -> str:
        """The first of these tests that fails, and fails again; empty if none does."""
        while bad := self._first_failure(pattern, exclude):
            if self._first_failure(f"^{bad}$", "^$"):
                return bad
            exclude = f"{exclude}|^{bad}$"  # it was the machine
        return ""

    def _first_failure(self, pattern: str, exclude: str) -> str:
        done = self._run(
            "ctest", "-R", pattern, "-E", exclude, "--stop-on-failure", "--timeout", TEST_S, "-j", 1,
            check=False,
        )  # fmt: skip
        bad = re.search(r"^\s*\d+ - (\S+) \((?!Not Run)", done.stdout, re.MULTILINE)
        return bad[1] if bad else ""

    def _sim_fails(self) -> bool:
        command = ("timeout", TEST_S, self.build / "bin" / "sim", "--seeds", SEEDS, "--first", 1)
        return self._run(*command, check=False).returncode != 0

    def _sanitizer_fails(self, test: str) -> bool:
        self._run("ninja", "-C", self.sanitized, test)
        command = ("timeout", TEST_S, self.sanitized / "bin" / test)  # it maps more than any limit
        return self._run(*command, check=False, limit=_limit_cpu).returncode != 0

    def _own_test(self, file: str) -> str:
        stem = pathlib.Path(file).stem
        own = f"test_{stem}"
        if own not in self.tests:
            own = next((test for start, test in TESTED_BY if stem.startswith(start)), "")
        return own if own in self.tests else ""

    def judge(self, mutant: Mutant) -> Outcome:
        """Compile the mutant and give it to the tests, the likeliest first."""
        path = self.source / mutant.file
        original = path.read_text()
        before = self._object(mutant.file)
        lines = original.splitlines(keepends=True)
        lines[mutant.line - 1] = mutant.now
        path.write_text("".join(lines))
        try:
            after = self._object(mutant.file)
            if after is None:
                return Outcome(mutant, "broken")
            if after == before:
                return Outcome(mutant, "same")
            own = self._own_test(mutant.file)
            if own:
                self._run("ninja", own)
                if by := self._fails(f"^{own}$"):
                    return Outcome(mutant, "found", by)
            self._run("ninja")
            if by := self._fails(".", SLOW):
                return Outcome(mutant, "found", by)
            if self._sim_fails():
                return Outcome(mutant, "found", "sim")
            if by := self._fails("test_power_store|test_sink_(seal|check)$"):
                return Outcome(mutant, "found", by)
            if own and self._sanitizer_fails(own):
                return Outcome(mutant, "found", f"{own} with address sanitizer")
            return Outcome(mutant, "survived")
        finally:
            path.write_text(original)


def judge_all(sample: list[Mutant], jobs: int) -> list[Outcome]:
    """Judge mutants on several benches at once, and say what becomes of each."""
    benches: queue.Queue[Bench] = queue.Queue()
    for number in range(jobs):
        benches.put(Bench(number))

    def one(mutant: Mutant) -> Outcome:
        bench = benches.get()
        try:
            return bench.judge(mutant)
        finally:
            benches.put(bench)

    outcomes = []
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for done in concurrent.futures.as_completed(pool.submit(one, m) for m in sample):
            outcome = done.result()
            outcomes.append(outcome)
            by = f" by {outcome.by}" if outcome.by else ""
            print(
                f"{len(outcomes):4}/{len(sample)} {time.monotonic() - began:6.0f} s  "
                f"{outcome.kind}{by}  {outcome.mutant}",
                flush=True,
            )
    return outcomes


def main() -> int:
    """Draw, judge, and compare with what is asked for."""
    parser = argparse.ArgumentParser(
        prog="./dev mutants --generic", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("--sample", type=int, default=300, help="mutants to draw (300)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (1)")
    parser.add_argument("--only", default="", help="regular expression: of these files only")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="at the same time")
    options = parser.parse_args()

    every = [m for file in modules() if re.search(options.only, file) for m in mutants_of(file)]
    sample = random.Random(options.seed).sample(every, min(options.sample, len(every)))
    print(f"{len(sample)} of {len(every)} mutants, seed {options.seed}", flush=True)
    outcomes = judge_all(sample, options.jobs)

    excused = excuses()
    survivors = [o.mutant for o in outcomes if o.kind == "survived"]
    missed = [m for m in survivors if (m.file, m.was.strip(), m.now.strip()) not in excused]
    count = collections.Counter(o.kind for o in outcomes)
    real = count["found"] + len(missed)
    share = count["found"] / real if real else 0.0
    print(
        f"\n{count['broken']} do not compile, {count['same']} are the same machine code, "
        f"{len(survivors) - len(missed)} are excused; of the other {real} the tests find {count['found']}: {share:.1%}"
    )
    for mutant in sorted(missed):
        print(f"  survives: {mutant}")
    return 0 if share >= SHARE else 1


if __name__ == "__main__":
    sys.exit(main())
