"""What holds of every module of tests in Python.

The name of a test begins with what is tested: a list of tests, and of those that failed, is read by its first words. What two
modules share is in tests/lib: a module of tests finds another one only where pytest has read a test of that one's folder before.
"""

from __future__ import annotations

import ast
import re

from paths import ROOT

# They ask, deny, point elsewhere or say when: the subject comes later, or never.
NO_SUBJECT = """
    what whatever who whoever whom whose where wherever when whenever why how
    nothing nobody no none neither it its they them there that so
    of to in into within with without while if until unless because although though
    after before behind between above below beside under over during since as by on at from for
    only also even both
"""

MODULES = sorted((ROOT / "tests").rglob("test_*.py"))


def without_subject(source: str) -> list[str]:
    """Names of tests, at any depth, that begin with such a word."""
    return [
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and node.name.split("_")[1] in NO_SUBJECT.split()
    ]


def imports_of_tests(source: str) -> list[str]:
    """Modules of tests that are imported, also by the scripts in a module's strings."""
    return re.findall(r"(?m)^[ \t]*(?:from|import)[ \t]+(test_\w+)", source)


def test_names_of_tests_begin_with_their_subject():
    assert len(MODULES) > 100
    found = {path.name: without_subject(path.read_text()) for path in MODULES}
    assert {name: names for name, names in found.items() if names} == {}


def test_a_name_without_a_subject_is_found():
    source = """
def test_what_is_no_secret_stays(): ...
def test_without_keys_nothing_leaves_this_host(): ...
def test_whatever_remains_is_tested(): ...
def test_totals_are_the_same_without_any_agent(): ...
def what_is_tested(): ...
class Test:
    async def test_in_a_pipe_it_is_shown(self): ...
"""
    assert without_subject(source) == [
        "test_what_is_no_secret_stays",
        "test_without_keys_nothing_leaves_this_host",
        "test_whatever_remains_is_tested",
        "test_in_a_pipe_it_is_shown",
    ]


def test_modules_of_tests_import_no_other_one():
    found = {path.name: imports_of_tests(path.read_text()) for path in MODULES}
    assert {name: names for name, names in found.items() if names} == {}


def test_an_import_of_a_module_of_tests_is_found():
    some = "test_some"
    assert (
        imports_of_tests(f"from {some} import work\n'import {some}'\n    import {some} as t\n")
        == [some] * 2
    )
