"""Each program starts with its default options, says so and ends when it is asked to: ``test_programs.py DIRECTORY_OF_PROGRAMS``.

Only what two tests at a time would fight over is given: ports and directories.
"""

from __future__ import annotations

import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile
import time

PATIENCE_S = 60.0
ANY_PORT = ("--bind", "tcp://127.0.0.1:*", "--insecure")  # without keys that is asked for


def options(name: str, directory: pathlib.Path) -> list[str]:
    return {
        "crema-agent": ["--spool", f"{directory}/spool"],
        "crema-aggregator": [*ANY_PORT],
        "crema-sink": [*ANY_PORT, "--store", f"{directory}/store", "--output", f"{directory}"],
    }[name]


def must_check(command: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run([*command, "--check"], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout, "nothing was said"


def must_not_hide_a_full_disk(command: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    said = f"{pathlib.Path(command[0]).name}: standard output cannot be written\n"
    assert (done.returncode, done.stderr) == (1, said), command


def must_show_a_name_on_one_line(*command: str) -> None:
    name = "x\n\x1b[2J\x9b.h5: sound"
    done = subprocess.run([*command, name], capture_output=True, text=True)
    said = done.stdout + done.stderr
    assert r"x\u000a\u001b[2J\u009b.h5" in said, (command, said)
    assert said.count("\n") == 1, (command, said)


def must_start_and_end(command: list[str], environment: dict[str, str]) -> None:
    program = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        must_become_ready(program, command)
        program.send_signal(signal.SIGTERM)
        _, said = program.communicate(timeout=PATIENCE_S)
    finally:
        program.kill()
    assert program.returncode == 0, (program.returncode, said)


def must_become_ready(program: subprocess.Popen, command: list[str]) -> None:
    """A server prints its ready line; the agent has taken up its spool."""
    if not command[0].endswith("crema-agent"):
        assert select.select([program.stdout], [], [], PATIENCE_S)[0], "no ready line"
        line = program.stdout.readline()
        assert line and json.loads(line)["event"] == "ready", (line, program.stderr.read())
        return
    spool = pathlib.Path(command[command.index("--spool") + 1])
    deadline = time.monotonic() + PATIENCE_S
    while not (spool / "agent_id").exists():
        assert program.poll() is None, program.stderr.read()
        assert time.monotonic() < deadline, "it did not take up its spool"
        time.sleep(0.01)


def main() -> None:
    programs = pathlib.Path(sys.argv[1])
    environment = {name: v for name, v in os.environ.items() if not name.startswith("CREMA_")}
    for name in ("crema-agent", "crema-aggregator", "crema-sink"):
        with tempfile.TemporaryDirectory() as directory:
            command = [str(programs / name), *options(name, pathlib.Path(directory))]
            must_check(command, environment)
            must_start_and_end(command, environment)
            must_not_hide_a_full_disk([command[0], "--help"])
            must_not_hide_a_full_disk([*command, "--check"])
        print(f"{name}: sound, starts and ends")
    must_not_hide_a_full_disk([str(programs / "crema-sink"), "columns"])
    must_not_hide_a_full_disk([str(programs / "crema-sink"), "check", "--help"])
    for words in (
        ["crema-aggregator"],
        ["crema-sink"],
        ["crema-agent", "--keys"],
        ["crema-agent", "--"],
    ):
        must_show_a_name_on_one_line(str(programs / words[0]), *words[1:])
    for word in ("check", "store", "rebuild"):
        must_show_a_name_on_one_line(str(programs / "crema-sink"), word)


if __name__ == "__main__":
    main()
