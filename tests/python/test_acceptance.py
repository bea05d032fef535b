"""docs/acceptance.md names tests that exist, and the tiers in which they run.

`python tests/python/test_acceptance.py` (with tests/lib in PYTHONPATH) writes the column of tiers anew.
"""

from __future__ import annotations

import ast
import re

from paths import ROOT

PAGE = ROOT / "docs/acceptance.md"
TESTS = ROOT / "tests"
TIERS = ("test", "all", "release", "by hand")
TIER_OF_MARK = {"slow": "all", "timing": "all", "long": "by hand"}
TIER_OF_FOLDER = {
    "cluster": "all",
    "condor": "release",
    "package": "release",
    "wheels": "release",
    "deploy": "all",
}
TIER_OF_TEXT = {
    "tests/deploy/cluster": "all",
    "--preset tsan": "release",
    "--preset asan-ubsan": "all",
}


def marks_of(nodes: list[ast.expr]) -> tuple[set[str], set[str]]:
    """Marks of a whole test, and of some of its parameters."""
    whole, some = set(), set()
    for text in map(ast.unparse, nodes):
        found = {m.lower() for m in re.findall(r"\b(?:mark\.)?(slow|timing|long|LONG)\b", text)}
        (some if "parametrize" in text else whole).update(found)
    return whole, some


def tiers_of_python() -> dict[str, dict[str, set[str]]]:
    """Tiers by file and function; a file's own are those of all its functions."""
    tiers: dict[str, dict[str, set[str]]] = {}
    for path in TESTS.rglob("test_*.py"):
        folder = next(
            (TIER_OF_FOLDER[p] for p in reversed(path.parts) if p in TIER_OF_FOLDER), "test"
        )
        body = ast.parse(path.read_text()).body
        module = [
            n.value
            for n in body
            if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "pytestmark"
        ]
        for function in (
            n for n in body if isinstance(n, ast.FunctionDef) and n.name.startswith("test_")
        ):
            whole, some = marks_of([*module, *function.decorator_list])
            of_whole = {TIER_OF_MARK[m] for m in whole}
            first = max({folder, *of_whole}, key=TIERS.index)
            tiers.setdefault(path.name, {})[function.name] = {first} | {
                TIER_OF_MARK[m] for m in some
            }
    return tiers


def names_in_c() -> set[str]:
    """Files and functions of the C tests."""
    names = set()
    for path in TESTS.rglob("*.c"):
        names |= {path.stem, *re.findall(r"\b((?:test_|must_)\w+)\(void", path.read_text())}
    return names | {"sim", "diagnosis", "programs", "no_hdf5_in_commits"}


PYTHON = tiers_of_python()
C = names_in_c()


def row_tiers(row: str) -> tuple[set[str], list[str]]:
    """Tiers of the tests that a row names, and names that no test has."""
    tiers, unknown = set(), []
    for name in re.findall(r"`([^`]+)`", row):
        in_file = re.fullmatch(r"(?:\S*/)?(test_\w+\.py)(?:::(\w+))?", name)
        if in_file:
            functions = PYTHON.get(in_file[1], {})
            chosen = (
                [functions[in_file[2]]] if in_file[2] in functions else list(functions.values())
            )
            tiers |= set().union(*chosen)
            if not functions or (in_file[2] and in_file[2] not in functions):
                unknown.append(name)
        elif name in C:
            tiers.add("all" if name in ("test_hot_paths", "test_agg_cost") else "test")
        elif re.fullmatch(r"(test|must)_\w+", name):
            found = [t[name] for t in PYTHON.values() if name in t]
            tiers |= set().union(*found)
            unknown += [] if found else [name]
        elif name.startswith(("./dev test-condor", "./dev test-package", "./dev test-facility")):
            tiers.add("release")
        elif name.startswith(("./dev", "tests/bench", "look.py", "packaging")):
            tiers.add("by hand")
        tiers |= {tier for text, tier in TIER_OF_TEXT.items() if text in name}
    return tiers, unknown


def written(page: str) -> str:
    """The page with a column of tiers behind the tests of each row."""
    lines, place, columns = [], 0, 0
    for line in page.splitlines():
        cells = re.split(r"(?<!\\)\|", line)
        if not line.startswith("|"):
            place = 0
        elif not place:
            place = (
                next(i for i, c in enumerate(cells) if c.strip() in ("test", "test or figure")) + 1
            )
            if cells[place].strip() != "tier":
                cells.insert(place, " tier ")
            columns = len(cells)
        else:
            tiers = ", ".join(t for t in TIERS if t in row_tiers(cells[place - 1])[0])
            rule = set(line) <= set("|-")
            cells[place : place + (len(cells) == columns)] = ["---" if rule else f" {tiers} "]
        lines.append("|".join(cells))
    return "\n".join(lines) + "\n"


def test_acceptance_page_names_tests_that_exist():
    assert row_tiers(PAGE.read_text())[1] == []


def test_acceptance_page_names_the_tier_of_each_row():
    assert PAGE.read_text() == written(PAGE.read_text())
    rows = [r for r in PAGE.read_text().splitlines() if r.startswith("|") and "---" not in r]
    assert [r for r in rows if re.search(r"\|\s*\|", r)] == []  # each has a tier


def test_acceptance_sections_have_a_test_in_the_default_tier():
    for section in PAGE.read_text().split("\n## ")[1:]:
        rows = [r for r in section.splitlines() if r.startswith("|")]
        assert any("| test" in r for r in rows[2:]), section.splitlines()[0]


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
