"""A spool that one agent serves for all users of a host: made as docs/operation.md starts it, with and without the agent's rights."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile

import h5py
import pytest

import missing
from agent_kit import agents, run
from children import Child
from paths import program
from service_kit import services, sink

__all__ = ["agents"]

pytestmark = [
    pytest.mark.skipif(not missing.others_may_run_python(), reason=missing.OPEN_CHECKOUT),
    pytest.mark.timeout(120),
]
services, sink = pytest.fixture(services), pytest.fixture(sink)

USERS = (65534, 65533)
AS_USER = ("setpriv", "--clear-groups", "--reuid")
NO_PTRACE = ("setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace")
CAP_SYS_PTRACE = 1 << 19
ANALYSIS = """
import json, time, crema
from distributed import Client
with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as client:
    with crema.MetricsCollector(client, quiet=True) as mc:
        client.submit(time.sleep, 1.5).result()
        over = time.monotonic()
    left_s = time.monotonic() - over
print(json.dumps([left_s, mc.verdict, [reason["code"] for reason in mc.reasons], str(mc.path)]))
"""


def may_see_others() -> bool:
    status = pathlib.Path("/proc/self/status").read_text()
    return bool(int(re.search(r"CapEff:\s*(\w+)", status)[1], 16) & CAP_SYS_PTRACE)


class Place:
    """A directory that every user may enter, with a pipeline beside it."""

    def __init__(self, directory: pathlib.Path, endpoint: str):
        self.directory, self.endpoint = directory, endpoint
        self.spool = directory / "made" / "spool"

    def as_user(self, user: int, *command: str) -> subprocess.CompletedProcess:
        environment = {
            **os.environ, "CREMA_SPOOL": str(self.spool), "CREMA_AGGREGATOR": self.endpoint, "HOME": str(self.directory),
        }  # fmt: skip
        return subprocess.run(
            [*AS_USER, str(user), sys.executable, *command],
            env=environment, cwd=self.directory, capture_output=True, text=True, timeout=90,
        )  # fmt: skip

    def analyse(self, user: int) -> tuple[float, str, list[str], str]:
        done = self.as_user(user, "-c", ANALYSIS)
        assert done.returncode == 0, done.stderr
        return tuple(json.loads(done.stdout.splitlines()[-1]))

    def doctor(self, user: int) -> list[str]:
        """What `crema doctor` finds wrong with the spool."""
        lines = self.as_user(user, "-m", "crema", "doctor").stdout.splitlines()
        return [line for line in lines if re.match(r"(?!ok)\w+ +spool: ", line)]


@pytest.fixture
def place(services, sink, tmp_path):
    aggregator = services(
        "crema-aggregator", "--bind", "tcp://127.0.0.1:*", "--sink", sink.endpoint
    )
    directory = pathlib.Path(tempfile.mkdtemp(prefix="crema-shared-"))
    directory.chmod(0o755)
    yield Place(directory, aggregator.endpoint)
    shutil.rmtree(directory)


def rows_of_agent(path: str) -> int:
    """Samples of the run's workers by the agent."""
    with h5py.File(path) as file:
        return int((file["worker_samples"]["source"] == 0).sum())


def test_shared_spool_works_as_the_page_starts_its_agent(place, agents):
    agent = agents("--spool", place.spool, "--aggregator", place.endpoint)
    agent.must_log("serving")
    assert stat.S_IMODE(place.spool.stat().st_mode) == 0o1777
    assert stat.S_IMODE(place.spool.parent.stat().st_mode) == 0o755
    for user in USERS:
        _, verdict, reasons, path = place.analyse(user)
        assert (verdict, reasons) == ("COMPLETE", []), path


@pytest.mark.slow
@pytest.mark.skipif(not may_see_others(), reason=missing.OTHERS_PROCESSES)
def test_shared_spool_agent_of_the_host_samples_all_users(place, agents):
    agent = agents("--spool", place.spool, "--aggregator", place.endpoint)
    agent.must_log("serving")
    _, _, _, path = place.analyse(USERS[0])
    assert rows_of_agent(path) > 0
    assert "other_users_not_sampled" not in agent.log.read_text()
    assert place.doctor(USERS[0]) == []
    assert check("--spool", place.spool) == ""


@pytest.mark.slow
def test_shared_spool_without_ptrace_is_reported_by_log_check_and_doctor(place, agents):
    options = ("--spool", place.spool, "--aggregator", place.endpoint)
    agent = agents(*options, before=NO_PTRACE)
    agent.must_log("serving")
    for user in USERS:
        _, verdict, reasons, path = place.analyse(user)
        assert (verdict, reasons) == ("COMPLETE", [])
        assert rows_of_agent(path) == 0
    said = [line for line in agent.log.read_text().splitlines() if "other_users_not" in line]
    assert len(said) == 1 and "lacks=CAP_SYS_PTRACE" in said[0]
    (found,) = place.doctor(USERS[0])
    assert found.startswith("warning") and "lacks CAP_SYS_PTRACE" in found
    assert place.doctor(0) == []
    assert "other users are not sampled: the agent lacks CAP_SYS_PTRACE" in check(
        *options, before=NO_PTRACE
    )


def check(*arguments, before: tuple[str, ...] = ()) -> str:
    """What `crema-agent --check` has to say about a sound configuration."""
    command = [*before, program("crema-agent"), *map(str, arguments), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr
    return done.stdout.partition("the configuration is sound\n")[2]


def test_check_names_who_is_left_out(place):
    user = (*AS_USER, str(USERS[0]))
    assert "only the processes of uid 65534 are served" in check(
        "--spool", place.spool, before=user
    )
    assert check("--spool", place.spool, "--run", "0" * 31 + "1", before=user) == ""
    assert check(before=user) == ""
    place.spool.mkdir(parents=True, mode=0o700)
    assert "other users than uid 0 cannot record in" in check("--spool", place.spool)


def test_user_who_may_not_record_gets_a_verdict_at_once(place, agents):
    place.spool.mkdir(parents=True, mode=0o700)
    agents("--spool", place.spool, "--aggregator", place.endpoint).must_log("serving")
    left_s, verdict, reasons, path = place.analyse(USERS[0])
    assert verdict == "PARTIAL" and path
    assert set(reasons) == {"agent_never_seen", "worker_without_stream"}
    assert left_s < 10
    (found,) = place.doctor(USERS[0])
    assert found.startswith("problem") and f"chmod 1777 {place.spool}" in found


def test_private_spool_of_a_user_stays_private(place):
    for arguments in (["--run", "0" * 31 + "1"], ["--", "true"]):
        shutil.rmtree(place.spool.parent, ignore_errors=True)
        script = f'stat -c %a "$(dirname {place.spool})"; stat -c %a {place.spool}'
        if arguments[0] == "--":
            done = run("--spool", place.spool, "--drain-timeout", "0s", "--", "sh", "-c", script)
            assert done.stdout.split() == ["700", "700"], done
        else:
            agent = Child([program("crema-agent"), "--spool", place.spool, *arguments])
            try:
                while not (place.spool / "agent.lock").exists():
                    assert agent.poll() is None
                assert stat.S_IMODE(place.spool.stat().st_mode) == 0o700
            finally:
                agent.kill()
                agent.wait()
