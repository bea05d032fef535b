"""The Debian package in a bare container with systemd: installed, used, upgraded in the middle of a run, removed, installed again.

Records come from this process, through a spool that it shares with the container; everything else is the package's.
"""

from __future__ import annotations

from hosts import PATIENCE_S, say

import crema
from waiting import wait_for


def record(**options):
    return crema.MetricsCollector(output=".", quiet=True, on_error="raise", timeout=60, **options)


def test_life_of_an_installation(host, tmp_path, monkeypatch):
    host.install("first")
    host.run("systemctl enable --now crema-agent@main")
    assert host.active() == ["active"] * 3
    assert host.run("stat -c %U:%a /var/lib/crema/keys/server") == "crema:700"
    host.run("runuser -u crema -- crema-aggregator --keys /var/lib/crema/keys --add-key alice")
    say("docker", "cp", f"{host.name}:/var/lib/crema/keys/client-alice", tmp_path / "keys")
    monkeypatch.setenv("CREMA_AGGREGATOR", f"tcp://{host.address()}:5700")
    monkeypatch.setenv("CREMA_KEYS", str(tmp_path / "keys"))
    monkeypatch.setenv("CREMA_SPOOL", str(host.spool))

    with record() as freed:
        crema.record_metric("crumbs", 1)
    assert freed.verdict == "COMPLETE", freed.reasons
    host.run("echo 'retain = \"1s\"' >> /etc/crema/sink.conf && systemctl restart crema-sink")
    wait_for(
        lambda: host.runs() == {str(freed._run_id): "freed"},
        PATIENCE_S,
        "the first run was not freed",
    )
    host.run("sed -i /retain/d /etc/crema/sink.conf && systemctl restart crema-sink")

    with record() as retained:
        crema.record_metric("crumbs", 2)
    with record() as open_run:
        crema.record_metric("crumbs", 3)
        host.run("systemctl stop crema-aggregator")
        crema.record_metric("crumbs", 4)  # stays in the spool until the new version takes it
        before = {unit: host.started(unit) for unit in ("crema-sink", "crema-agent@main")}
        host.install("second")
        assert host.active() == ["active"] * 3
        assert all(host.started(unit) != pid for unit, pid in before.items())
        crema.record_metric("crumbs", 5)
    assert open_run.verdict == retained.verdict == "COMPLETE", open_run.reasons
    phases = {str(retained._run_id): "sealed", str(open_run._run_id): "sealed"}
    assert host.runs() == {**phases, str(freed._run_id): "freed"}
    host.run("crema-sink check /var/lib/crema/runs/*.h5")

    host.run("apt-get remove -q -y crema")
    assert "active" not in host.active()
    host.run("apt-get purge -q -y crema")
    assert len(host.run("ls /var/lib/crema/runs/*.h5").split()) == 3
    host.install("second")
    assert host.active()[:2] == ["active"] * 2
    assert host.runs() == {**phases, str(freed._run_id): "freed"}
