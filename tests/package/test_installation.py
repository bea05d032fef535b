"""The Debian package in a bare container with systemd: installed, used, upgraded in the middle of a run, removed, installed again.

Records come from this process, through a spool that it shares with the container; everything else is the package's.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import time
import uuid

import pytest

import crema

ROOT = pathlib.Path(__file__).resolve().parents[2]
IMAGE = "crema-package-test"
PATIENCE_S = 90.0
STORE, SPOOL = "/var/lib/crema/store", "/var/spool/crema/main"

# systemd needs its own hierarchy of cgroups and, for the sandboxes of the units, mounts.
RIGHTS = (
    *("--cap-add", "SYS_ADMIN", "--cap-add", "SYS_PTRACE", "--cgroupns=private"),
    *("--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined"),
    *("--tmpfs", "/run", "--tmpfs", "/run/lock", "--tmpfs", "/tmp"),
)
DOCKERFILE = """
FROM debian:bookworm-slim
RUN apt-get update -q && apt-get install -q -y --no-install-recommends systemd systemd-sysv dbus
COPY first.deb second.deb /root/
RUN apt-get install -q -y --no-install-recommends --download-only /root/first.deb
CMD ["/sbin/init"]
"""


def say(*command) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout.strip()


def wait_for(condition, what: str):
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.2)


class Host:
    """The container: a service host and, with its agent, the host of a worker."""

    def __init__(self, work: pathlib.Path):
        self.name, self.spool = f"crema-package-{uuid.uuid4().hex[:8]}", work / "spool"
        self.spool.mkdir()
        self.spool.chmod(0o1777)
        say(
            "docker",
            "run",
            "-d",
            "--name",
            self.name,
            *RIGHTS,
            "-v",
            f"{self.spool}:{SPOOL}",
            IMAGE,
        )
        wait_for(lambda: self.state() in ("running", "degraded"), "systemd did not start")
        address = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
        self.address = say("docker", "inspect", "-f", address, self.name)

    def run(self, command: str) -> str:
        return say("docker", "exec", self.name, "sh", "-c", command)

    def state(self) -> str:
        command = ("docker", "exec", self.name, "systemctl", "is-system-running")
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()

    def install(self, package: str):
        self.run(f"apt-get install -q -y --no-install-recommends /root/{package}.deb")

    def active(self) -> list[str]:
        units = "crema-sink crema-aggregator crema-agent@main"
        return self.run(f"systemctl is-active {units} || true").split()

    def started(self, unit: str) -> str:
        return self.run(f"systemctl show -p MainPID --value {unit}")

    def runs(self) -> dict[str, str]:
        """Phase of each run in the store."""
        listed = json.loads(self.run(f"crema-sink store {STORE} --json"))
        return {run["run_id"]: run["phase"] for run in listed}


def next_version(package: pathlib.Path, work: pathlib.Path) -> pathlib.Path:
    """The same package as a later version."""
    say("dpkg-deb", "-R", package, work / "tree")
    control = work / "tree/DEBIAN/control"
    version = say("dpkg-deb", "-f", package, "Version")
    control.write_text(control.read_text().replace(f"Version: {version}", f"Version: {version}+1"))
    say("dpkg-deb", "--root-owner-group", "-b", work / "tree", work / "second.deb")
    return work / "second.deb"


@pytest.fixture
def host(tmp_path):
    (package,) = (ROOT / "build/package").glob("crema_*.deb")
    image = tmp_path / "image"
    image.mkdir()
    shutil.copy(package, image / "first.deb")
    next_version(package, tmp_path).rename(image / "second.deb")
    (image / "Dockerfile").write_text(DOCKERFILE)
    say("docker", "build", "-q", "-t", IMAGE, image)
    made = Host(tmp_path)
    yield made
    print(made.run("journalctl --no-pager -u 'crema-*' | tail -n 60"))
    say("docker", "rm", "-f", made.name)


def record(**options):
    return crema.MetricsCollector(output=".", quiet=True, on_error="raise", timeout=60, **options)


def test_life_of_an_installation(host, tmp_path, monkeypatch):
    host.install("first")
    host.run("systemctl enable --now crema-agent@main")
    assert host.active() == ["active"] * 3
    assert host.run("stat -c %U:%a /var/lib/crema/keys/server") == "crema:700"
    host.run("runuser -u crema -- crema-aggregator --keys /var/lib/crema/keys --add-key alice")
    say("docker", "cp", f"{host.name}:/var/lib/crema/keys/client-alice", tmp_path / "keys")
    monkeypatch.setenv("CREMA_AGGREGATOR", f"tcp://{host.address}:5700")
    monkeypatch.setenv("CREMA_KEYS", str(tmp_path / "keys"))
    monkeypatch.setenv("CREMA_SPOOL", str(host.spool))

    with record() as freed:
        crema.record_metric("crumbs", 1)
    assert freed.verdict == "COMPLETE", freed.reasons
    host.run("echo 'retain = \"1s\"' >> /etc/crema/sink.conf && systemctl reload crema-sink")
    wait_for(lambda: host.runs() == {str(freed._run_id): "freed"}, "the first run was not freed")
    host.run("sed -i /retain/d /etc/crema/sink.conf && systemctl reload crema-sink")

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
