"""Analyses that ask a network service which is not their input."""

from __future__ import annotations

import http.client
import http.server
import socket
import socketserver
import threading
import time

import crema
from planted_runs import Case, Planted, marked_line

HOST = "127.0.0.2"


class _Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(0.2)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *arguments):
        pass


class _Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while message := self.request.recv(64):
            time.sleep(0.01)
            self.request.sendall(message)


class AsksAService(Planted):
    """The service runs in the client's process, which only waits for the run."""

    def __init__(self):
        server = http.server.ThreadingHTTPServer((HOST, 0), _Answer)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.port = server.server_port

    def plant(self, events):
        with crema.track_time("inference"):
            for _ in range(4):
                connection = http.client.HTTPConnection(HOST, self.port)
                connection.request("GET", "/")
                connection.getresponse().read()  # planted: service
                connection.close()


class StreamsSmallMessages(Planted):
    def __init__(self):
        server = socketserver.ThreadingTCPServer((HOST, 0), _Echo)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.port = server.server_address[1]

    def plant(self, events):
        with socket.create_connection((HOST, self.port)) as connection:
            for _ in range(80):
                connection.sendall(b"q")
                connection.recv(1)  # planted: message


CASES = [
    Case("service", AsksAService, frozenset({"service"}), ("inference", HOST),
         "four requests of 0.2 s in each chunk, within one section", steady=True),
    Case("messages", StreamsSmallMessages, frozenset({"service"}),
         (marked_line(__file__, "message"), HOST),
         "eighty messages in each chunk, each answered after 0.01 s"),
]  # fmt: skip
