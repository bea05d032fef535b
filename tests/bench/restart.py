"""How long the first commit takes after a sink was killed beside the journal of a large run that goes on.

    python tests/bench/restart.py [--bin DIR] [--rows N] [--rounds N]

Each round fills a store with one open run, kills the sink, starts it again and times from there until records of another run, which wait in a
second spool, are durable: with live files and without, so that the ratio of both is of one machine at one time. Then both runs record at once, and
the delays of the small one's records beside the large one are set against those it has alone.
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import sys
import tempfile
import time
import uuid

from chain import ROOT, Bench, free_port

BATCH = 512
SMALL_ROWS = 64
STREAM_ROWS = 1_000_000


class Restart(Bench):
    """A store with a large run in it, and a small one beside."""

    def ship(self, aggregator: str, spool: pathlib.Path, log: pathlib.Path) -> float:
        """Deliver all of a spool; seconds until it is durable."""
        segments = list(spool.glob("sp-*"))
        began = time.monotonic()
        agent = self.start(log, "crema-agent", "--spool", spool, "--aggregator", aggregator)
        took = self.drained_s(segments, began, log)
        self.stop(agent)
        return took

    def fill(self, work: pathlib.Path, name: str, rows: int, run_id: str = "") -> pathlib.Path:
        """A spool with the rows of a run, in streams that a writer's limit allows."""
        spool = work / name
        spool.mkdir(mode=0o700)
        run_id = run_id or uuid.uuid4().hex
        while rows > 0:
            n = min(rows, STREAM_ROWS)
            self.run("chain_writer_main", spool, run_id, n, min(n, BATCH))
            rows -= n
        return spool

    def measure(self, work: pathlib.Path, live: bool) -> dict[str, float]:
        work.mkdir()
        log, store, output = work / "log", work / "store", work / "output"
        at_sink, at_aggregator = (f"tcp://127.0.0.1:{free_port()}" for _ in range(2))
        words = ["crema-sink", "--bind", at_sink, "--store", store, "--output", output]
        words += [] if live else ["--no-live"]
        sink = self.start(log, *words)
        aggregator = self.start(log, "crema-aggregator", "--bind", at_aggregator, "--sink", at_sink)
        time.sleep(0.5)
        large = uuid.uuid4().hex
        self.ship(at_aggregator, self.fill(work, "large", self.rows, large), log)
        waiting = self.fill(work, "small", SMALL_ROWS)
        before = self.ship(at_aggregator, self.fill(work, "before", SMALL_ROWS), log)
        sink.kill()
        sink.wait()
        touched = self.fill(
            work, "more", BATCH, large
        )  # so that the large run has a live file again
        sink = self.start(log, *words)
        more = self.start(log, "crema-agent", "--spool", touched, "--aggregator", at_aggregator)
        after = self.ship(at_aggregator, waiting, log)
        again = [
            self.ship(at_aggregator, self.fill(work, f"s{i}", SMALL_ROWS), log) for i in range(5)
        ]
        journal_mb = sum(path.stat().st_size for path in store.rglob("*.journal")) / 1e6
        for program in (more, aggregator, sink):
            self.stop(program)
        return {
            "before": before,
            "after": after,
            "beside": statistics.median(again),
            "MB": journal_mb,
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    bench = Restart(args.bin, args.rows, BATCH)
    found = []
    for i in range(args.rounds):
        with tempfile.TemporaryDirectory(prefix="crema-restart-") as top:
            found.append(
                [bench.measure(pathlib.Path(top, n), n == "live") for n in ("plain", "live")]
            )
        print(f"round {i + 1} of {args.rounds}", file=sys.stderr)
    print(
        f"{'':12}{'before':>9}{'restart':>9}{'then':>9}   s until a small run's records are durable"
    )
    for k, name in enumerate(("no live", "live")):
        middle = {key: statistics.median(f[k][key] for f in found) for key in found[0][k]}
        print(
            f"{name:12}{middle['before']:9.3f}{middle['after']:9.3f}{middle['beside']:9.3f}"
            f"   beside a journal of {middle['MB']:.0f} MB"
        )


if __name__ == "__main__":
    main()
