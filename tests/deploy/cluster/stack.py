"""Drives the test cluster on a real container engine; every wait has an end."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import threading
import time

from ports import free_port
from waiting import wait_for

HERE = pathlib.Path(__file__).resolve().parent
COMPOSE = HERE.parents[2] / "compose"
VERSION = re.search(
    r"^project\(crema VERSION (\S+)", (COMPOSE.parent / "CMakeLists.txt").read_text(), re.MULTILINE
)[1]
CUT_OFF = (("INPUT", "-i"), ("OUTPUT", "-o"))


def say(command, timeout_s: float = 120, check: bool = True, **options) -> str:
    """Standard output of a command; its errors are in the exception."""
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        **options,
    )
    if check and done.returncode != 0:
        raise AssertionError(
            f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        )
    return done.stdout


def docker(*arguments, **options) -> str:
    return say(["docker", *arguments], **options)


@functools.cache
def compose_command() -> list[str] | None:
    """Compose v2 if it is here, else docker-compose 1.29; None without either or without an engine."""
    for command in (["docker", "compose"], ["docker-compose"]):
        with contextlib.suppress(OSError):
            if subprocess.run([*command, "version"], capture_output=True).returncode == 0:
                engine = subprocess.run(["docker", "version"], capture_output=True)
                return command if engine.returncode == 0 else None
    return None


def can_drop() -> bool:
    """Whether packets of a container can be dropped from here."""
    tools = all(shutil.which(tool) for tool in ("nsenter", "iptables"))
    return os.geteuid() == 0 and tools


class Stack:
    """One compose project of the files given."""

    def __init__(self, project: str, *files: str, notebook: str = "jupyter"):
        self.project = project
        self.notebook = notebook  # the service where analysts are
        self.files = files or ("compose.yaml",)
        self.environment = {
            **os.environ,
            "COMPOSE_PROJECT_NAME": project,
            "COMPOSE_IGNORE_ORPHANS": "true",
            "JUPYTER_PORT": str(
                free_port()
            ),  # a definite one: it is in the link that Jupyter prints
            "DASHBOARD_PORT": "",  # the engine chooses
            "ANALYSIS_EVENTS": "40000",
            "ANALYSIS_CHUNKSIZE": "5000",
        }

    def compose(self, *arguments, timeout_s: float = 180, check: bool = True) -> str:
        files = [word for file in self.files for word in ("-f", str(COMPOSE / file))]
        return say(
            [*compose_command(), *files, *arguments],
            timeout_s,
            check,
            cwd=COMPOSE,
            env=self.environment,
            stdin=subprocess.DEVNULL,
        )

    def up(self, *arguments) -> None:
        self.compose("up", "-d", "--no-build", *arguments)

    def stop(self) -> dict[str, int]:
        """Exit statuses of all containers, by their names: 137 is one that did not end within 40 s."""
        self.compose("stop", "--timeout", "40")
        label = f"label=com.docker.compose.project={self.project}"
        found = docker("ps", "-aq", "--filter", label).split()
        return {(c := self.inspect(f))["Name"]: c["State"]["ExitCode"] for f in found}

    def down(self, *arguments) -> None:
        self.compose("down", "--timeout", "40", *arguments)

    def destroy(self) -> None:
        """Nothing of the project stays, whatever state it is in."""
        for kind, listed, gone in (
            ("container", ["ps", "-aq"], ["rm", "-f", "-v"]),
            ("volume", ["volume", "ls", "-q"], ["volume", "rm", "-f"]),
            ("network", ["network", "ls", "-q"], ["network", "rm"]),
        ):
            label = f"label=com.docker.compose.project={self.project}"
            found = docker(*listed, "--filter", label, check=False).split()
            if found:
                docker(*gone, *found, check=kind != "network")

    def containers(self, *which: str) -> list[str]:
        """Asked of the engine: it answers at once, which docker-compose 1.29 does not."""
        labels = [f"project={self.project}", "oneoff=False", *which]
        words = [w for label in labels for w in ("--filter", f"label=com.docker.compose.{label}")]
        return docker("ps", "-q", *words).split()

    def ids(self, service: str) -> list[str]:
        return self.containers(f"service={service}")

    def id(self, service: str) -> str:
        (found,) = self.ids(service)
        return found

    def inspect(self, container: str) -> dict:
        return json.loads(docker("inspect", container))[0]

    def health(self, service: str) -> str:
        return self.inspect(self.id(service))["State"]["Health"]["Status"]

    def python(self, code: str, *arguments, container: str = "", timeout_s: float = 90) -> str:
        """Run Python in a container, that of the notebooks if not told otherwise."""
        container = container or self.id(self.notebook)
        return docker("exec", container, "python", "-c", code, *arguments, timeout_s=timeout_s)

    def fetch(self, path: str, directory: pathlib.Path) -> pathlib.Path:
        """Copy a file of the volume of run files."""
        docker("cp", f"{self.id(self.notebook)}:{path}", directory)
        return directory / pathlib.PurePosixPath(path).name

    def logs(self) -> str:
        return self.compose("logs", "--no-color")

    @contextlib.contextmanager
    def _dropping(self, service: str, *rules: list[str]):
        """Packets that these rules of iptables are for vanish, in the container's own network."""
        pid = self.inspect(self.id(service))["State"]["Pid"]

        def change(action: str) -> None:
            for chain, *rule in rules:
                words = ["iptables", action, chain, *rule, "-j", "DROP"]
                say(["nsenter", "-t", pid, "-n", *words])

        change("-I")
        try:
            yield "packets dropped"
        finally:
            change("-D")

    def closed(self, service: str):
        """Nobody else can connect to any port of the container; it can connect to others."""
        return self._dropping(service, ["INPUT", "-i", "eth+", "-p", "tcp", "--syn"])

    @contextlib.contextmanager
    def cut_off(self, service: str):
        """The container neither hears nor is heard; its connections hang."""
        container = self.id(service)
        if can_drop():
            with self._dropping(service, *([*way, "eth+"] for way in CUT_OFF)) as how:
                yield how
        else:
            network = f"{self.project}_cluster"
            docker("network", "disconnect", network, container)
            try:
                yield "network disconnected"
            finally:  # without its alias the name would never come back
                docker("network", "connect", "--alias", service, network, container)


