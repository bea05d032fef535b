"""docs/sites/compose.md, word for word: the services of a facility, a user's key, a run through both, its revocation."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import urllib.request

import pytest

import crema
from ports import free_port
from stack import COMPOSE, compose_command, docker, say
from waiting import wait_for

PAGE = COMPOSE.parent / "docs/sites/compose.md"
BIN = pathlib.Path(os.environ.get("CREMA_BIN_DIR", COMPOSE.parent / "build/dev/bin"))
pytestmark = pytest.mark.timeout(300, func_only=True)


class Guide:
    """Executes blocks of the page in one shell each, with a project and ports of its own."""

    def __init__(self, project: str, directory: pathlib.Path):
        self.directory, self.project = directory, f"{project}-production"
        self.port = free_port()
        self.environment = {
            **os.environ,
            "COMPOSE_PROJECT_NAME": self.project,
            "COMPOSE_FILE": str(COMPOSE / "production/compose.yaml"),
            "CREMA_PORT": str(self.port),
            "CREMA_SINK_METRICS_PORT": str(free_port()),
            "CREMA_AGGREGATOR_METRICS_PORT": str(free_port()),
        }

    def do(self, block: str) -> str:
        (text,) = re.findall(rf"^```console {block}\n(.+?)^```", PAGE.read_text(), re.M | re.S)
        lines = [line[2:].partition("  #")[0] for line in text.splitlines()]
        return "".join(map(self.command, lines))

    def command(self, line: str) -> str:
        if line == "cd compose/production":  # COMPOSE_FILE says so; what is unpacked goes elsewhere
            return ""
        line = line.replace("docker compose", " ".join(compose_command()))
        options = {"env": self.environment, "cwd": self.directory, "stdin": subprocess.DEVNULL}
        return say(["bash", "-o", "pipefail", "-c", line], **options)

    def container(self, service: str) -> str:
        labels = (f"project={self.project}", f"service={service}", "oneoff=False")
        words = [w for label in labels for w in ("--filter", f"label=com.docker.compose.{label}")]
        return docker("ps", "-q", *words).strip()

    def is_healthy(self) -> bool:
        inspect = ("inspect", "-f", "{{.State.Health.Status}}")
        names = self.container("sink"), self.container("aggregator")
        return all(docker(*inspect, name).strip() == "healthy" for name in names)

    def metrics(self, name: str) -> str:
        port = self.environment[f"CREMA_{name}_METRICS_PORT"]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            return answer.read().decode()


@pytest.fixture
def guide(project, images, tmp_path):
    made = Guide(project, tmp_path)
    yield made
    print(made.command("docker compose logs --tail 100"))
    made.command("docker compose down --volumes")


def record(directory: pathlib.Path):
    options = {"quiet": True, "on_error": "raise", "timeout": 60}
    with crema.MetricsCollector(output=directory, **options) as mc:
        crema.record_metric("crumbs", 1)
    return mc


def is_refused(directory: pathlib.Path) -> bool:
    """Whether its key is not admitted, or no more."""
    try:
        record(directory)
    except crema.CremaError as error:
        return "refuses this client" in str(error) or "does not admit the key" in str(error)
    return False


def test_the_page_is_true(guide, tmp_path, monkeypatch):
    guide.do("start")
    wait_for(guide.is_healthy, 60, "two services that are healthy")
    guide.do("keys")
    spool = tmp_path / "spool"
    spool.mkdir()
    monkeypatch.setenv("CREMA_AGGREGATOR", f"tcp://127.0.0.1:{guide.port}")
    monkeypatch.setenv("CREMA_KEYS", str(tmp_path / "client-alice"))
    monkeypatch.setenv("CREMA_SPOOL", str(spool))
    options = "--spool", spool, "--aggregator", f"tcp://127.0.0.1:{guide.port}"
    agent = subprocess.Popen([BIN / "crema-agent", *options, "--keys", tmp_path / "agent"])
    try:
        measured = record(tmp_path)
        assert measured.verdict == "COMPLETE", measured.reasons
        assert measured.run_id in guide.do("daily")
        wait_for(guide.is_healthy, 60, "two services that are healthy again")
        assert record(tmp_path).verdict == "COMPLETE"
        copied = tmp_path / "copied.h5"
        docker("cp", f"{guide.container('sink')}:/runs/{measured.run_id}.h5", copied)
        assert copied.stat().st_size > 0
        assert "crema_sink_sealed_files_total" in guide.metrics("SINK")
        assert "crema_aggregator_verdicts_total" in guide.metrics("AGGREGATOR")
        guide.do("revoke")
        wait_for(lambda: is_refused(tmp_path), 30, "the refusal of a revoked key")
    finally:
        agent.terminate()
        agent.wait(60)
