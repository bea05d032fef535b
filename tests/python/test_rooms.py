"""The package's rooms: which may import which, which libraries each needs, and that no two modules need each other."""

from __future__ import annotations

import ast
import pathlib
import subprocess
import sys

import pytest

import crema

PACKAGE = pathlib.Path(crema.__file__).parent
ROOMS = ("hook", "collect", "read")

# A library counts as needed where it is imported with the module; what it is imported for in a function is there by then.
NEEDS = {"hook": {"google"}, "collect": {"google", "rich"}}
MAY_USE = {"hook": {"", "hook"}, "read": {"", "hook", "read"}, "collect": {"", *ROOMS}}
PLUGINS = {
    "hook.nanny",
    "hook.scheduler",
    "hook.worker",
}  # run inside Dask, which has them import its base classes


def imports(name, text):
    """(module, whether it is needed to import `name`) for each import statement of a module of the package."""
    tree = ast.parse(text)
    at_import = {id(node) for node in ast.walk(ast.Module(_top(tree.body), []))}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, id(node) in at_import
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = ["crema", *name.split(".")[:-1]]
                above = above[: len(above) - node.level + 1]
                base = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:
                yield f"{base}.{alias.name}", id(node) in at_import


def _top(body):
    """Statements that run when a module is imported, those inside ``if TYPE_CHECKING`` and functions left out."""
    found = []
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.append(node)
        elif isinstance(node, ast.Try):
            found += _top(node.body)
    return found


def broken(sources):
    """A sentence for each rule that a module breaks; `sources` is their text by name, such as ``hook.chunks``."""
    uses = {}
    for name, text in sources.items():
        room = name.split(".")[0] if "." in name else ""
        uses[name] = set()
        for target, at_import in imports(name, text):
            library, *rest = target.split(".")
            if library != "crema":
                known = library in sys.stdlib_module_names or library in NEEDS.get(room, {library})
                if at_import and not known and not (name in PLUGINS and library == "distributed"):
                    yield f"{name} imports {library}"
                continue
            theirs = rest[0] if rest and rest[0] in ROOMS else ""
            if room and theirs not in MAY_USE[room]:
                yield f"{name} imports {target}"
            uses[name] |= {found for n in (1, 2) if (found := ".".join(rest[:n])) in sources}
    for name in sources:
        for other in uses[name]:
            if other > name and name in _reached(uses, other):
                yield f"{name} and {other} need each other"


def _reached(uses, name):
    seen, ahead = set(), [name]
    while ahead:
        for other in uses[ahead.pop()] - seen:
            seen.add(other)
            ahead.append(other)
    return seen


def sources():
    found = {}
    for path in PACKAGE.rglob("*.py"):
        if path.name != "__init__.py":
            name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
            found[name] = path.read_text(encoding="utf-8")
    return found


def test_each_room_keeps_to_itself():
    found = sources()
    assert len(found) > 30
    assert sorted(broken(found)) == []


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("hook.new", "import numpy", "hook.new imports numpy"),
        ("hook.new", "import distributed", "hook.new imports distributed"),
        (
            "hook.new",
            "def f():\n    from ..read import reader",
            "hook.new imports crema.read.reader",
        ),
        (
            "hook.new",
            "from crema.collect import _cluster",
            "hook.new imports crema.collect._cluster",
        ),
        (
            "read.new",
            "from ..collect.collector import x",
            "read.new imports crema.collect.collector.x",
        ),
        ("collect.new", "import h5py", "collect.new imports h5py"),
        (
            "hook._spool",
            "from . import _recorder",
            "hook._recorder and hook._spool need each other",
        ),
        (
            "hook._spool",
            "from ._recorder import x",
            "hook._recorder and hook._spool need each other",
        ),
    ],
)
def test_a_broken_rule_is_found(name, text, said):
    assert said in set(broken(sources() | {name: text}))


def test_a_worker_loads_nothing_but_the_hook():
    code = """
import sys
import crema.hook.chunks, crema.hook.instrument
others = {"zmq", "h5py", "rich", "click", "pandas", "matplotlib"} & set(sys.modules)
assert not others, others
assert not [name for name in sys.modules if name.startswith(("crema.collect", "crema.read"))]
"""
    subprocess.run([sys.executable, "-c", code], check=True)
