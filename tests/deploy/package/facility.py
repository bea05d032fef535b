"""A facility in containers: a service host, two worker hosts and a Prometheus, set up by the commands of docs/sites/shared.md."""

from __future__ import annotations

import json
import pathlib
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
import uuid

import yaml
from hosts import PATIENCE_S, ROOT, Host, built_package, next_version, say

from waiting import wait_for

IMAGE = "crema-facility-test"
GUIDE = ROOT / "docs/sites/shared.md"
RULES = ROOT / "docs/operation/alerts.yml"
USERS = {"alice": 2001, "bob": 2002, "carol": 2003, "dave": 2004}
PYTHON, HERE = ROOT / ".venv/bin/python", pathlib.Path(__file__).parent
SMALL_SPOOL = "/var/spool/crema/small"

DOCKERFILE = """
FROM debian:bookworm-slim
RUN apt-get update -q && apt-get install -q -y --no-install-recommends \
    systemd systemd-sysv dbus python3 rsync prometheus && systemctl disable prometheus
RUN printf 'APT::Get::Assume-Yes "true";\\nAPT::Install-Recommends "false";\\n' >/etc/apt/apt.conf.d/99test
COPY first /root/first
RUN apt-get install -q --download-only /root/first/crema_*.deb
COPY second /root/second
STOPSIGNAL SIGRTMIN+3
CMD ["/sbin/init"]
"""


def guide() -> list[tuple[str, str]]:
    """Where, and the command without its prompt, of each line of the guide's blocks."""
    blocks = re.findall(r"^```console (\w+)\n(.+?)^```", GUIDE.read_text(), re.M | re.S)
    return [(where, line[2:]) for where, block in blocks for line in block.splitlines()]


def guide_yaml() -> dict:
    (block,) = re.findall(r"^```yaml\n(.+?)^```", GUIDE.read_text(), re.M | re.S)
    return yaml.safe_load(block)


def quick_rules() -> str:
    """The rules that are shipped, with seconds in place of minutes."""
    text = re.sub(r"\bfor: \d+m", "for: 2s", RULES.read_text())
    return re.sub(r"\[\d+[mh]\]", "[20s]", text)


def build_image(work: pathlib.Path):
    context = work / "image"
    for name in "first", "second":
        (context / name).mkdir(parents=True)
    package = built_package()
    shutil.copy(package, context / "first")
    next_version(package, work).rename(context / "second" / package.name)
    (context / "Dockerfile").write_text(DOCKERFILE)
    say("docker", "build", "-q", "-t", IMAGE, context)


class Disk:
    """A file system of its own, as large as is said; it is there while a container has it."""

    def __init__(self, name: str, size: str):
        self.name, self.holder = name, f"{name}-holder"
        options = [f"--opt={option}" for option in ("type=tmpfs", "device=tmpfs", f"o=size={size}")]
        say("docker", "volume", "create", "--driver", "local", *options, name)
        self.keep = ("-v", f"{name}:/disk", IMAGE, "sleep", "infinity")
        say("docker", "run", "-d", "--init", "--name", self.holder, *self.keep)

    def fill(self):
        """Somebody else's file takes all that is left."""
        command = "dd if=/dev/zero of=/disk/somebodys bs=64k 2>/dev/null; test -s /disk/somebodys"
        say("docker", "exec", self.holder, "sh", "-c", command)

    def free(self):
        say("docker", "exec", self.holder, "rm", "/disk/somebodys")

    def destroy(self):
        say("docker", "rm", "-f", self.holder)
        say("docker", "volume", "rm", "-f", self.name)


