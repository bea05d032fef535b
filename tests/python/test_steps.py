"""What steps.sh counts, and what its last lines say: logs of ctest and of pytest as they are written."""

from __future__ import annotations

import re
import subprocess

import missing
from paths import ROOT

LAST_TEST = """\
Start testing: Nov 28 13:36 UTC
----------------------------------------------------------
1/3 Testing: test_some
Output:
----------------------------------------------------------
[ RUN      ] must_fit
not tested here: mounted file systems (no CAP_SYS_ADMIN)
[  SKIPPED ] must_fit
[ RUN      ] must_pass
[       OK ] must_pass
[  PASSED  ] 1 test(s).
<end of output>
Test Passed.
2/3 Testing: test_none
Output:
----------------------------------------------------------
[ RUN      ] must_run
not tested here: mounted file systems (no CAP_SYS_ADMIN)
[  SKIPPED ] must_run
[ RUN      ] must_trace
not tested here: counted instructions (processes cannot be traced)
[  SKIPPED ] must_trace
[  PASSED  ] 0 test(s).
<end of output>
Test Passed.
3/3 Testing: test_bad
Output:
----------------------------------------------------------
[  PASSED  ] 0 test(s).
<end of output>
Test Failed.
"""
STEPS = """
set -euo pipefail
. {root}/tests/lib/steps.sh
some_ctest() {{
    echo "not tested here: what the output of a failed test says"
    echo "67% tests passed, 1 tests failed out of 3"
    return 8
}}
some_pytest() {{
    echo "not tested here: mounted file systems (no CAP_SYS_ADMIN): 3; batch jobs (no Slurm): 1"
    echo "=== 9 passed, 4 skipped in 3.21s ==="
}}
steps() {{
    run ctest some_ctest
    count_ctest last_test
    run pytest some_pytest
    count_pytest
    not_tested "clang-tidy (no version 14)"
}}
tallied steps
"""


def test_tests_that_were_left_out_are_said_after_each_step_and_at_the_end(tmp_path):
    (tmp_path / "last_test").write_text(LAST_TEST)
    ran = subprocess.run(
        ["bash", "-c", STEPS.format(root=ROOT)], cwd=tmp_path, capture_output=True, text=True
    )
    assert ran.returncode == 1, ran.stderr
    said = ran.stdout.splitlines()
    lacking = [line for line in said if line.startswith("not tested here: ")]
    mounts, traces = missing.MOUNTS, missing.TRACING
    assert lacking == [
        f"not tested here: {traces}: 1; {mounts}: 2",
        f"not tested here: {missing.SLURM}: 1; {mounts}: 3",
        "not tested here: clang-tidy (no version 14): 1",
        f"not tested here: {missing.SLURM}: 1; clang-tidy (no version 14): 1; {traces}: 1; {mounts}: 5",
    ]
    assert said[-2:] == [lacking[-1], "10 passed, 1 failed, 8 skipped"]


def test_programs_in_c_lack_the_same_things_by_the_same_words():
    macros = dict(
        re.findall(
            r'^#define MISSING_(\w+) "(.+)"$',
            (ROOT / "tests" / "lib" / "must.h").read_text(),
            re.MULTILINE,
        )
    )
    assert macros
    assert macros == {name: getattr(missing, name) for name in macros}
