"""Options in a file: what --check says of them, and what a running service takes of it at SIGHUP."""

from __future__ import annotations

import signal

import pytest

import crema
from kept_records import Supervised, wait_for
from ports import free_port
from service_kit import BIN, run

pytestmark = pytest.mark.timeout(120)


def values(text: str) -> dict[str, str]:
    lines = [line for line in text.splitlines() if " = " in line]
    return {
        name: value.split("  #")[0].strip() for name, value in (s.split(" = ", 1) for s in lines)
    }


def test_check_prints_a_configuration_that_can_be_used(tmp_path):
    """Every value with where it came from; as a file it means the same."""
    config = tmp_path / "sink.conf"
    config.write_text(f'store = "{tmp_path}/store"\nretain = 2h # of service\nrun-limit = 5Gi\n')
    said = run(
        "crema-sink", "--config", config, "--check", "--run-limit", "6Gi", CREMA_LIVE="false"
    )
    assert said.returncode == 0, said.stderr
    lines = {line.split(" = ")[0]: line for line in said.stdout.splitlines()}
    assert lines["retain"].split() == ["retain", "=", '"2h"', "#", "file", str(config)]
    assert lines["run-limit"].endswith("# command line") and '"6Gi"' in lines["run-limit"]
    assert lines["live"].endswith("# environment")
    assert lines["commit-interval"].endswith("# built in")
    assert said.stdout.splitlines()[-1] == "configuration is sound"
    again = tmp_path / "again.conf"
    again.write_text(said.stdout.replace("configuration is sound", ""))
    same = run("crema-sink", "--config", again, "--check")
    assert same.returncode == 0, same.stderr
    assert values(same.stdout) == values(said.stdout)


@pytest.fixture
def pipeline(tmp_path, monkeypatch):
    """A sink and an aggregator with a file of options each, and how to change one."""
    endpoints = [f"tcp://127.0.0.1:{free_port()}" for _ in range(2)]
    fixed = {
        "sink": {
            "bind": endpoints[0],
            "keys": f"{tmp_path}/keys",
            "store": f"{tmp_path}/store",
            "output": f"{tmp_path}/out",
        },
        "aggregator": {"bind": endpoints[1], "sink": endpoints[0], "keys": f"{tmp_path}/keys"},
    }
    running = {}
    assert run("crema-aggregator", "--make-keys", tmp_path / "keys").returncode == 0

    def change(name: str, **options) -> None:
        lines = {**fixed[name], **{k.replace("_", "-"): v for k, v in options.items()}}
        text = "".join(f'{option} = "{value}"\n' for option, value in lines.items())
        (tmp_path / f"{name}.conf").write_text(text)
        if name in running:
            running[name].signal(signal.SIGHUP)

    for name in fixed:
        change(name, runs_per_client="1") if name == "aggregator" else change(name)
        running[name] = Supervised(
            [BIN / f"crema-{name}", "--config", tmp_path / f"{name}.conf"],
            tmp_path / f"{name}.log",
        )
    for name in fixed:
        wait_for(lambda name=name: "ready" in (tmp_path / f"{name}.log").read_text(), 20, name)
    monkeypatch.setenv("CREMA_AGGREGATOR", endpoints[1])
    monkeypatch.setenv("CREMA_KEYS", f"{tmp_path}/keys/client")
    yield change, lambda name: (tmp_path / f"{name}.log").read_text()
    for program in running.values():
        program.stop()


def record(output):
    return crema.MetricsCollector(output=output, quiet=True, on_error="raise")


def test_limits_and_log_level_change_while_runs_go_on(pipeline, tmp_path):
    change, log = pipeline
    with record(tmp_path) as first:
        crema.record_metric("crumbs", 1)
        with pytest.raises(crema.CremaError, match="cannot open another run"):
            record(tmp_path).__enter__()
        change("aggregator", runs_per_client="2", tap="tcp://127.0.0.1:*", log_level="warn")
        wait_for(lambda: "option=runs-per-client value=2" in log("aggregator"), 10, "the change")
        assert "event=option_needs_restart option=tap" in log("aggregator")
        with record(tmp_path) as second:
            crema.record_metric("crumbs", 2)
    assert first.verdict == second.verdict == "COMPLETE"
    journal = tmp_path / "store" / str(first._run_id)
    assert journal.exists()
    change("sink", retain="1s")
    wait_for(lambda: not journal.exists(), 20, "freeing after a second instead of a day")
    assert "option_needs_restart" not in log("sink")  # what did not change needs none


def test_a_file_with_a_mistake_changes_nothing(pipeline, tmp_path):
    change, log = pipeline
    change("sink", retain="1s", colour="red")
    wait_for(lambda: "reload_refused" in log("sink"), 10, "the refusal")
    assert "colour: no such option" in log("sink")
    assert "option_changed" not in log("sink")
    with record(tmp_path) as mc:
        crema.record_metric("crumbs", 1)
    assert mc.verdict == "COMPLETE"
    change("sink", retain="1s")
    wait_for(lambda: "event=option_changed option=retain" in log("sink"), 10, "the change")
