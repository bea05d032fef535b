"""macOS and Windows have no pipeline: there a run file is read, plotted and reported, and an analysis runs unrecorded."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig

import pytest

import crema
from paths import ROOT

SYSTEMS = ("macos", "windows")
HELPERS = ROOT / "tests" / "lib"


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """Directory of the package as the wheel for these systems has it: without programs."""
    site = tmp_path_factory.mktemp("site")
    for part in crema.__path__:  # two directories when the installation is editable
        ignored = shutil.ignore_patterns("bin", "__pycache__")
        shutil.copytree(part, site / "crema", ignore=ignored, dirs_exist_ok=True)
    return site


def run(system, script, *words, cwd, package):
    """A script in an interpreter that lacks what `system` does."""
    start = f"import other_systems, pathlib, sys; other_systems.pretend({system!r})\nimport crema\n"
    places = map(str, (package, HELPERS, sysconfig.get_path("purelib")))
    done = subprocess.run(
        # -S: what makes the installation here an editable one would come first.
        [sys.executable, "-S", "-c", f"{start}{script}", *map(str, words)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places), "MPLBACKEND": "agg", "PATH": ""},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize(
    "system", [SYSTEMS[0], *(pytest.param(s, marks=pytest.mark.slow) for s in SYSTEMS[1:])]
)
def test_a_run_file_is_read_plotted_and_reported(system, measured, package, tmp_path):
    said = run(
        system,
        """
from crema.read.command import main
with crema.open(sys.argv[1]) as run:
    print(run.verdict, len(run["chunks"]), len(run.summary()))
    run.plot.waterfall().figure.savefig("waterfall.png")
    run.plot.task_stream().figure.savefig("stream.png")
print(len(crema.runs(pathlib.Path(sys.argv[1]).parent)), "runs")
main(["report", sys.argv[1], "-o", "page.html"], standalone_mode=False)
main(["show", sys.argv[1]], standalone_mode=False)
""",
        measured.path,
        cwd=tmp_path,
        package=package,
    ).stdout
    assert "COMPLETE" in said and "1 runs" in said
    assert (tmp_path / "waterfall.png").stat().st_size > 5000
    assert "COMPLETE" in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("system", SYSTEMS)
def test_an_analysis_runs_unrecorded_and_one_line_says_what_recording_needs(
    system, package, tmp_path
):
    done = run(
        system,
        """
assert not any(pathlib.Path(part, "bin").exists() for part in crema.__path__)
@crema.track_metrics
def process(events):
    with crema.track_time("jets"), crema.track_memory("jets"):
        crema.record_metric("jets", events, "count")
    return events + 1
with crema.MetricsCollector() as mc:
    print(process(1), "events")
print(mc.verdict)
(needed, *_) = crema.doctor()
print(needed.status, "Linux" in str(needed))
""",
        cwd=tmp_path,
        package=package,
    )
    assert done.stdout == "2 events\nUNKNOWN\nproblem True\n"
    lines = [line for line in done.stderr.splitlines() if "Linux" in line]
    assert len(lines) == 1 and "Traceback" not in done.stderr, done.stderr
    assert "x86_64 and aarch64" in lines[0]
