"""Dask's own profile stands in where nothing was looked at: functions with seconds, and no states."""

from __future__ import annotations

import pytest
from coffea import processor

import crema
import hook_support as support
import workloads
from crema.hook import _stacks
from crema.read.code import dask_profile
from crema.read.code.looks import Looks, NoLooksError


def node(name, count, *children, file="/home/user/dijets.py", line=1):
    identifier = f"{name};{file};{line}"
    about = {"filename": file, "name": name, "line_number": line + 3, "line": "secret = 1"}
    inner = {child["identifier"]: child for child in children}
    return {"count": count, "identifier": identifier, "description": about, "children": inner}


def owner_of(file):
    return file, "user" if file.startswith("/home") else "library"


class Run:
    """Attributes of a run file."""

    def __init__(self, attributes):
        self.file = self
        self.attrs = attributes


# As Dask counts: the innermost frame of a sample has no count of its own.
TREE = node(
    *("root", 103),
    node("read", 40, node("inflate", 0, file="uproot/zip.py"), file="uproot/reading.py", line=7),
    node("process", 60, node("sum", 50, node("add", 0)), node("len", 0), line=20),
    node("rare", 3, node("rarer", 0), file="awkward/rare.py"),
)


def test_a_tree_is_kept_with_all_its_samples():
    found = dask_profile.attributes(TREE, 0.01, owner_of)
    assert "secret" not in str(found)
    tables = dask_profile.tables(Run(found))
    functions = tables["frame"]["function"]
    own = {
        functions[frame]: n
        for frame, n in zip(tables["stack"]["frame_id"], tables["looks"]["looks"], strict=True)
        if n
    }
    assert own == {"inflate": 40, "add": 50, "process": 10, "rarer": 3}
    assert tables["looks"]["seconds"].sum() == pytest.approx(1.03)
    assert tables["frame"]["line"][functions.index("process")] == 20


def test_a_large_tree_is_kept_without_what_is_rare():
    many = [node(f"f{i}", 2 + i, line=i) for i in range(30_000)]
    count = sum(each["count"] for each in many)
    found = dask_profile.attributes(node("root", count, *many), 0.01, owner_of)
    assert 0 < len(found) <= dask_profile.PIECES_MAX
    assert all(len(piece) <= dask_profile.PIECE_BYTES for piece in found.values())
    tables = dask_profile.tables(Run(found))
    assert "f29999" in tables["frame"]["function"] and "f0" not in tables["frame"]["function"]


def test_attributes_that_are_something_else_are_no_profile():
    for value in ("", "hello", "eJyrrgUAAXUA+Q==", "AAAA"):
        assert dask_profile.tables(Run({"dask_profile.0": value})) is None
    assert dask_profile.attributes(node("root", 0), 0.01, owner_of) == {}


@pytest.mark.parametrize("with_dask", [True, False])
def test_a_run_without_looks_has_the_functions_that_dask_saw(request, tmp_path, with_dask):
    client = request.getfixturevalue("client") if with_dask else None
    executor = processor.IterativeExecutor(status=False)
    if with_dask:
        executor = processor.DaskExecutor(client=client, status=False)
    with crema.MetricsCollector(client, workloads.Burns(), output=tmp_path, quiet=True, look_interval=0) as mc:  # fmt: skip
        run = processor.Runner(executor=executor, schema=support.BaseSchema)
        run(support.make_files(tmp_path, 4), processor_instance=workloads.Burns())
    with crema.open(mc.path) as run:
        if not with_dask:
            with pytest.raises(NoLooksError, match="looking was off"):
                Looks(run)
            return
        looks = Looks(run)
        lines = {line.function: line for line in looks.lines()}
        assert set(lines["burn"].states) == {"unknown"}
        assert next(iter(lines)) == "burn"
        assert sum(line.seconds for line in lines.values()) == pytest.approx(looks.seconds)
        assert lines["burn"].file == _stacks.named(workloads.__file__)[0]
