"""What looks at threads cost: CPU time of the looking thread, for one and for four threads that work on chunks.

    python tests/bench/looking.py [SECONDS]

The budget is 0.3 % of a core at 20 looks per second with four threads, and 30 us per look and thread. Where looks
cost more, as on a machine with other work, they become rarer instead.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
import uuid

from crema.hook import _looking, _recorder
from crema.hook._config import HookConfig
from crema.hook.chunks import ChunkHook

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
FRAMES = 20


def _deep(n: int, call) -> None:
    call() if n == 0 else _deep(n - 1, call)


def _spin(until: float) -> None:
    while time.monotonic() < until:
        sum(range(200))


def _measure(kind: str, n: int, directory: str) -> None:
    config = HookConfig(str(uuid.uuid4()), spool=f"{directory}/{uuid.uuid4()}", start_agent=False)
    hook, until = ChunkHook(config), time.monotonic() + SECONDS + 2

    def chunk(i: int) -> None:
        meta = {"dataset": "d", "filename": "f", "fileuuid": "u", "treename": "Events"}
        meta |= {"entrystart": i, "entrystop": i + 1}
        hook.load(meta, None)
        calls = {
            "sleep": lambda: time.sleep(until - time.monotonic()),
            "spin": lambda: _spin(until),
        }
        _deep(FRAMES, calls[kind])
        hook.save({}, meta, None)

    threads = [threading.Thread(target=chunk, args=(i,)) for i in range(n)]
    for thread in threads:
        thread.start()
    time.sleep(1)
    [looker] = (t.native_id for t in threading.enumerate() if t.name == "crema looks")
    sampler, clock = _looking._sampler, (~looker << 3) | 6
    before = time.clock_gettime(clock), sampler._looks, time.monotonic()
    time.sleep(SECONDS)
    cpu_s, looks, wall_s = (
        b - a
        for a, b in zip(
            before, (time.clock_gettime(clock), sampler._looks, time.monotonic()), strict=True
        )
    )
    print(
        f"{n} threads that {kind:5}  {100 * cpu_s / wall_s:6.3f} % of a core"
        f"  {looks / wall_s:5.1f} looks/s  {1e6 * cpu_s / looks / n:6.1f} us per look and thread"
    )
    for thread in threads:
        thread.join()
    _recorder.close_process(config.run_id)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as top:
        for which in ("sleep", "spin"):
            for threads in (1, 4):
                _measure(which, threads, top)
