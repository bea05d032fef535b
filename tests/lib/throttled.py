"""A file server far away: every request waits before it is answered, as over a long line. Ranges as ROOT files are read.

The server is a process of its own, so that its work takes no turn from those who measure.
"""

from __future__ import annotations

import contextlib
import http.server
import multiprocessing
import pathlib
import re
import socketserver
import threading
import time
from collections.abc import Iterator


class _Handler(http.server.BaseHTTPRequestHandler):
    """GET with a range and HEAD of the files in one directory."""

    protocol_version = "HTTP/1.1"
    root: pathlib.Path
    latency_s: float
    at_once: threading.Semaphore | None
    opening_only: bool

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        if not self.opening_only or self.headers.get("Range", "bytes=0-").startswith("bytes=0-"):
            with self.at_once or contextlib.nullcontext():
                time.sleep(self.latency_s)
        path = self.root / pathlib.PurePosixPath(self.path).name
        if not path.is_file():
            self.send_error(404)
            return
        size = path.stat().st_size
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        first = int(asked[1]) if asked else 0
        last = min(size - 1, int(asked[2]) if asked and asked[2] else size - 1)
        self.send_response(206 if asked else 200)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(last - first + 1))
        if asked:
            self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
        self.end_headers()
        if body:
            with path.open("rb") as file:
                file.seek(first)
                self.wfile.write(file.read(last - first + 1))

    def log_message(self, *_: object) -> None:
        """Nothing."""


class _Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 256


def _serve(root, latency_s, at_once, host, opening_only, ready) -> None:
    handler = type(
        "Handler",
        (_Handler,),
        {
            "root": root,
            "latency_s": latency_s,
            "at_once": threading.Semaphore(at_once) if at_once else None,
            "opening_only": opening_only,
        },
    )
    with _Server((host, 0), handler) as server:
        ready.send(server.server_address[1])
        server.serve_forever()


@contextlib.contextmanager
def throttled(
    root: pathlib.Path,
    latency_s: float,
    at_once: int | None = None,
    *,
    host: str = "127.0.0.1",
    opening_only: bool = False,
) -> Iterator[str]:
    """Serve the files of `root`; the URL that they are below.

    Parameters
    ----------
    root : pathlib.Path
        Of the files.
    latency_s : float
        That each request waits.
    at_once : int, optional
        Requests that are served at one time; any number if not given.
    host : str
        A loopback address to serve at.
    opening_only : bool
        Let only requests for the first bytes of a file, which open it, and those for no range wait.
    """
    ours, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    arguments = (root, latency_s, at_once, host, opening_only, theirs)
    process = context.Process(target=_serve, args=arguments, daemon=True)
    process.start()
    try:
        yield f"http://{host}:{ours.recv()}"
    finally:
        process.terminate()
        process.join()