class Prometheus:
    """Debian's, in a container; it scrapes every second."""

    def __init__(self, name: str, network: str, work: pathlib.Path):
        self.name = name
        work.mkdir()
        config = guide_yaml()
        config["global"] = dict.fromkeys(
            ("scrape_interval", "scrape_timeout", "evaluation_interval"), "1s"
        )
        config["rule_files"] = ["/etc/facility/alerts.yml"]
        targets = config["scrape_configs"][0]["static_configs"][0]["targets"]
        (work / "prometheus.yml").write_text(yaml.safe_dump(config))
        (work / "alerts.yml").write_text(quick_rules())
        say(
            *("docker", "run", "-d", "--name", name, "--network", network),
            *("-v", f"{work}:/etc/facility:ro", IMAGE, "prometheus"),
            *("--config.file=/etc/facility/prometheus.yml", "--storage.tsdb.path=/tmp/data"),
        )
        template = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
        self.url = f"http://{say('docker', 'inspect', '-f', template, name)}:9090/api/v1"
        self.began = time.time()
        self.targets = len(targets)
        wait_for(self.all_are_up, PATIENCE_S, f"{len(targets)} programs that are scraped")

    def ask(self, path: str, **query) -> dict:
        with urllib.request.urlopen(f"{self.url}/{path}?{urllib.parse.urlencode(query)}") as answer:
            return json.load(answer)["data"]

    def all_are_up(self) -> bool:
        """They have answered for three seconds."""
        query = 'min_over_time(up{job="crema"}[3s]) == 1'
        try:
            return len(self.ask("query", query=query)["result"]) == self.targets
        except OSError:
            return False

    def active(self, *states: str) -> set[str]:
        alerts = self.ask("alerts")["alerts"]
        return {each["labels"]["alertname"] for each in alerts if each["state"] in states}

    def firing(self) -> set[str]:
        return self.active("firing")

    def must_fire(self, *names: str):
        wait_for(lambda: set(names) <= self.firing(), PATIENCE_S, f"alerts {names}")

    def must_clear(self, *names: str):
        """With all programs up: what is not scraped fires no alert."""

        def have_cleared() -> bool:
            return self.all_are_up() and not set(names) & self.active("pending", "firing")

        wait_for(have_cleared, 150, f"the end of {names}")

    def history(self) -> dict[str, list[int]]:
        """For each alert, the seconds since the beginning at which it fired."""
        now = time.time()
        query = {"query": 'ALERTS{alertstate="firing"}', "step": 1}
        result = self.ask("query_range", start=self.began, end=now, **query)["result"]
        found: dict[str, set[int]] = {}
        for series in result:
            seconds = {round(at - self.began) for at, _ in series["values"]}
            found.setdefault(series["metric"]["alertname"], set()).update(seconds)
        return {name: sorted(seconds) for name, seconds in found.items()}


class Analysis:
    """A run of a user, in a process on a worker host."""

    def __init__(self, host: Host, user: str, *options: str, spool: str = ""):
        self.host, self.user, self.recorded, self.verdict = host, user, 0, None
        command = [PYTHON, HERE / "recorder.py", *options]
        self.process = host.as_user(user, command, spool)
        self.run_id = ""

    def hear(self) -> dict:
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        return json.loads(line)

    def await_begin(self):
        said = self.hear()
        self.run_id, self.pid = said["run_id"], said["pid"]

    def tell(self, word: str):
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def burst(self):
        self.tell("burst")
        self.recorded = self.hear()["recorded"]

    def await_end(self) -> str:
        """What its collector says at the end."""
        said = self.hear()
        self.recorded, self.verdict = said["recorded"], said["verdict"]
        assert self.process.wait(60) == 0, self.process.stderr.read()
        return self.verdict

    def end(self) -> str:
        self.tell("end")
        return self.await_end()

    def kill(self):
        self.host.run(f"kill -KILL {self.pid}")
        self.process.wait(60)


class FacilityHost(Host):
    """It has the packages of both versions, and this checkout, from which its users run."""

    def __init__(self, facility: str, name: str, *options):
        checkout = ("-v", f"{ROOT}:{ROOT}:ro", "-w", "/root/first")
        network = ("--network", facility, "--network-alias", name, "--hostname", name)
        super().__init__(IMAGE, f"{facility}-{name}", *checkout, *network, *options)

    def reboot(self):
        subprocess.run(["docker", "exec", self.name, "systemctl", "reboot"], capture_output=True)
        say("docker", "wait", self.name, timeout_s=60)

    def power_on(self):
        say("docker", "start", self.name)
        self.await_systemd()

    def upgrade(self):
        """As the guide says, where the new package is."""
        say(
            "docker",
            "exec",
            "-w",
            "/root/second",
            self.name,
            "sh",
            "-c",
            "apt install ./crema_*_amd64.deb",
        )

    def environment(self, user: str) -> list[str]:
        """What the guide asks a user to export."""
        (line,) = [line for where, line in guide() if where == "user" and "export" in line]
        return line.replace("~", f"/home/{user}").split()[1:]

    def command(self, user: str, command: list, spool: str = "") -> list[str]:
        exported = self.environment(user) + ([f"CREMA_SPOOL={spool}"] if spool else [])
        exported += [f"HOME=/home/{user}", "PYTHONDONTWRITEBYTECODE=1"]
        words = [word for variable in exported for word in ("-e", variable)]
        where = ("-w", f"/home/{user}", "-u", user)
        return ["docker", "exec", "-i", *words, *where, self.name, *map(str, command)]

    def as_user(self, user: str, command: list, spool: str = "") -> subprocess.Popen:
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return subprocess.Popen(self.command(user, command, spool), text=True, **pipes)


