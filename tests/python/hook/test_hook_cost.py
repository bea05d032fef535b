"""What recording costs in lines and calls, which are the same on every machine; `tests/bench/hook.py` measures microseconds."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import paths

# Lines of Python, and calls of C functions, such as those that ask the kernel. Measured: 350 and 106, 141 and 39, 147 and 43, 64 and 19,
# 243 and 20.
MOST = {
    "a chunk, begin and end": (385, 116),
    "a section": (155, 43),
    "a section that looks at memory": (162, 47),
    "a metric": (70, 21),
    "a task's end, 12 totals attributed": (267, 22),
}

COUNT = """
import gc, json, sys
import hook

def count(call, times=40):
    counted = {"line": 0, "c_call": 0}

    def trace(frame, event, argument):
        if event in counted:
            counted[event] += 1
        return trace

    def profile(frame, event, argument):
        if event in counted:
            counted[event] += 1

    for i in range(times):
        call(i)
    gc.disable()
    sys.settrace(trace), sys.setprofile(profile)
    try:
        call(times)
    finally:
        sys.settrace(None), sys.setprofile(None)
        gc.enable()
    return counted

print(json.dumps({name: count(call) for name, call in hook.calls(sys.argv[1])}))
"""


@pytest.fixture(scope="module")
def counts(tmp_path_factory):
    told = subprocess.run(
        [sys.executable, "-c", COUNT, tmp_path_factory.mktemp("spool")],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(paths.ROOT / "tests" / "bench")},
        text=True,
        check=True,
    ).stdout
    return json.loads(told)


@pytest.mark.parametrize("what", MOST)
def test_recording_takes_few_steps(counts, what):
    lines, calls = MOST[what]
    assert counts[what]["line"] <= lines
    assert counts[what]["c_call"] <= calls
