"""Where a host's spool lies: a directory of its own, in which locks work."""

from __future__ import annotations

import os
import pathlib
import socket

import pytest

import hook_support as support
from crema.hook import _config, _process


def test_a_spool_is_one_hosts_and_one_boots(monkeypatch, tmp_path):
    config = _config.HookConfig("01a20000000070008000000000000001")
    name = config.spool_dir().name
    assert name == f"run-{config.run_id}-{socket.gethostname()}-{_process.boot_id()[:8]}"
    monkeypatch.setattr(socket, "gethostname", lambda: "another")
    assert config.spool_dir().name == name, "a process keeps it"
    other = _config.HookConfig("01a20000000070008000000000000002")
    assert other.spool_dir().name.startswith(f"run-{other.run_id}-another-")
    assert support.config(tmp_path).spool_dir().is_relative_to(tmp_path)


@pytest.mark.parametrize("nowhere", ["/proc", "/no/such/directory"])
def test_a_directory_without_locks_is_passed_over(nowhere, tmp_path):
    assert not _config.locks_files(nowhere)
    assert _config._temporary(nowhere) == "/tmp"
    assert _config.locks_files(str(tmp_path)) and not list(tmp_path.iterdir())
    assert _config._temporary(str(tmp_path)) == str(tmp_path)


def test_locks_do_not_work_where_everybody_gets_them(monkeypatch, tmp_path):
    monkeypatch.setattr(_config.fcntl, "flock", lambda file, operation: None)
    assert not _config.locks_files(str(tmp_path))
    _config._temporary.cache_clear()
    assert pathlib.Path(_config._temporary(str(tmp_path))) == tmp_path  # nowhere is better
    _config._temporary.cache_clear()


@pytest.mark.parametrize("when", ["before the next is made in it", "right after it was made"])
def test_another_run_may_remove_the_directory_of_all_runs(tmp_path, monkeypatch, when):
    """It does so when it ends and sees nothing else in there."""
    parent, made, times = tmp_path / "crema-0", tmp_path / "crema-0" / "run", [3]
    mkdir = pathlib.Path.mkdir

    def remove() -> None:
        if times[0] > 0 and parent.is_dir():
            times[0] -= 1
            parent.rmdir()

    def mkdir_and_remove(path, mode) -> None:
        if path == made and "before" in when:
            remove()
        mkdir(path, mode)
        if path == parent and "after" in when:
            remove()

    umask = os.umask(0o002)
    try:
        _config.make_private_dir(parent)
        parent.rmdir()
        monkeypatch.setattr(pathlib.Path, "mkdir", mkdir_and_remove)
        _config.make_private_dir(made)
        assert times == [0]
        _config.make_private_dir(parent)
    finally:
        os.umask(umask)


def test_a_directory_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        _config.make_private_dir(tmp_path / "file")
    with pytest.raises(NotADirectoryError):
        _config.make_private_dir(tmp_path / "file" / "within")
    with pytest.raises(FileNotFoundError):
        _config.make_private_dir(pathlib.Path("/proc/none/within"))
