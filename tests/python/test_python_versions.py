"""What differs between CPython 3.11 and 3.14 where the package relies on it; runs on whichever is there.

- 3.12: an automatic collection waits for the eval loop instead of running inside an allocation; 3.14 collects in increments.
  Both go on calling `gc.callbacks` with "start" and "stop" in the collecting thread.
- 3.13: `frame.f_locals` is a view of the frame (PEP 667) instead of a dictionary.
- 3.13: the GIL is elsewhere within `_PyRuntime`, and `sys.getswitchinterval` holds per interpreter.
- 3.12 to 3.14 warn about more names and more syntax, which `-W error` makes exceptions.
"""

from __future__ import annotations

import ast
import pathlib
import subprocess
import sys
import time
import warnings

from crema.hook import _input, _process
from paths import ROOT

SOURCES = sorted((ROOT / "python/crema").rglob("*.py"))

# Deprecated or removed in 3.12, 3.13 or 3.14, by the pages "What's New" of these versions.
OUTDATED = {
    "asyncio": "iscoroutinefunction get_event_loop_policy set_event_loop_policy AbstractEventLoopPolicy",
    "datetime": "utcnow utcfromtimestamp",
    "shutil": "onerror",
    "os": "fork forkpty popen spawnv",  # a fork of a process with threads warns since 3.12
    "pty": "fork",
    "locale": "getdefaultlocale resetlocale",
    "sys": "last_type last_value last_traceback",
    "ast": "Num Str Bytes NameConstant Ellipsis",
    "importlib": "find_loader",
    "pkgutil": "find_loader get_loader",
    "logging": "warn",
    "gc": "freeze",
}
GONE = {
    "imp",
    "asynchat",
    "asyncore",
    "distutils",
    "smtpd",
    "cgi",
    "crypt",
    "pipes",
    "telnetlib",
    "uu",
    "nntplib",
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
