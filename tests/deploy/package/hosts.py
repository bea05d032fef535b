"""Containers with systemd, in which packages are installed as on a host, and the package of a later version."""

from __future__ import annotations

import json
import pathlib
import subprocess

from waiting import wait_for

ROOT = pathlib.Path(__file__).resolve().parents[3]
PATIENCE_S = 90.0
STORE, SPOOL = "/var/lib/crema/store", "/var/spool/crema/main"

# systemd needs its own hierarchy of cgroups and, for the sandboxes of the units, mounts.
RIGHTS = (
    *("--cap-add", "SYS_ADMIN", "--cap-add", "SYS_PTRACE", "--cgroupns=private"),
    *("--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined"),
    *("--tmpfs", "/run", "--tmpfs", "/run/lock", "--tmpfs", "/tmp"),
)


def say(*command, timeout_s: float = 600, **options) -> str:
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=timeout_s, **options
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout.strip()


class Host:
    """A container in which systemd runs."""

    def __init__(self, image: str, name: str, *options):
        self.name = name
        say("docker", "run", "-d", "--name", name, *RIGHTS, *options, image)
        self.await_systemd()

    def await_systemd(self):
        wait_for(
            lambda: self.state() in ("running", "degraded"), PATIENCE_S, f"systemd of {self.name}"
        )

    def run(self, command: str) -> str:
        return say("docker", "exec", self.name, "sh", "-c", command)

    def state(self) -> str:
        command = ("docker", "exec", self.name, "systemctl", "is-system-running")
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()

    def address(self) -> str:
        template = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
        return say("docker", "inspect", "-f", template, self.name)

    def started(self, unit: str) -> str:
        return self.run(f"systemctl show -p MainPID --value {unit}")

    def listing(self) -> dict[str, dict]:
        """What the store says of each of its runs."""
        return {
            run["run_id"]: run for run in json.loads(self.run(f"crema-sink store {STORE} --json"))
        }

    def log(self, lines: int = 60) -> str:
        return self.run(f"journalctl --no-pager -u 'crema-*' | tail -n {lines}")


def built_package() -> pathlib.Path:
    (package,) = (ROOT / "build/package").glob("crema_*.deb")
    return package


def next_version(package: pathlib.Path, work: pathlib.Path) -> pathlib.Path:
    """The same package as a later version."""
    say("dpkg-deb", "-R", package, work / "tree")
    control = work / "tree/DEBIAN/control"
    version = say("dpkg-deb", "-f", package, "Version")
    control.write_text(control.read_text().replace(f"Version: {version}", f"Version: {version}+1"))
    say("dpkg-deb", "--root-owner-group", "-b", work / "tree", work / "second.deb")
    return work / "second.deb"
