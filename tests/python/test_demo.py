"""The demonstration, small."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import uproot

import crema
from crema import demo
from crema._demo_data import make_fileset


def run_demo(*arguments, timeout=240):
    return subprocess.run(
        [sys.executable, "-m", "crema.demo", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
    )


@pytest.mark.slow
def test_the_demo_ends_with_a_complete_file(tmp_path):
    done = run_demo(
        *("--output", tmp_path, "--cache", tmp_path / "cache"),
        *("--events", 8000, "--chunksize", 1000),
    )
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("*.h5")
    assert str(path) in done.stderr
    assert "COMPLETE" in done.stdout
    with crema.open(path) as run:
        assert run.verdict == "COMPLETE"
        assert run.summary()["total_events"] == 8000


def test_the_demo_takes_files(fileset, tmp_path):
    files = [f for d in fileset.values() for f in d["files"]]
    done = run_demo(
        "--output", tmp_path, "--input", *files, "--workers", 1, "--chunksize", 500, "--json"
    )
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("*.h5")
    told = json.loads(done.stdout)
    assert (told["path"], told["verdict"], told["reasons"]) == (str(path), "COMPLETE", [])
    with crema.open(path) as run:
        assert set(run["chunks"].file) == set(files)


def test_the_help_calls_the_demo_as_users_do(capsys):
    with pytest.raises(SystemExit):
        demo.main(["--help"])
    assert capsys.readouterr().out.startswith("usage: crema demo ")


@pytest.mark.parametrize(
    "arguments",
    [["--workers", "0"], ["--events", "-1"], ["--chunksize", "0"], ["--input", "/no/such.root"]],
)
def test_bad_arguments_are_refused(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        demo.main(arguments)
    assert caught.value.code == 2
    assert "error" in capsys.readouterr().err


def test_input_files_are_made_once_and_always_the_same(tmp_path):
    told = []
    fileset = make_fileset(tmp_path / "a", 1000, told.append)
    again = make_fileset(tmp_path / "b", 1000, lambda n: None)
    first = [f for d in fileset.values() for f in d["files"]]
    second = [f for d in again.values() for f in d["files"]]
    assert sum(told) == 1000
    for one, other in zip(first, second, strict=True):
        with uproot.open(one) as a, uproot.open(other) as b:
            assert len(a["Events"].keys()) == 22
            assert a["Events"]["Jet_pt"].array().tolist() == b["Events"]["Jet_pt"].array().tolist()
    stamp = [uproot.open(f).file.uuid for f in first]
    make_fileset(tmp_path / "a", 1000, lambda n: None)
    assert [uproot.open(f).file.uuid for f in first] == stamp
    assert not list((tmp_path / "a").glob("*.part"))
