"""A spool that the programs of another version filled to its limit is delivered by today's: what that version gave up is counted, nothing else is lost.

    python tests/golden/full_spool.py --tree TREE --protocol 1

TREE is a checkout of that version with its programs in build/dev/bin (0.1.0: commit a825fd5). They also leave an open run in a store, to which
the records of the spool belong. It takes about a minute.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMIT = "16Mi"  # the smallest that --spool-limit takes
RATE = 100_000


def leave(tree: pathlib.Path, work: pathlib.Path, version: int):
    """With the programs and helpers of that version: an open run, and a spool that is full of its records."""
    import make_life

    maker = make_life.Maker(tree, work, version)
    pipeline = maker.pipeline
    try:
        maker.open("full")
        (agent,) = pipeline.agents
        pipeline.aggregator.kill(restart=False)
        agent.kill(restart=False)
        agent.command += ["--spool-limit", LIMIT]
        agent.start()
        writer = pipeline.start_writer(pipeline.spools[0], RATE)
        written = pipeline.ledger
        make_life.wait_for(lambda: "event=spool_full" in agent.log.read_text(), "a full spool")
        writer.send_signal(signal.SIGTERM)
        writer.wait(20)
        pipeline.writers.clear()
        agent.kill(restart=False)
    finally:
        pipeline.destroy()
    (work / "manifest.json").write_text(
        json.dumps({"run": maker.runs["full"], "ledger": str(written)})
    )


def take_over(work: pathlib.Path) -> str:
    """With today's programs; what came of it."""
    sys.path[:0] = [str(ROOT / "tests/lib")]
    import run_lives
    from crema.collect import _client
    from pipeline import Pipeline

    left = json.loads((work / "manifest.json").read_text())
    now = work / "now"
    now.mkdir()
    pipeline = Pipeline(ROOT / "build/dev/bin", now, spools=0, store=work / "store")
    pipeline.run_id, pipeline.ledger = left["run"], pathlib.Path(left["ledger"])
    pipeline.spools = [work / "spool0"]
    before = sum(path.stat().st_size for path in pipeline.spools[0].glob("sp-*"))
    client = _client.AggregatorClient(pipeline.endpoint, None)
    try:
        pipeline.agents = [pipeline.start_agent(pipeline.spools[0])]
        took = pipeline.drain(120)
        state = end(client, bytes.fromhex(pipeline.run_id))
        books = pipeline.books()
        counted = sum(run_lives.gaps(pathlib.Path(state.path)).values())
        subprocess.run([pipeline.bin("crema-sink"), "check", state.path], check=True)
    finally:
        client.close()
        pipeline.destroy()
    if pipeline.held() or books.lost != counted or books.twice or books.wrong or not counted:
        sys.exit(f"{books}, {counted} counted in /gaps")
    return (
        f"{before / 2**20:.0f} MiB of spool delivered in {took:.0f} s: {books.records} records there, "
        f"{books.lost} given up by the old agent and all of them in /gaps, none twice, none wrong; {state.verdict}"
    )


def end(client, run_id: bytes):
    """State of the sealed run."""
    from crema.collect import _client

    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        client.send(_client.RUN_WRITERS, run_id=run_id, part=0, parts=1)
        client.send(_client.RUN_END, run_id=run_id, t_end_ns=time.time_ns(), writer_parts=1)
        for state in client.states(run_id, 0.5):
            if state.phase == _client.SEALED:
                return state
    sys.exit(f"run {uuid.UUID(bytes=run_id)} was not sealed")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tree", type=pathlib.Path, required=True)
    parser.add_argument("--protocol", type=int, default=2)
    parser.add_argument("--leave", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.environ["CREMA_INSECURE"] = "1"  # no keys, on this host alone
    if options.leave:
        leave(options.tree.resolve(), options.leave, options.protocol)
        return
    with tempfile.TemporaryDirectory() as directory:
        own = [sys.executable, __file__, *sys.argv[1:], "--leave", directory]
        subprocess.run(own, check=True)  # in a process of its own, which has the helpers of TREE
        print(take_over(pathlib.Path(directory)))


if __name__ == "__main__":
    main()
