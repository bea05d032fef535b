"""Containers that share a volume of spools: none gets another's, and what one left behind is taken up first."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess

import pytest

from children import Child
from paths import ROOT

FREE_SPOOL = ROOT / "compose" / "free-spool.sh"


@pytest.fixture
def container(tmp_path):
    """Starts a process that holds a spool until it is stopped, and reports which spool."""

    @contextlib.contextmanager
    def start():
        process = Child(
            [FREE_SPOOL, "sh", "-c", 'echo "$CREMA_SPOOL"; sleep 60 & read line; kill $!'],
            env=os.environ | {"CREMA_SPOOL_VOLUME": str(tmp_path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            yield pathlib.Path(process.stdout.readline().strip())
        finally:
            process.communicate("go\n", timeout=10)

    return start


def test_each_has_its_own(container, tmp_path):
    with container() as first, container() as second:
        assert [first, second] == [tmp_path / "1", tmp_path / "2"]
        assert first.is_dir()
        assert second.is_dir()
    with container() as again:
        assert again == first


def test_a_spool_that_was_left_is_taken_up_before_an_empty_one(container, tmp_path):
    with container(), container(), container() as third:
        (third / "sp-0-0").touch()
    with container() as heir, container() as other:
        assert heir == third
        assert other == tmp_path / "1"


def test_a_process_that_outlives_the_command_keeps_it(container, tmp_path):
    done = subprocess.run(
        [FREE_SPOOL, "sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $!"],
        env=os.environ | {"CREMA_SPOOL_VOLUME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    try:
        with container() as other:
            assert other == tmp_path / "2"
    finally:
        os.kill(int(done.stdout), signal.SIGKILL)
