"""A locale of ASCII alone, as in a cron job or a container: names and signs beyond it raise nothing, and the run file is found."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

import hook_support

RUN = """
import sys
import crema, hook_support
from coffea import processor

class Zähler(hook_support.Counter):
    pass

assert sys.getfilesystemencoding() == "ascii", sys.getfilesystemencoding()
fileset, output = eval(sys.argv[1]), sys.argv[2]
instance = Zähler()
with crema.MetricsCollector(
    processor_instance=instance, output=output or "läuft", report="full", run_label="Größe ─",
    attributes={"ort": "Zürich"},
) as mc:
    hook_support.run(processor.IterativeExecutor(status=False), mc.checkpointer, fileset, instance)
assert (mc.verdict, mc.reasons) == ("COMPLETE", []), ascii(mc.reasons)
assert mc.path is not None and mc.path.is_file(), ascii(str(mc.path))
mc.print_summary()
print(mc, mc.path, mc.report())
with crema.open(mc.path) as run:
    assert len(run["chunks"]) == 9 and run.attributes["ort"] == "Zürich"
    assert run.attributes["run_label"] == "Größe ─"
    print(run, run.plot)
assert crema.newest(output or "läuft") == mc.path
"""

ASCII = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.parametrize("locale", ["C", pytest.param("POSIX", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "given", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["argument", "literal"]
)
def test_a_run_in_an_ascii_locale(tmp_path, locale, given):
    environment = os.environ | ASCII | {"LC_ALL": locale}
    environment |= {"PYTHONPATH": str(pathlib.Path(hook_support.__file__).parent)}
    environment.pop("PYTHONIOENCODING", None)
    (tmp_path / "run.py").write_text(RUN, encoding="utf-8")

    def run(*command):
        done = subprocess.run(command, capture_output=True, env=environment, cwd=tmp_path)
        assert done.returncode == 0, done.stderr[-3000:].decode(errors="replace")
        assert b"UnicodeEncodeError" not in done.stderr and b"Traceback" not in done.stderr
        assert b"run file is" not in done.stderr, done.stderr  # it is said where it cannot be shown

    output = tmp_path / "läuft"
    fileset = hook_support.make_files(tmp_path)
    run(sys.executable, "run.py", repr(fileset), str(output) if given else "")
    (file,) = output.glob("*.h5")
    if locale == "C" and given:
        command = pathlib.Path(sys.executable).parent / "crema"
        for arguments in (["show"], ["show", "--all"], ["report"], ["check"]):
            run(command, *arguments, file)
        run(command, "diff", file, file)
        run(command, "runs", output)
