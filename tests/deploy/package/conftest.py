"""A container with the package of today and that of a later version, for each test."""

from __future__ import annotations

import pathlib
import shutil
import uuid

import pytest
from hosts import SPOOL, Host, built_package, next_version, say

IMAGE = "crema-package-test"

DOCKERFILE = """
FROM debian:bookworm-slim
RUN apt-get update -q && apt-get install -q -y --no-install-recommends systemd systemd-sysv dbus
COPY first.deb second.deb /root/
RUN apt-get install -q -y --no-install-recommends --download-only /root/first.deb
CMD ["/sbin/init"]
"""


class Installation(Host):
    """A service host and, with its agent, the host of a worker."""

    def __init__(self, work: pathlib.Path):
        self.spool = work / "spool"
        self.spool.mkdir()
        self.spool.chmod(0o1777)
        name = f"crema-package-{uuid.uuid4().hex[:8]}"
        super().__init__(IMAGE, name, "-v", f"{self.spool}:{SPOOL}")

    def install(self, package: str):
        self.run(f"apt-get install -q -y --no-install-recommends /root/{package}.deb")

    def active(self) -> list[str]:
        units = "crema-sink crema-aggregator crema-agent@main"
        return self.run(f"systemctl is-active {units} || true").split()

    def runs(self) -> dict[str, str]:
        """Phase of each run in the store."""
        return {run_id: run["phase"] for run_id, run in self.listing().items()}

    def verdicts(self) -> dict[str, str]:
        """Verdict of the newest file of each run; None without a file."""
        return {run_id: run.get("verdict") or None for run_id, run in self.listing().items()}


@pytest.fixture
def host(tmp_path):
    package = built_package()
    image = tmp_path / "image"
    image.mkdir()
    shutil.copy(package, image / "first.deb")
    next_version(package, tmp_path).rename(image / "second.deb")
    (image / "Dockerfile").write_text(DOCKERFILE)
    say("docker", "build", "-q", "-t", IMAGE, image)
    made = Installation(tmp_path)
    yield made
    print(made.log())
    say("docker", "rm", "-f", made.name)