class Facility:
    def __init__(self, work: pathlib.Path):
        self.work, self.name = work, f"crema-facility-{uuid.uuid4().hex[:6]}"
        self.disks, self.hosts, self.prometheus = [], [], None
        build_image(work)
        say("docker", "network", "create", self.name)
        self.store_disk = self.disk("disk", "192m")
        self.runs_disk = self.disk("runs", "96m")
        where = (self.store_disk, "/var/lib/crema"), (self.runs_disk, "/var/lib/crema/runs")
        mounts = [word for disk, path in where for word in ("-v", f"{disk.name}:{path}")]
        self.service = self.host("service", *mounts)
        self.worker = self.host("worker", "-v", "/var/spool/crema")
        self.frozen = self.host("frozen", "-v", "/var/spool/crema")  # as it will be

    def disk(self, name: str, size: str) -> Disk:
        self.disks.append(Disk(f"{self.name}-{name}", size))
        return self.disks[-1]

    def host(self, name: str, *options) -> FacilityHost:
        self.hosts.append(FacilityHost(self.name, name, *options))
        return self.hosts[-1]

    # ---------------------------------------------------------------- as the guide says

    def set_up(self):
        for host in self.worker, self.frozen:
            for user, uid in USERS.items():
                host.run(f"useradd --create-home --uid {uid} {user}")
        for where, command in guide():
            for line in self.for_all_users(command):
                self.follow(where, line)
        self.add_small_spool()
        # Times that a facility would not choose, so that minutes are enough here.
        self.service.run("echo 'abandon-after = \"90s\"' >>/etc/crema/aggregator.conf")
        self.service.run("systemctl restart crema-aggregator")
        self.prometheus = Prometheus(f"{self.name}-prometheus", self.name, self.work / "prometheus")

    def follow(self, where: str, command: str):
        """A line of the guide; what a user does is done by each Analysis."""
        if command.startswith("scp "):
            self.copy(command)
        elif where == "service":
            self.service.run(command)
        elif where == "worker":
            self.worker.run(command)
            self.frozen.run(command)

    def for_all_users(self, command: str) -> list[str]:
        """What the guide does for alice, also for the others."""
        if "alice" not in command:
            return [command]
        swap = ((user, str(uid)) for user, uid in USERS.items())
        return [command.replace("alice", user).replace("2001", uid) for user, uid in swap]

    def copy(self, command: str):
        """scp, which has no server here: to both worker hosts."""
        _, _, source, target = command.split()
        local = self.work / f"copy-{pathlib.Path(source).name}"
        say("docker", "cp", f"{self.service.name}:{source}", local)
        for host in self.worker, self.frozen:
            say("docker", "cp", local, f"{host.name}:{target.removeprefix('worker:')}")
            host.run(f"chown -R root: {target.removeprefix('worker:')}")

    def add_small_spool(self):
        """A second spool of a worker host, with the smallest limit that there is."""
        options = '$aspool-limit = "16Mi"'
        self.frozen.run(f"install -d -m 1777 {SMALL_SPOOL}")
        self.frozen.run(f"sed '{options}' /etc/crema/agent-main.conf >/etc/crema/agent-small.conf")
        self.frozen.run("systemctl enable --now crema-agent@small")

    # ---------------------------------------------------------------- asking

    def file_of(self, run_id: str) -> pathlib.Path:
        """A copy of that run's file."""
        copy = self.work / f"{run_id}.h5"
        say("docker", "cp", f"{self.service.name}:/var/lib/crema/runs/{run_id}.h5", copy)
        return copy

    def destroy(self):
        prometheus = [self.prometheus.name] if self.prometheus else []
        for name in [host.name for host in self.hosts] + prometheus:
            subprocess.run(["docker", "unpause", name], capture_output=True)
            say("docker", "rm", "-f", "-v", name)
        for disk in self.disks:
            disk.destroy()
        say("docker", "network", "rm", self.name)
