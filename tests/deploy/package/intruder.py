"""A user with a key of its own tries what is not its own: prints what came of each attempt.

intruder.py RUN_ID OWNER     a run in progress of another user
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import time
import uuid

from crema.collect import _client
from crema.hook._records import MESSAGES
from crema.hook._spool import StreamWriter

SPOOL = pathlib.Path(os.environ["CREMA_SPOOL"])


def answers(run_id: bytes) -> dict[str, list]:
    """Phase, path and refusal that a query, an opening and an end of that run get."""
    keys = pathlib.Path(os.environ["CREMA_KEYS"]).expanduser()
    client = _client.AggregatorClient(os.environ["CREMA_AGGREGATOR"], keys)
    attempts = {"RUN_QUERY": {}, "RUN_OPEN": {"t_start_ns": 1}, "RUN_END": {"t_end_ns": 2}}
    found = {}
    for name, fields in attempts.items():
        state = None
        while state is None:
            if client.send(getattr(_client, name), run_id=run_id, **fields):
                state = next(iter(client.states(run_id, 2)), None)
            else:
                time.sleep(0.05)
        found[name] = [state.phase, state.path, state.refusal]
    client.close()
    return found


def write_into(run_id: bytes) -> str:
    """Records of that run in the spool, which its agent must not deliver; their stream."""
    info = MESSAGES["StreamInfo"](
        run_id=run_id, kind=3, host="node", pid=os.getpid(), worker_uuid="u",
        worker_name="tcp://node:1", t_real_ns=time.time_ns(), t_mono_ns=time.monotonic_ns(),
    )  # fmt: skip
    writer = StreamWriter(SPOOL, info.SerializeToString())
    return writer.stream_id.hex()


def readable(owner: int) -> list[str]:
    """Files of that user in the spool that can be opened."""
    found = []
    theirs = [path for path in SPOOL.iterdir() if path.stat().st_uid == owner]
    assert theirs, "nothing of that user is there"
    for path in theirs:
        try:
            path.open("rb").close()
        except PermissionError:
            continue
        found.append(path.name)
    return found


def main():
    run_id, owner = uuid.UUID(sys.argv[1]).bytes, int(sys.argv[2])
    said = {"answers": answers(run_id), "stream": write_into(run_id), "readable": readable(owner)}
    print(json.dumps(said))


if __name__ == "__main__":
    main()
