"""Alert rules and dashboard: they name series that exist, and a real Prometheus sees each important alert fire and clear."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import textwrap
import time
import urllib.parse

import pytest

import apt_programs
import crema
from children import Child
from kept_records import wait_for
from paths import ROOT
from ports import free_port
from scraping import documented, fetch, scrape
from service_kit import Service

RULES = ROOT / "docs" / "operation" / "alerts.yml"
DASHBOARD = ROOT / "docs" / "operation" / "dashboard.json"
SERIES = re.compile(r"\b(?:crema|process)_[a-z_]+\b")
pytestmark = pytest.mark.timeout(120)


def rules() -> list[str]:
    return re.findall(r"^ +expr: *(.+(?:\n {10}.+)*)", RULES.read_text(), re.MULTILINE)


def expressions() -> list[str]:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def base(name: str, page: dict) -> str:
    """The series that a sample belongs to."""
    plain = re.sub(r"_(bucket|sum|count)$", "", name)
    return plain if page.get(plain) == "histogram" else name


def test_rules_and_dashboard_name_series_that_exist():
    page = documented()
    assert len(rules()) == RULES.read_text().count("- alert:") >= 10
    assert len(expressions()) >= 30
    for expression in [*rules(), *expressions()]:
        named = set(SERIES.findall(re.sub(r"\{[^}]*\}", "", expression))) - {"crema_id"}
        assert named or expression.startswith("up{"), expression
        for name in named:
            assert base(name, page) in page, f"{name} in {expression}"


# ---------------------------------------------------------------- a real Prometheus


@pytest.fixture(scope="session")
def prometheus_bin():
    return apt_programs.program("promtool", "prometheus").parent


class Prometheus:
    """It scrapes each second; its rules wait for seconds instead of minutes."""

    def __init__(self, programs, directory, targets):
        directory.mkdir()
        text = re.sub(r"\bfor: \d+m", "for: 2s", RULES.read_text())
        text = re.sub(r"\[\d+m\]", "[20s]", text)
        (directory / "alerts.yml").write_text(text)
        self.port = free_port()
        config = {
            "global": {
                "scrape_interval": "1s",
                "scrape_timeout": "1s",
                "evaluation_interval": "1s",
            },
            "rule_files": ["alerts.yml"],
            "scrape_configs": [{"job_name": "crema", "static_configs": [{"targets": targets}]}],
        }
        (directory / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML too
        self.process = Child(
            [
                programs / "prometheus",
                f"--config.file={directory}/prometheus.yml",
                f"--storage.tsdb.path={directory}/data",
                f"--web.listen-address=127.0.0.1:{self.port}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=(directory / "log").open("w"),
        )

    def ask(self, path: str, **query) -> dict:
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with fetch(url) as answer:
            said = json.load(answer)
        assert said["status"] == "success", said
        return said["data"]

    def is_up(self) -> bool:
        try:
            found = self.ask("query", query='up{job="crema"}')["result"]
        except OSError:
            return False
        return len(found) == 2 and all(each["value"][1] == "1" for each in found)

    def firing(self) -> set[str]:
        alerts = self.ask("alerts")["alerts"]
        return {each["labels"]["alertname"] for each in alerts if each["state"] == "firing"}

    def must_fire(self, *names: str, timeout_s: float = 60):
        wait_for(lambda: set(names) <= self.firing(), timeout_s, f"alerts {names}")

    def must_clear(self, timeout_s: float = 60):
        wait_for(lambda: not self.firing(), timeout_s, "alerts that clear")

    def stop(self):
        self.process.terminate()
        self.process.wait(20)


class Site:
    """The three programs, each on ports that it has again after a restart."""

    def __init__(self, directory):
        self.directory = directory
        self.bind = {name: f"tcp://127.0.0.1:{free_port()}" for name in ("sink", "aggregator")}
        self.metrics = {name: str(free_port()) for name in ("sink", "aggregator")}
        self.running = {}
        (directory / "spool").mkdir()

    def start(self, name: str, *options):
        place = {
            "sink": ("--store", self.directory / "store", "--output", self.directory / "out"),
            "aggregator": ("--sink", self.bind["sink"], "--abandon-after", "6s"),
            "agent": ("--spool", self.directory / "spool", "--aggregator", self.bind["aggregator"]),
        }[name]
        served = name in self.bind
        bind = ("--bind", self.bind[name], "--metrics", self.metrics[name]) if served else ()
        self.running[name] = Service(f"crema-{name}", *bind, *place, *options, ready=served)

    def targets(self) -> list[str]:
        return [f"127.0.0.1:{port}" for port in self.metrics.values()]

    def stop(self, name: str):
        self.running.pop(name).stop()

    def kill(self, name: str):
        self.running.pop(name).kill()


@pytest.fixture
def site(tmp_path, monkeypatch):
    made = Site(tmp_path)
    for name in "sink", "aggregator", "agent":
        made.start(name)
    monkeypatch.setenv("CREMA_AGGREGATOR", made.bind["aggregator"])
    yield made
    for name in list(made.running):
        made.kill(name)


@contextlib.contextmanager
def filled(output, records: int):
    """A run of so many rows, some dozens of bytes each, that goes on: journals of sealed runs give way when there is no room."""
    with crema.MetricsCollector(output=output, quiet=True) as mc:
        for i in range(records):
            crema.record_metric("crumbs", i)
        yield
    assert mc.verdict == "COMPLETE", mc.reasons


def die_in_a_run(output):
    """A client that is killed: its run is sealed without its end."""
    code = f"""
        import os, signal, crema
        crema.MetricsCollector(output={str(output)!r}, quiet=True).__enter__()
        crema.record_metric("crumbs", 1)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], timeout=60)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.long
