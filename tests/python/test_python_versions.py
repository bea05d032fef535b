"""What differs between CPython 3.11 and 3.14 where the package relies on it; runs on whichever is there.

- An automatic collection waits for the eval loop since 3.12 (`_Py_HandlePending()` in Python/ceval_gil.c), where it ran inside an
  allocation; 3.14.0 collects in increments (`gc_collect_increment()` in Python/gc.c). All of them go on calling `gc.callbacks` with
  "start" and "stop" in the collecting thread.
- `frame.f_locals` of a function is a view of the frame since 3.13 (`_PyFrameLocalsProxy_New()` in Objects/frameobject.c), before it
  a dictionary.
- The GIL is at the start of `_PyRuntime` in 3.11 (`_ceval_runtime_state` in Include/internal/pycore_runtime.h), and since 3.12 in the
  main interpreter, which `_PyRuntime` contains (`_gil` in Include/internal/pycore_interp.h): 0.4 KiB from its beginning in 3.11.7,
  76 KiB in 3.12.1, 94 KiB in 3.13.0. The switch interval is the GIL's (`_PyEval_SetSwitchInterval()` in Python/ceval_gil.c).
- 3.12 to 3.14 warn about more names and more syntax, which `-W error` makes exceptions: `OUTDATED`, `GONE`, and
  `control_flow_in_finally_warning()` in Python/ast_preprocess.c of 3.14.
"""

from __future__ import annotations

import ast
import pathlib
import subprocess
import sys
import time
import warnings

from crema.hook import _input, _kernel, _process
from paths import ROOT

SOURCES = sorted((ROOT / "python/crema").rglob("*.py"))

# Names by module; behind each the source that warns, or says so, and its version.
OUTDATED = {
    "asyncio": "iscoroutinefunction "  # Lib/asyncio/coroutines.py 3.14
    "get_event_loop_policy set_event_loop_policy AbstractEventLoopPolicy",  # Lib/asyncio/events.py 3.14
    "datetime": "utcnow utcfromtimestamp",  # Lib/_pydatetime.py 3.12
    "shutil": "onerror",  # Lib/shutil.py 3.12, in the documentation of rmtree()
    "os": "fork forkpty",  # of a process with threads: warn_about_fork_with_threads() in Modules/posixmodule.c 3.12
    "pty": "fork",  # it calls os.forkpty()
    "locale": "getdefaultlocale resetlocale",  # Lib/locale.py 3.11; the second is gone in 3.13
    "ast": "Num Str Bytes NameConstant Ellipsis",  # _deprecated_globals in Lib/ast.py 3.12
    "importlib": "find_loader",  # gone from Lib/importlib/__init__.py in 3.12
    "pkgutil": "find_loader get_loader",  # Lib/pkgutil.py 3.12
    "logging": "warn",  # Lib/logging/__init__.py 3.11
}
GONE = {
    *("imp", "asynchat", "asyncore", "distutils", "smtpd"),  # Lib/ of 3.12 has them no more
    *("cgi", "crypt", "pipes", "telnetlib", "uu", "nntplib"),  # that of 3.13
}


def outdated_in(path: pathlib.Path) -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tree = ast.parse(path.read_text(), str(path))
        compile(tree, str(path), "exec")
    found = []
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and node.attr in OUTDATED.get(ast.unparse(node.value), "").split()
        ):
            found.append(ast.unparse(node))
        if isinstance(node, ast.Import | ast.ImportFrom):
            found += (
                {a.name for a in node.names} & GONE
                if isinstance(node, ast.Import)
                else {node.module} & GONE
            )
        if isinstance(node, ast.keyword) and node.arg == "onerror":
            found.append("onerror=")
        if isinstance(node, ast.Try):
            leaving = [
                n
                for f in node.finalbody
                for n in ast.walk(f)
                if isinstance(n, ast.Return | ast.Break | ast.Continue)
            ]
            found += ["a return that leaves finally"] * bool(leaving)
    return found


def test_sources_use_nothing_that_later_versions_warn_about():
    assert {p.name: outdated_in(p) for p in SOURCES if outdated_in(p)} == {}


def test_package_itself_gives_no_warning_when_it_is_imported():
    module = "(\\w+\\.)*crema"
    code = f"import warnings; warnings.filterwarnings('error', module={module!r}); import crema, crema.hook.worker, crema.collect.collector"
    subprocess.run([sys.executable, "-c", code], check=True)


RECORDS = """
import sys, warnings
warnings.filterwarnings("error", module=r"(\\w+\\.)*crema(\\..*)?")
import crema
with crema.MetricsCollector(output=sys.argv[1], quiet=True) as mc:
    with crema.track_time("section"):
        crema.record_metric("crumbs", 3)
with crema.open(mc.path) as run:
    print(mc.verdict, len(run["custom"]), len(run["sections"]))
"""


def test_a_run_gives_no_warning(tmp_path):
    """Also none that crema would log or drop as an error of its own: then a record, or the file, is missing."""
    command = [sys.executable, "-c", RECORDS, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert (done.stdout.split(), done.stderr) == (["COMPLETE", "1", "1"], "")


def test_the_gil_is_in_the_state_of_the_interpreter():
    assert _kernel._state, "where it begins is not known"
    found = {_kernel.find_gil() for _ in range(5)} - {0}
    assert found
    assert all(map(_kernel.is_of_interpreter, found)), [hex(at - _kernel._state) for at in found]
    assert not _kernel.is_of_interpreter(_kernel._state + _kernel._STATE_BYTES)


def test_factory_of_callers_is_found_in_the_frame_of_another_function():
    def _work_function(factory, nested):
        return nested()

    made = object()
    assert _work_function(made, lambda: _input.factory_of_callers()) is made
    assert _input.factory_of_callers() is None


def test_factory_of_callers_is_found_where_a_closure_keeps_it():
    def _work_function(factory):
        return (lambda: factory and _input.factory_of_callers())()

    made = object()
    assert _work_function(made) is made


def test_garbage_clock_sees_the_collections_that_python_starts_itself():
    clock = _process.garbage
    clock.start()
    try:
        before_ns = clock.ns()
        cpu_ns = time.thread_time_ns()
        deadline = time.monotonic() + 30
        while clock.ns() == before_ns and time.monotonic() < deadline:
            cycles = [[] for _ in range(10_000)]
            for cycle in cycles:
                cycle.append(cycle)
        collected_ns = clock.ns() - before_ns
        assert 0 < collected_ns <= time.thread_time_ns() - cpu_ns
    finally:
        clock.stop()
