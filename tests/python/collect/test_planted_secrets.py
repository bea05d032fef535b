"""Secrets planted wherever a user's text is recorded: none of them is in what a run leaves, keeps meanwhile or shows."""

from __future__ import annotations

import functools
import http.server
import pathlib
import shutil
import subprocess
import sys
import threading
import urllib.parse

import pandas as pd
import pytest
from coffea import processor

import crema
from crema import MetricsCollector
from measured_runs import runner
from waiting import wait_for

PLANTED = b"S3CRET"
SEEN: list[str] = []  # names of files; the processor itself is copied for each chunk


class WithRanges(http.server.SimpleHTTPRequestHandler):
    """Serves a file, whatever the query, and the parts of it that are asked for."""

    def do_GET(self):
        whole = pathlib.Path(self.translate_path(urllib.parse.urlsplit(self.path).path))
        data = whole.read_bytes()
        ranged = self.headers.get("Range", "").removeprefix("bytes=")
        first, _, last = ranged.partition("-")
        start = int(first or 0)
        stop = min(int(last) + 1, len(data)) if last else len(data)
        self.send_response(206 if ranged else 200)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(stop - start))
        if ranged:
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(data)}")
        self.end_headers()
        self.wfile.write(data[start:stop])

    def log_message(self, *_):
        pass


@pytest.fixture
def server(nano_files, tmp_path):
    """Base URL of a copy of a real file."""
    (file,) = nano_files["dy"]["files"]
    served = tmp_path / "served"
    served.mkdir()
    shutil.copy(file, served / "nano.root")
    handler = functools.partial(WithRanges, directory=served)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as listener:
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listener.server_port}/nano.root"
        listener.shutdown()


class Processor(processor.ProcessorABC):
    """Names a section and a metric, and fails, after secrets."""

    def process(self, events):
        with crema.track_time("call --token S3CRET-section"):
            crema.record_metric("Bearer S3CRET-metric", 1.0)
        SEEN.append(events.metadata["filename"])
        if len(SEEN) > 2:
            raise RuntimeError("no https://host/x?authz=S3CRET-exception")
        return {"n": len(events)}

    def postprocess(self, accumulator):
        return accumulator


def holders(*directories: pathlib.Path) -> list[pathlib.Path]:
    """Files below these directories that hold a secret."""
    found = []
    for directory in directories:
        for path in directory.rglob("*"):
            if path.is_file() and PLANTED in path.read_bytes():
                found.append(path)
    return found


@pytest.mark.slow
def test_a_run_holds_no_planted_secret(server, tmp_path, monkeypatch, capfd):
    output = tmp_path / "output"
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["run.py", "--token", "S3CRET-argv"])
    names = [f"{server}?authz=Bearer%20S3CRET-{one}" for one in "ab"]
    fileset = {"data": {"files": dict.fromkeys(names, "Events")}}
    SEEN.clear()
    kept: list[pathlib.Path] = []
    instance = Processor()
    mc = MetricsCollector(
        None, instance, output=output,
        run_label="label --password S3CRET-label",
        attributes={"note": "Authorization: Bearer S3CRET-note", "url": "https://h/?k=S3CRET-url"},
    )  # fmt: skip
    with pytest.raises(Exception, match="S3CRET-exception"), mc:
        executor = processor.IterativeExecutor(status=False, retries=0)
        run = runner(executor, mc, 20, skipbadfiles=(FileNotFoundError,))
        try:
            run.run(fileset, processor_instance=instance, treename="Events")
        finally:
            wait_for(lambda: list(output.glob("*.live.h5")), 20, "a live file")
            kept += holders(tmp_path)  # spool, journal and live file of a run that goes on
    assert not kept
    assert not holders(tmp_path)
    assert mc.path is not None
    said = "".join(capfd.readouterr())
    for words in (
        ("show", "--all"),
        ("report",),
        ("export",),
        ("export", "--to", "trace"),
        ("runs", "--json"),
    ):
        target = str(output) if words[0] == "runs" else str(mc.path)
        command = [sys.executable, "-m", "crema", words[0], target, *words[1:]]
        done = subprocess.run(command, capture_output=True, text=True, cwd=output)
        assert done.returncode == 0, done
        said += done.stdout + done.stderr
    assert PLANTED.decode() not in said
    assert not holders(output)
    files = pd.read_hdf(mc.path, "dict/file")["name"]
    assert len({one for one in files if one.startswith(f"{server}~")}) == len(set(SEEN))