@pytest.mark.timeout(600)
def test_alerts_fire_and_clear_in_a_real_prometheus(prometheus_bin, site, tmp_path):
    promtool = prometheus_bin / "promtool"
    subprocess.run([promtool, "check", "rules", RULES], check=True)
    prometheus = Prometheus(prometheus_bin, tmp_path / "prometheus", site.targets())
    try:
        wait_for(prometheus.is_up, 60, "two programs that are scraped")
        for port in site.metrics.values():
            text = scrape(f"http://127.0.0.1:{port}/metrics").text
            checked = subprocess.run(
                [promtool, "check", "metrics"], input=text, text=True, capture_output=True
            )
            assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
        for expression in expressions():
            plain = expression.replace("$__rate_interval", "10s").replace("$job", "crema.*")
            prometheus.ask("query", query=plain)
        time.sleep(5)
        prometheus.must_clear(20)

        site.running["sink"].process.send_signal(signal.SIGSTOP)
        prometheus.must_fire("CremaSinkSilent", "CremaProgramDown")
        site.running["sink"].process.send_signal(signal.SIGCONT)
        prometheus.must_clear()
        print("sink silent: fired and cleared")

        site.kill("agent")
        prometheus.must_fire("CremaAgentLost", timeout_s=90)
        site.start("agent")
        prometheus.must_clear()
        print("agent lost: fired and cleared")

        site.kill("aggregator")
        prometheus.must_fire("CremaProgramDown")
        site.start("aggregator")
        prometheus.must_clear(90)
        print("aggregator down: fired and cleared")

        die_in_a_run(tmp_path / "out")
        prometheus.must_fire("CremaVerdictPartial", timeout_s=120)
        prometheus.must_clear(90)
        print("verdict PARTIAL: fired and cleared")

        metrics, bytes_held = f"http://{site.targets()[0]}/metrics", 0
        with filled(tmp_path / "out", 40_000):
            for _ in range(100):
                if (bytes_held := scrape(metrics).only("crema_sink_journal_bytes")) > 2**20:
                    break
                time.sleep(0.1)
            assert bytes_held > 2**20
            site.stop("sink")
            site.start("sink", "--journal-limit", "1Mi")
            prometheus.must_fire("CremaStoreFilling", "CremaStoreFull")
            site.stop("sink")
            site.start("sink")
        prometheus.must_clear(90)
        print("store filling: fired and cleared")
    finally:
        prometheus.stop()
