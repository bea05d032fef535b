"""A test that hangs, or leaves a process, fails, and nothing of it is left: ``test_launch_test.py LAUNCH_TEST``."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import sys
import time
import uuid

ENDED, LIMIT, LEFT = 0, 124, 125
HANGS = "exec sleep 987"
# What `sh -c` runs, the limit, the status, and what is said on standard error.
CASES = (
    ("true", 60, ENDED, ""),
    ("exit 7", 60, 7, ""),
    ("kill -SEGV $$", 60, 128 + signal.SIGSEGV, "Segmentation fault"),
    (HANGS, 1, LIMIT, "sleep 987"),
    ("trap '' TERM INT; setsid sleep 987 & sleep 987; true", 1, LIMIT, "at its time limit"),
    ("sleep 987 & true", 60, LEFT, "left by the test: process"),
    ("sleep 987 & exit 7", 60, LEFT, "sleep 987"),
    ("setsid sh -c 'sleep 987 & sleep 986' >/dev/null & true", 60, LEFT, "sleep 986"),
    ("(sleep 0.5 &) ; true", 60, ENDED, ""),  # it is just ending
)


def processes(mark: str) -> list[str]:
    found = []
    for environ in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"MARK={mark}\0".encode() in environ.read_bytes():
                found.append((environ.parent / "cmdline").read_text())
        except OSError:
            continue
    return found


def must(condition: bool, what: object) -> None:
    if not condition:
        raise SystemExit(f"{what}")


def main(launch: str) -> None:
    for script, limit_s, status, said in CASES:
        mark, began = uuid.uuid4().hex, time.monotonic()
        done = subprocess.run(  # returns when nobody holds its output any more
            [launch, str(limit_s), "sh", "-c", script],
            env={"PATH": "/usr/bin:/bin", "MARK": mark}, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        must(done.returncode == status, (script, done))
        must(said in done.stderr if said else not done.stderr, (script, done.stderr))
        must(processes(mark) == [], (script, processes(mark)))
        must(time.monotonic() - began < 30, f"{script}: it took {time.monotonic() - began:.0f} s")

    # Ctrl-C, or a runner that gives up.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        mark = uuid.uuid4().hex
        program = subprocess.Popen(
            [launch, "60", "sh", "-c", "echo there; exec sleep 987"],
            env={"PATH": "/usr/bin:/bin", "MARK": mark}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        must(program.stdout.readline() == b"there\n", "it did not start")
        program.send_signal(number)
        program.communicate(timeout=30)
        must(program.returncode in (128 + number, -number), program.returncode)
        must(processes(mark) == [], processes(mark))
    must(subprocess.run([launch], capture_output=True).returncode == 2, "no usage")


if __name__ == "__main__":
    main(*sys.argv[1:])
