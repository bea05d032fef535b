#!/usr/bin/env python3
"""Kill -9 the real programs at random, over and over, and count what was kept.

Agents, the aggregator and the sink are killed at random moments and started again at once, one in three with a failpoint
at which it kills itself; writers record numbered values all the while and keep a ledger outside of every killed process. At
the end the sink's journal is held against the ledgers. The last line says

    K kills, N records, 0 lost, 0 twice, drained in T s
"""

from __future__ import annotations

import argparse
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from pipeline import Pipeline, Supervised, failpoints


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="directory of the programs")
    parser.add_argument("--seconds", type=float, default=240.0, help="how long to kill")
    parser.add_argument("--agents", type=int, default=4)
    parser.add_argument("--rate", type=int, default=3000, help="records a second and writer")
    parser.add_argument("--pause-ms", type=float, default=90.0, help="mean time between kills")
    parser.add_argument("--seed", type=int, help="of the choice of victims; default random")
    parser.add_argument("--drain-timeout", type=float, default=60.0)
    parser.add_argument("--kill-writers", action="store_true", help="one victim in ten is a writer")
    parser.add_argument("--keep", action="store_true", help="keep the working directory")
    options = parser.parse_args()
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(2**32)
    return options


def choose_failpoint(choice: random.Random, points: list[str], victim: Supervised) -> str:
    """Where the victim is to die next, if it is not killed before; mostly nowhere."""
    program = pathlib.Path(victim.command[0]).name.removeprefix("crema-")
    own = ("agent.", "spool.") if program == "agent" else (f"{program}.",)
    if choice.random() > 1 / 3:
        return ""
    name = choice.choice([point for point in points if point.startswith(own)])
    return f"{name}:{choice.randint(1, 5)}"


def hurt(pipeline: Pipeline, options: argparse.Namespace) -> tuple[int, int]:
    """Kill until the time is over: (kills, programs that ended by themselves)."""
    choice = random.Random(options.seed)
    points = failpoints(options.bin)
    kills = deaths = 0
    end = time.monotonic() + options.seconds
    told = time.monotonic()
    while time.monotonic() < end:
        time.sleep(choice.uniform(0.5, 1.5) * options.pause_ms / 1000)
        kills += sum(program.died_there() for program in pipeline.programs())
        deaths += sum(
            program.process.poll() not in (None, -signal.SIGKILL) for program in pipeline.programs()
        )
        pipeline.revive()
        if options.kill_writers and choice.random() < 0.1:
            pipeline.kill_writer(choice.choice(pipeline.writers))
            pipeline.start_writer(choice.choice(pipeline.spools), options.rate)
        else:
            victim = choice.choice(pipeline.programs())
            victim.kill(restart=False)
            victim.start(choose_failpoint(choice, points, victim))
        kills += 1
        if time.monotonic() - told > 10:
            told = time.monotonic()
            print(f"{kills} kills, {end - told:.0f} s to go", file=sys.stderr, flush=True)
    return kills, deaths


def main() -> int:
    options = arguments()
    print(f"seed {options.seed}", file=sys.stderr)
    work = pathlib.Path(tempfile.mkdtemp(prefix="crema-torture-"))
    pipeline = Pipeline(options.bin, work, spools=options.agents)
    try:
        pipeline.start_writers(options.rate)
        kills, deaths = hurt(pipeline, options)
        pipeline.stop_writers()
        drained_s = pipeline.drain(options.drain_timeout)
        left = pipeline.held()
        pipeline.stop()
        books = pipeline.books()
    finally:
        pipeline.destroy()
    if deaths:
        print(f"{deaths} programs ended by themselves, see {work}/log", file=sys.stderr)
    if left:
        print(f"{len(left)} segments were not delivered: {left[:3]}", file=sys.stderr)
    print(books, file=sys.stderr)
    bad = deaths or left or books.lost or books.twice or books.wrong
    if bad or options.keep:
        print(f"kept: {work}", file=sys.stderr)
    else:
        shutil.rmtree(work)
    print(
        f"{kills} kills, {books.records} records, {books.lost} lost, {books.twice} twice, "
        f"drained in {drained_s:.1f} s"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
