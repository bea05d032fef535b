"""What workers' plugins report to the scheduler's plugin: by a report when they begin, and asked once when the run ends.

A worker that is given the plugin on entering answers with its report; one that joins later sends it
as an event. At the end the scheduler's plugin asks for an operation that the worker's plugin has
added to the worker, whose answer is a plain message; a question of Dask's client would be a pickled
function for each, with answers that go through the scheduler to the client. A worker says in its
report that it has the operation: one of an earlier version does not.
"""

from __future__ import annotations

from typing import Any

END = "crema_end"  # the operation; one serves all runs, and stays
ANSWERS = "answers"  # in a report: the worker has it


def result_of(answer: dict[str, Any]) -> Any:
    """What a worker's answer to Dask's operation ``run`` contains, which the scheduler does not unpack."""
    from distributed.protocol.serialize import Serialized, deserialize

    result = answer.get("result")
    if isinstance(result, Serialized):
        result = deserialize(result.header, result.frames)
    return getattr(result, "data", result)  # as it is, of a worker in the scheduler's process


def of_answer(answer: dict[str, Any]) -> dict[str, Any]:
    """The report in such an answer; empty if there is none."""
    report = result_of(answer)
    return report if isinstance(report, dict) else {}
