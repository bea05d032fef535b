"""Analyses that wait: for a lock, in a retry loop, for a pipe that is read slowly, for a database."""

from __future__ import annotations

import os
import pathlib
import sqlite3
import tempfile
import threading
import time

from planted_runs import Case, Planted, marked_line

_lock = threading.Lock()


class RetriesWithSleeps(Planted):
    def plant(self, events):
        for _ in range(4):
            time.sleep(0.2)  # planted: retry


class SharesALock(Planted):
    def plant(self, events):
        with _lock:  # planted: lock
            time.sleep(0.4)


class WritesToASlowReader(Planted):
    def plant(self, events):
        reading, writing = os.pipe()

        def read_slowly():
            for _ in range(16):
                time.sleep(0.05)
                os.read(reading, 65536)

        reader = threading.Thread(target=read_slowly)
        reader.start()
        for _ in range(16):
            os.write(writing, bytes(65536))  # planted: pipe
        reader.join()
        os.close(reading)
        os.close(writing)


class AsksALockedDatabase(Planted):
    def plant(self, events):
        with tempfile.TemporaryDirectory() as directory:
            path = str(pathlib.Path(directory) / "conditions.sqlite")
            holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            holder.execute("create table t (x)")
            holder.execute("begin exclusive")
            release = threading.Timer(0.8, holder.rollback)
            release.start()
            other = sqlite3.connect(path, timeout=10)
            other.execute("insert into t values (1)")  # planted: database
            release.join()
            other.close()
            holder.close()


def _line(mark: str) -> tuple:
    return (marked_line(__file__, mark),)


CASES = [
    Case("sleep", RetriesWithSleeps, frozenset({"sleep"}), _line("retry"),
         "0.8 s of time.sleep in each chunk", steady=True),
    Case("lock", SharesALock, frozenset({"lock"}), _line("lock"),
         "one of four threads sleeps with the lock, three wait for it", threads=4, steady=True),
    Case("pipe", WritesToASlowReader, frozenset({"file"}), _line("pipe"),
         "a pipe holds 64 KiB, and its reader takes 64 KiB each 0.05 s"),
    Case("database", AsksALockedDatabase, frozenset({"sleep", "file", "lock"}), _line("database"),
         "SQLite polls with sleeps for a lock that another connection holds for 0.8 s"),
]  # fmt: skip