class Workload:
    """workload.py in the notebook's container, followed by the lines that it tells."""

    def __init__(self, stack: Stack, log: pathlib.Path, **options):
        self.stack = stack
        self.log = log
        self.live = 0
        self.looks: list[str] = []  # what the live file showed, and when
        self.run_id = ""
        self.done: dict | None = None
        self.first_chunk_at = 0.0
        self.began = time.monotonic()
        words = [word for key, value in options.items() for word in (f"--{key}", str(value))]
        with open(HERE / "workload.py") as script, open(log, "w") as errors:
            self.process = subprocess.Popen(
                ["docker", "exec", "-i", stack.id(stack.notebook), "python", "-", *words],
                stdin=script,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            if not line.startswith("{"):
                continue  # the tables that the collector prints
            news = json.loads(line)
            if news["event"] == "run":
                self.run_id = news["run_id"]
            elif news["event"] == "live":
                self.looks.append(f"{time.monotonic() - self.began:.1f} s: {news}")
                self.live = news["chunks"]
                if self.live:
                    self.first_chunk_at = self.first_chunk_at or time.monotonic()
            else:
                self.done = news

    def await_chunks(self, n: int, timeout_s: float = 90) -> None:
        def enough():
            seen = self.live >= n
            assert seen or self.process.poll() is None, self._errors()
            return seen

        wait_for(enough, timeout_s, f"{n} chunks in the live file")

    def await_end(self, timeout_s: float = 120) -> dict:
        try:
            status = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"no end within {timeout_s:g} s\n{self._errors()}") from None
        self.reader.join(10)
        assert status == 0 and self.done, self._errors()
        return self.done

    def _errors(self) -> str:
        return "\n".join([*self.looks, self.log.read_text()[-4000:]])
