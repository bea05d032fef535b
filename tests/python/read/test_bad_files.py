"""What is no run file, no sealed one or no whole one: every command says so in a line, and its exit status is not 0."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time

import h5py
import pytest
from click.testing import CliRunner
from coffea import processor

import crema
import hook_support as support
import missing
from crema.read.command import main

COMMANDS = {
    "show": ["show"],
    "show --all": ["show", "--all"],
    "show --json": ["show", "--json"],
    "hot": ["hot"],
    "report": ["report"],
    "scaling": ["scaling"],
    "what-if": ["what-if", "--threads", "4"],
    "diff": ["diff"],
    "runs": ["runs"],
    "export": ["export"],
    "export --to trace": ["export", "--to", "trace"],
    "export --to speedscope": ["export", "--to", "speedscope"],
    "top": ["top", "--once"],
    "check": ["check", "--json"],
}
READS_LIVE = {"show", "show --all", "show --json", "export", "export --to trace", "top"}
READS_LIVE |= {"hot", "export --to speedscope"}  # once it has looks
SHOWS_EMPTY = {
    "show",
    "show --all",
    "show --json",
    "report",
    "diff",
    "export",
    "export --to trace",
    "check",
}
# What each of them is, and words of which one is in the message.
BAD = {
    "missing.h5": ["there is no", "No such file"],
    "directory": [
        "is a directory",
        "a directory",
        "no run is in progress",
        "0 runs",
        "there is no run file",
    ],
    "cut.h5": ["truncated"],
    "flipped.h5": ["damaged", "not a run file"],
    "header.h5": ["damaged", "not a run file"],
    "text.h5": ["not an HDF5 file"],
    "nothing.h5": ["not an HDF5 file"],
    "foreign.h5": ["not a run file", "no run file"],
    "tables.h5": ["has no ", "no looks", "is missing", "damaged", "is over"],
    "x.live.h5": [
        "the live file of a run",
        "until its run has ended",
        "not sealed yet",
        "nothing to replay",
        "no looks",
    ],
    "empty.h5": ["no events", "nothing to replay", "is over", "no looks"],
    "pipe.h5": ["is not a regular file", "not a run file"],
    "device.h5": ["is not a regular file", "not a run file"],
    "loop.h5": ["there is no", "Too many levels"],
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A directory with one of each, made of real runs."""
    top = tmp_path_factory.mktemp("bad")
    with crema.MetricsCollector(output=top / "runs", quiet=True) as mc:
        pass
    shutil.copy(mc.path, top / "empty.h5")
    with crema.MetricsCollector(output=top / "runs", quiet=True) as mc:
        run = processor.Runner(
            executor=processor.IterativeExecutor(status=False),
            schema=support.BaseSchema,
            chunksize=support.CHUNK,
        )
        run(support.make_files(top, 1), processor_instance=support.Counter())
        live = top / "runs" / f"{mc.run_id}.live.h5"
        until = time.monotonic() + 60
        while not is_whole(live) and time.monotonic() < until:
            time.sleep(0.02)
        shutil.copy(live, top / "x.live.h5")
        assert is_whole(top / "x.live.h5")
    data = mc.path.read_bytes()
    shutil.copy(mc.path, top / "good.h5")
    (top / "directory").mkdir()
    (top / "cut.h5").write_bytes(data[: len(data) // 2])
    (top / "flipped.h5").write_bytes(flipped(data, 100, 37))
    (top / "header.h5").write_bytes(flipped(data, 3000, 97))
    (top / "text.h5").write_text("hello")
    (top / "nothing.h5").write_bytes(b"")
    os.mkfifo(top / "pipe.h5")
    (top / "device.h5").symlink_to("/dev/zero")
    (top / "loop.h5").symlink_to("loop.h5")
    h5py.File(top / "foreign.h5", "w").close()
    with h5py.File(top / "good.h5") as good, h5py.File(top / "tables.h5", "w") as bare:
        bare.attrs.update(good.attrs)
    return top


def is_whole(live):
    try:
        with crema.open(live) as run:
            return "dict/worker" in run
    except (OSError, ValueError):
        return False


def flipped(data, first, step):
    changed = bytearray(data)
    for i in range(first, len(changed), step):
        changed[i] ^= 0x40
    return bytes(changed)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_says_what_is_wrong_with_a_file(files, tmp_path, command):
    arguments = COMMANDS[command]
    if arguments[0] == "diff":
        arguments = [*arguments, str(files / "good.h5")]
    if arguments[0] == "export":
        arguments = [*arguments, "-o", str(tmp_path / "out")]
    wrong = []
    for name, words in BAD.items():
        if (name == "x.live.h5" and command in READS_LIVE) or (
            name == "empty.h5" and command in SHOWS_EMPTY
        ):
            continue
        ran = CliRunner().invoke(main, [*arguments, str(files / name)])
        is_crash = ran.exception is not None and not isinstance(ran.exception, SystemExit)
        if command == "runs":
            good = ran.exit_code == (name != "directory")
        else:
            said = ran.output if command == "check" else ran.stderr
            lines = ran.stderr.strip().splitlines()
            good = ran.exit_code == 1 and any(word in said for word in words)
            good = good and name in said and "h5clear" not in said
            good = good and (command == "check" or len(lines) == 1)
        if is_crash or not good:
            wrong.append((name, ran.exit_code, repr(ran.exception), ran.output[-300:]))
    assert not wrong, "\n".join(map(str, wrong))


def test_a_list_names_what_it_leaves_out(files):
    ran = CliRunner().invoke(main, ["runs", str(files)])
    assert ran.exit_code == 1
    for name in ("cut.h5", "flipped.h5", "foreign.h5", "tables.h5"):
        assert f"{name} " in ran.stderr, name
    assert ran.stdout.startswith("3 runs")
    ran = CliRunner().invoke(main, ["runs", str(files / "runs")])
    assert (ran.exit_code, ran.stderr) == (0, "")


@pytest.mark.parametrize("name", [b"caf\xe9.h5", b"two\nlines.h5"])
def test_a_file_may_have_any_name(files, tmp_path, name):
    path = tmp_path / os.fsdecode(name)
    shutil.copy(files / "good.h5", path)
    for command, *options in (["runs"], ["show"], ["check", "--json"]):
        where = tmp_path if command == "runs" else path
        ran = CliRunner().invoke(main, [command, *options, str(where)])
        assert (ran.exit_code, ran.stderr) == (0, ""), (command, ran.output)
    assert len(crema.runs(tmp_path)) == 1


# Root that may not pass over permissions: for it a directory of another user is closed, and its own checkout is not.
AS_OTHERS = (
    "setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search",
)  # fmt: skip


@pytest.mark.skipif(os.geteuid() != 0, reason=missing.OTHER_USERS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_in_a_directory_that_is_closed_to_the_user_is_said_in_a_line(files, closed, command):
    arguments = [*COMMANDS[command], str(closed / "good.h5")]
    if command == "diff":
        arguments.append(arguments[-1])
    code = "from crema.read.command import main; main()"
    ran = subprocess.run(
        [*AS_OTHERS, sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert "Traceback" not in ran.stderr
    said = ran.stdout if command == "check" else ran.stderr
    assert "Permission denied" in said


@pytest.fixture
def closed(files, tmp_path):
    """A directory with a run file that only its owner may enter."""
    directory = tmp_path / "closed"
    directory.mkdir(mode=0o700)
    shutil.copy(files / "good.h5", directory)
    os.chown(directory, 65534, 65534)
    return directory


def test_the_newest_run_file_is_found_beside_links_that_lead_nowhere(files, tmp_path):
    shutil.copy(files / "good.h5", tmp_path)
    for name, target in (("gone.h5", "nowhere"), ("loop.h5", "loop.h5"), ("x.live.h5", "gone")):
        (tmp_path / name).symlink_to(target)
    os.mkfifo(tmp_path / "pipe.h5")
    assert crema.newest(tmp_path).name == "good.h5"
    ran = CliRunner().invoke(main, ["top", str(tmp_path)])
    assert ran.exit_code == 1
    assert "no run is in progress" in ran.stderr
    (tmp_path / "good.h5").unlink()
    with pytest.raises(FileNotFoundError, match="there is no run file"):
        crema.newest(tmp_path)


def test_the_command_itself_says_it_on_standard_error(files):
    def run(*arguments):
        code = "import sys; from crema.read.command import main; main(prog_name='crema')"
        command = [sys.executable, "-c", code, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    ran = run("scaling", files / "empty.h5")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "no events" in ran.stderr and "Traceback" not in ran.stderr
    ran = run("check", files / "x.live.h5", files / "good.h5")
    assert ran.returncode == 1
    assert "only its sealed file can be checked" in ran.stderr
    assert ran.stdout.strip().endswith("good.h5: sound")


@pytest.mark.parametrize(
    ("attribute", "value", "words"),
    [
        ("verdict_reasons", "{}", "verdict_reasons is not a JSON list"),
        ("verdict_notes", "[" * 5000, "verdict_notes is not a JSON list"),
        ("t_run_start_ns", "soon", "t_run_start_ns is not an integer"),
        ("t_run_end_ns", [1, 2], "t_run_end_ns is not an integer"),
    ],
)
def test_an_attribute_of_another_kind_is_said_in_a_line(files, tmp_path, attribute, value, words):
    bad = tmp_path / "bad.h5"
    shutil.copy(files / "good.h5", bad)
    with h5py.File(bad, "r+") as file:
        del file.attrs[attribute]
        file.attrs[attribute] = value
    ran = CliRunner().invoke(main, ["show", str(bad)])
    assert (ran.exit_code, len(ran.stderr.splitlines())) == (1, 1), ran.output
    assert f"{bad} is damaged: its attribute {words}" in ran.stderr


def test_a_run_file_whose_attributes_cannot_be_read_is_damaged_and_not_of_another_kind(
    files, tmp_path
):
    bad, data = tmp_path / "bad.h5", (files / "good.h5").read_bytes()
    at = data.index(b"format_version")  # where HDF5 keeps the root's attributes, under a checksum
    bad.write_bytes(data[:at] + b"F" + data[at + 1 :])
    ran = CliRunner().invoke(main, ["show", str(bad)])
    assert (ran.exit_code, len(ran.stderr.splitlines())) == (1, 1), ran.output
    assert f"{bad} is damaged: " in ran.stderr


def test_a_damaged_file_is_shown_as_not_to_be_trusted(files, tmp_path):
    bad, live = tmp_path / "bad.h5", files / "x.live.h5"
    shutil.copy(files / "good.h5", bad)
    with h5py.File(bad, "r+") as file:
        rows = file["summary/workflow"][:]
        rows["value"] += 1
        file["summary/workflow"][:] = rows
    for words in (["show"], ["show", "--json"], ["show", "--all"], ["diff", files / "good.h5"]):
        ran = CliRunner().invoke(main, [*map(str, words), str(bad)])
        assert (ran.exit_code, len(ran.stderr.splitlines())) == (1, 1), ran.output
        assert "do not trust this" in ran.stderr and str(bad) in ran.stderr
        assert ran.stdout
    for good in (files / "good.h5", live):
        assert CliRunner().invoke(main, ["show", str(good)]).exit_code == 0


@pytest.mark.parametrize(
    "words",
    ["show", *(pytest.param(w, marks=pytest.mark.slow) for w in ("report", "what-if --threads 2"))],
)
def test_a_file_on_which_hdf5_comes_to_no_end_is_not_read(files, tmp_path, words):
    """Heaps of texts that never reached the disk; neither the program that checks nor this one goes round in them."""
    bad, data = tmp_path / "bad.h5", bytearray((files / "good.h5").read_bytes())
    at = data.find(b"GCOL")
    while at >= 0:
        data[at + 16 : at + 80] = bytes(64)
        at = data.find(b"GCOL", at + 4)
    bad.write_bytes(data)
    ran = CliRunner().invoke(main, [*words.split(), str(bad)])
    assert (ran.exit_code, len(ran.stderr.splitlines())) == (1, 1), ran.output
    assert "came to no end" in ran.stderr


def test_errors_of_a_changed_file_are_said_in_a_line(files, tmp_path):
    bad = tmp_path / "bad.h5"
    shutil.copy(files / "good.h5", bad)
    with h5py.File(bad, "r+") as file:
        del file["summary/efficiency"]
        file["summary/efficiency"] = file["summary/waterfall"][:0]
    ran = CliRunner().invoke(main, ["what-if", "--threads", "2", str(bad)])
    assert (ran.exit_code, len(ran.stderr.splitlines())) == (1, 1), ran.output
    assert f"{bad} is damaged: " in ran.stderr and "crema check says where" in ran.stderr


def test_attributes_of_the_user_do_not_stop_a_list(files, tmp_path):
    shutil.copy(files / "good.h5", tmp_path / "one.h5")
    with h5py.File(tmp_path / "one.h5", "r+") as file:
        file.attrs["t_of_day_ns"] = "noon"
        file.attrs["file"] = "another"
        del file.attrs["run_label"]
    frame = crema.runs(tmp_path)
    assert (frame.t_of_day_ns.tolist(), frame.file.tolist()) == (["noon"], ["one.h5"])


def test_a_live_file_that_is_being_made_is_waited_for(files, tmp_path):
    path = tmp_path / "x.live.h5"
    path.write_bytes(b"")
    maker = threading.Timer(0.2, shutil.copy, (files / "x.live.h5", path))
    maker.start()
    with crema.open(path) as run:
        assert run.live
    maker.join()
