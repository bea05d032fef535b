"""`--metrics`: what a scrape says is what the log and the run file say, and no client of it can hold anything up."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import threading
import time
import urllib.error
import uuid

import pytest

import crema
from children import Child
from kept_records import wait_for
from scraping import documented, fetch, scrape
from service_kit import ANY, BIN, Service, run, write_stream

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def pipeline(tmp_path, monkeypatch):
    """Sink and aggregator, which collectors use; both are scraped."""
    paths = "--store", tmp_path / "store", "--output", tmp_path / "out"
    with contextlib.ExitStack() as stack:

        def start(program, *options):
            service = Service(program, "--bind", ANY, "--metrics", "0", *options)
            stack.callback(lambda: service.process.poll() is not None or service.stop())
            return service

        sink = start("crema-sink", *paths)
        aggregator = start("crema-aggregator", "--sink", sink.endpoint)
        monkeypatch.setenv("CREMA_AGGREGATOR", aggregator.endpoint)
        yield sink, aggregator


def last_line(log: str) -> dict[str, int]:
    """The counters of the last line of a log."""
    (line,) = [line for line in log.splitlines() if " event=stopped " in line]
    return {name: int(number) for name, number in re.findall(r" ([a-z_]+)=(\d+)\b", line)}


def record(output, n=3):
    with crema.MetricsCollector(output=output, quiet=True) as mc:
        for i in range(n):
            crema.record_metric("crumbs", i)
    assert mc.verdict == "COMPLETE", mc.reasons
    return mc


def must_be_documented(found):
    page = documented()
    for name, kind in found.types.items():
        assert page[name] == kind


def test_the_sink_shows_what_its_log_says(pipeline, tmp_path):
    sink, aggregator = pipeline
    before = scrape(sink)
    assert before.only("crema_sink_healthy") == 1
    assert before.of("crema_sink_sealed_files_total") == {"COMPLETE": 0, "PARTIAL": 0}
    record(tmp_path / "out")
    aggregator.stop()
    time.sleep(0.3)  # a scrape is a quarter of a second old at most
    found = scrape(sink)
    must_be_documented(found)
    names = {name for name in documented() if name.startswith("crema_sink_")}
    assert names - set(found.types) == {"crema_sink_verdict_reasons_total"}  # there was none
    said = last_line(sink.stop()[1])
    for series, field in {
        "messages": "messages",
        "puts": "puts",
        "records": "records",
        "bad_messages": "bad",
        "refused_messages": "refused",
        "gaps": "gaps",
        "commits": "commits",
        "committed_bytes": "committed_bytes",
        "keys_refused": "keys_refused",
    }.items():
        assert found.only(f"crema_sink_{series}_total") == said[field], series
    assert said["records"] > 3
    assert found.of("crema_sink_sealed_files_total") == {"COMPLETE": 1, "PARTIAL": 0}
    assert found.of("crema_sink_runs")["sealed"] == 1
    for histogram in "crema_sink_commit_latency_seconds", "crema_sink_sync_seconds":
        assert found.only(f"{histogram}_count") == said["commits"]
        assert found[f"{histogram}_bucket", "+Inf"] == said["commits"]
        assert 0 < found.only(f"{histogram}_sum") < 60
    latency, sync = (
        found.only(f"crema_sink_{name}_seconds_sum") for name in ("commit_latency", "sync")
    )
    assert latency >= sync


def test_the_aggregator_shows_what_its_log_says(pipeline, tmp_path):
    _, aggregator = pipeline
    with crema.MetricsCollector(output=tmp_path / "out", quiet=True) as mc:
        crema.record_metric("crumbs", 1)
        wait_for(
            lambda: (
                scrape(aggregator).of("crema_aggregator_runs")["open"] == 1
                and scrape(aggregator).of("crema_aggregator_agents")["live"] == 1
            ),
            what="the run and its agent",
        )
        found = scrape(aggregator)
        assert found.only("crema_aggregator_healthy") == 1
        assert found.of("crema_aggregator_verdicts_total") == {"COMPLETE": 0, "PARTIAL": 0}
    assert mc.verdict == "COMPLETE", mc.reasons
    time.sleep(0.3)
    found = scrape(aggregator)
    must_be_documented(found)
    names = {name for name in documented() if name.startswith("crema_aggregator_")}
    of_runs = {name for name in names if name.startswith("crema_aggregator_run_")}
    assert names - set(found.types) - of_runs == {
        "crema_aggregator_verdict_reasons_total",
        "crema_aggregator_agent_backlog_records",
    }
    said = last_line(aggregator.stop()[1])
    for series, field in {
        "messages_total": "messages",
        "batches_total": "data_accepted",
        "committed_records_total": "committed_records",
        "nacks_total": "nacks",
        "hellos_total": "hellos",
        "keys_refused_total": "keys_refused",
    }.items():
        assert abs(found.only(f"crema_aggregator_{series}") - said[field]) <= 2 * (
            series == "messages_total"  # an agent may beat after the scrape
        ), series
    assert said["committed_records"] > 1
    assert found.only("crema_aggregator_records_total") == said["committed_records"]
    assert found.only("crema_aggregator_backlog_records") == 0
    assert found.of("crema_aggregator_runs") == {
        "unknown": 0, "open": 0, "barrier": 0, "verdict": 0, "sealed": 1, "failed": 0
    }  # fmt: skip
    assert found.of("crema_aggregator_verdicts_total") == {"COMPLETE": 1, "PARTIAL": 0}


def test_the_aggregator_names_the_agents_with_records_that_are_not_durable(pipeline, tmp_path):
    sink, aggregator = pipeline
    spool = tmp_path / "spool"
    spool.mkdir()
    agent = Child([BIN / "crema-agent", "--spool", spool, "--aggregator", aggregator.endpoint])
    try:
        wait_for(
            lambda: scrape(aggregator).of("crema_aggregator_agents")["live"] == 1, what="a session"
        )
        sink.process.send_signal(signal.SIGSTOP)  # nothing becomes durable
        write_stream(spool, uuid.uuid4().bytes, 500)
        wait_for(
            lambda: scrape(aggregator).only("crema_aggregator_backlog_records") == 500,
            what="the backlog",
        )
        behind = scrape(aggregator)
        ((names, records),) = behind.of("crema_aggregator_agent_backlog_records").items()
        assert names == (
            str(uuid.UUID(bytes=(spool / "agent_id").read_bytes()[-16:])),
            socket.gethostname(),
        )
        assert records == 500
        wait_for(
            lambda: scrape(aggregator).only("crema_aggregator_healthy") == 0,
            what="the silence of the sink",
        )
        sink.process.send_signal(signal.SIGCONT)
        wait_for(
            lambda: scrape(aggregator).only("crema_aggregator_backlog_records") == 0,
            what="its end",
        )
    finally:
        sink.process.send_signal(signal.SIGCONT)
        agent.terminate()
        assert agent.wait(30) == 0


def test_address_of_the_series_serves_nothing_else(pipeline):
    sink, _ = pipeline
    url = sink.said["metrics"]
    assert url.startswith("http://127.0.0.1:")
    for wrong in url.removesuffix("metrics"), url + "/x":
        with pytest.raises(urllib.error.HTTPError, match="404"):
            fetch(wrong)


@pytest.mark.parametrize("program", ["crema-sink", "crema-aggregator"])
@pytest.mark.parametrize("address", ["metrics", "example.org:9101", "127.0.0.1", "70000"])
def test_an_address_that_is_none_is_named(program, address, tmp_path):
    store = ("--store", tmp_path / "store") if program == "crema-sink" else ()
    done = run(program, *store, "--check", "--metrics", address)
    assert done.returncode == 2
    assert f'--metrics: "{address}" is not an address' in done.stderr


def test_a_taken_port_of_metrics_is_named(pipeline, tmp_path):
    taken = pipeline[0].said["metrics"].split("/")[2]
    done = run("crema-sink", "--bind", ANY, "--store", tmp_path / "two", "--metrics", taken)
    assert done.returncode == 1
    assert f"--metrics: cannot listen at {taken}: the port is taken" in done.stderr


def test_slow_and_hostile_clients_hold_nothing_up(pipeline, tmp_path):
    """They come all the time, say nothing, garbage or a request that never ends, and do not read; meanwhile a run is recorded and scraped."""
    sink, _ = pipeline
    host, port = sink.said["metrics"].split("/")[2].split(":")
    openings = [
        b"",
        b"GET /met",
        b"\x00\xff" * 4096,
        b"GET /metrics HTTP/1.1\r\n" + b"A: b\r\n" * 9999,
    ]
    stop, held = threading.Event(), []

    def trouble():
        while not stop.wait(0.03):
            with contextlib.suppress(OSError):
                held.append(socket.create_connection((host, int(port)), timeout=1))
                held[-1].settimeout(0.1)
                held[-1].sendall(openings[len(held) % len(openings)])

    thread = threading.Thread(target=trouble)
    thread.start()
    try:
        wait_for(lambda: len(held) > 24, what="connections that stay open")
        record(tmp_path / "out")
        for _ in range(10):
            found = scrape(sink, 4)  # a silent client may stay for five
            time.sleep(0.1)
    finally:
        stop.set()
        thread.join()
        for each in held:
            each.close()
    assert found.of("crema_sink_sealed_files_total")["COMPLETE"] == 1
    latency = "crema_sink_commit_latency_seconds"  # a client may stay for ten seconds
    assert found[f"{latency}_bucket", "5"] == found.only(f"{latency}_count") > 0
    assert found.only("crema_scrapes_refused_total") > 0
    assert found.only("process_resident_memory_bytes") < 256 << 20


def test_a_flood_of_clients_is_refused(pipeline):
    sink, _ = pipeline
    answered = refused = 0
    for _ in range(300):
        try:
            scrape(sink)
            answered += 1
        except OSError:
            refused += 1
    assert answered >= 50
    time.sleep(1.1)
    assert scrape(sink).only("crema_scrapes_refused_total") == refused
