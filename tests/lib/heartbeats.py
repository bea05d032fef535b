"""What tests write into a spool: heartbeats, each with its number, in a stream of some run."""

from __future__ import annotations

import uuid

from crema.hook import _records

INFO = _records.stream_info({"python_version": "3"}, run_id=uuid.uuid4().bytes, kind=0, host="h")
HEARTBEATS = _records.HEARTBEATS


def beat(n: int) -> bytes:
    return HEARTBEATS.batch([HEARTBEATS.row(t_ns=n, sent=n)])
