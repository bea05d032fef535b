"""The list of writers, put together from what several sources say."""

import subprocess
import sys

from crema.hook import _writers
from crema.hook._writers import ENDED, LEFT, UNKNOWN, Roll, Writer

STREAM = bytes(range(16))
A = Writer("tcp://A", state=LEFT, stream=STREAM, uuid="uuid-A")  # as it said when it began


def test_an_answer_that_is_lost_leaves_the_processes_beside_the_worker_unknown():
    roll = Roll()
    roll.add([A])
    roll.add_answers({"tcp://A": TimeoutError("no answer")})
    rows = roll.writers()
    assert [(row.state, row.stream) for row in rows] == [(LEFT, STREAM), (UNKNOWN, b"")]
    assert "tcp://A" in rows[1].name
    assert "no answer" in rows[1].text


def test_a_scheduler_that_did_not_answer_stands_for_each_worker_whose_end_is_not_known():
    roll = Roll()
    ended = Writer("tcp://B", state=ENDED, stream=STREAM[::-1], last=7, uuid="uuid-B")
    roll.add([A, ended, _writers.unknown("tcp://C", "left")._replace(uuid="uuid-C")])
    roll.add([A._replace(name="tcp://D", stream=STREAM[8:] + STREAM[:8], uuid="uuid-D")])
    roll.lost("the scheduler did not answer")
    rows = roll.writers()
    assert [row.state for row in rows] == [LEFT, ENDED, UNKNOWN, LEFT, UNKNOWN]
    assert rows[-1].name == "any process beside a worker", "said once"
    assert rows[-1].text == "the scheduler did not answer"


def test_each_stream_of_a_worker_whose_plugin_was_set_up_twice_is_listed():
    roll = Roll()
    first = A._replace(state=ENDED, last=3)
    second = Writer("tcp://A", state=LEFT, stream=STREAM[::-1], uuid="uuid-A")
    roll.add([first, second])
    roll.add([A, second._replace(state=ENDED, last=9)])
    rows = {row.stream: (row.state, row.last) for row in roll.writers()}
    assert rows == {STREAM: (ENDED, 3), STREAM[::-1]: (ENDED, 9)}


WITHOUT_DESCRIPTORS = """
import pathlib, resource, sys
from crema.hook import _writers
here = pathlib.Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
try:
    open(here / "a file")
except OSError as error:
    print(error.strerror)
print(_writers.registered(here, "a-run"))
"""


def test_an_empty_roll_is_seen_without_a_descriptor(tmp_path):
    command = [sys.executable, "-c", WITHOUT_DESCRIPTORS, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["Too many open files", "[]"], done.stderr
