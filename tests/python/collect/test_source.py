"""The text of the user's lines in a run file: of the processor's package, without secrets, and none if that is asked for."""

from __future__ import annotations

import importlib
import json
import sys

import pytest
from coffea import processor

import crema
import hook_support as support
from crema.collect import _attributes, _source
from crema.hook import _kernel
from crema.read.code import source
from crema.read.code.looks import Looks

PACKAGE = {
    "__init__.py": "",
    "work.py": "from hook_support import spin\n\ndef busy(seconds):\n    spin(seconds)  # is the library's\n    x = sum(i * i for i in range(200_000))\n    return x\n",
    "main.py": "from coffea import processor\nfrom {name}.work import busy\n\nclass Top(processor.ProcessorABC):\n"
    "    def process(self, events):\n        for _ in range(12): busy(0.001)\n        return {{'n': len(events)}}\n\n"
    "    def postprocess(self, accumulator):\n        return accumulator\n",
}


@pytest.fixture
def top(tmp_path, monkeypatch):
    """A processor of a package that is in two modules."""
    name = "topana_of_a_test"
    (tmp_path / name).mkdir()
    for file, text in PACKAGE.items():
        (tmp_path / name / file).write_text(text.format(name=name) if "{name}" in text else text)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module(f"{name}.main").Top()
    for module in [m for m in sys.modules if m.partition(".")[0] == name]:
        del sys.modules[module]


@pytest.mark.skipif(bool(_kernel.why_not()), reason=_kernel.why_not() or "-")
@pytest.mark.parametrize("keep", [True, False])
def test_text_of_lines_is_in_the_file_unless_it_is_not_wanted(top, tmp_path, keep):
    with crema.MetricsCollector(
        processor_instance=top, output=tmp_path, quiet=True, look_source=keep
    ) as mc:
        run = processor.Runner(
            executor=processor.IterativeExecutor(status=False),
            schema=support.BaseSchema,
            chunksize=support.CHUNK,
        )
        run(support.make_files(tmp_path, 1), processor_instance=top)
    with crema.open(mc.path) as run:
        assert run.attributes[source.MODULE] == type(top).__module__
        texts = {line.source for line in Looks(run).lines()}
        kept = source.lines(run)
    assert ("x = sum(i * i for i in range(200_000))" in texts) == keep
    assert bool(kept) == keep
    assert not [file for file, _ in kept if "hook_support" in file]  # it is another's


def test_lines_of_others_are_not_kept(top):
    name = type(top).__module__.partition(".")[0]
    lines = [
        (f"/tmp/worker/dask-scratch-space/worker-1/{name}/work.py", 5, 3.0, "x = sum()"),
        (f"/other/{name}/unknown.py", 1, 2.0, "unknown"),
        ("/home/user/somebody.py", 1, 2.0, "other"),
        (f"{name}/main.py", 6, 1.0, ""),
    ]
    found = _source.attributes(top, lines)
    assert json.loads(found["source.0"]) == [
        [f"{name}/work.py", 5, "x = sum()"],
        [f"{name}/main.py", 6, "for _ in range(12): busy(0.001)"],
    ]
    assert _source.attributes(None, lines) == {}


def test_text_is_bounded(top):
    name = type(top).__module__.partition(".")[0]
    lines = [(f"{name}/work.py", i, 1.0, f"{i:03} é" * 60) for i in range(2000)]
    found = _source.attributes(top, lines)
    pieces = [value for key, value in found.items() if key.startswith(source.PREFIX)]
    assert len(pieces) <= _source.PIECES_MAX
    for piece in pieces:
        assert len(piece.encode()) <= _attributes.TEXT_BYTES_MAX
        json.loads(piece)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ('login(token="abc", user="me")', 'login(token="[removed]", user="me")'),
        ("headers = {'Authorization': 'Basic Zm9v'}", "headers = {'Authorization': '[removed]'}"),
        ('fetch("https://me:word@host/x")', 'fetch("https://[removed]@host/x")'),
        ('key = "Zm9vYmFyYmF6MTIzNDU2Nzg5MGFi"', 'key = "[removed]"'),
        ('jets = events["Jet_pt"] > 30', 'jets = events["Jet_pt"] > 30'),
        ('HLT["HLT_Ele32_WPTight_Gsf_L1DoubleEG"]', 'HLT["HLT_Ele32_WPTight_Gsf_L1DoubleEG"]'),
        ('open("/store/mc/Summer20UL18/file_1.root")', 'open("/store/mc/Summer20UL18/file_1.root")'),
    ],
)  # fmt: skip
def test_secrets_in_literals_are_masked(text, want):
    assert _source.masked(text) == want
