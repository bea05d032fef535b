"""A facility for some minutes: four users, twenty runs at once, and everything that an operator fears, seen by a real Prometheus.

Each step is an event. At the end every run has the verdict that it must have, holds as many records as were recorded, and every
alert of docs/operation/alerts.yml has fired and cleared.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import time
import urllib.request

import h5py
import pytest
import zmq
import zmq.auth
from facility import HERE, PYTHON, RULES, SMALL_SPOOL, USERS, Analysis, Facility
from hosts import PATIENCE_S, STORE, say

from waiting import wait_for

COMPLETE, PARTIAL = "COMPLETE", "PARTIAL"
OTHER_KEY = 6  # RunState.refusal: the run belongs to another key
UNTOUCHED = "goes on through all of it"
EXPECTED = {  # verdict, what happens to the run, and the reasons that a verdict PARTIAL must have
    "alice-1": (COMPLETE, "ends while the store's disk is full", set()),
    "alice-2": (COMPLETE, "ends while the service host is down", set()),
    "alice-3": (COMPLETE, "its journal is damaged, and the store restored from a copy", set()),
    "alice-4": (COMPLETE, "bob tries to read, end and write it", set()),
    "alice-5": (COMPLETE, "tasks of a Dask cluster, through all of it", set()),
    "bob-1": (PARTIAL, "its client is killed", {"run_not_ended"}),
    "bob-2": (COMPLETE, UNTOUCHED, set()),
    "bob-3": (COMPLETE, UNTOUCHED, set()),
    "bob-4": (COMPLETE, "ends while the sink is stopped", set()),
    "bob-5": (PARTIAL, "its spool is full while the aggregator is away", {"records_lost"}),
    "carol-1": (COMPLETE, "ends before carol's key is revoked", set()),
    **{f"carol-{i}": (PARTIAL, "carol's key is revoked", {"key_revoked"}) for i in range(2, 6)},
    "dave-1": (COMPLETE, "ends after its host was frozen", set()),
    "dave-2": (COMPLETE, "ends without room for its file, which the sink makes later", set()),
    "dave-3": (COMPLETE, "ends while the package is upgraded", set()),
    "dave-4": (COMPLETE, UNTOUCHED, set()),
    "dave-5": (COMPLETE, UNTOUCHED, set()),
}
OPEN_TO_THE_END = ["alice-3", "alice-4", "alice-5", "bob-2", "bob-3", "bob-5", "dave-4", "dave-5"]

SLOW_SYNC = """
#include <sys/syscall.h>
#include <unistd.h>
int
fdatasync(int fd)
{
    usleep(1200 * 1000);
    return (int)syscall(SYS_fdatasync, fd);
}
"""

pytestmark = pytest.mark.timeout(1500)


@pytest.fixture
def facility(tmp_path):
    made = Facility(tmp_path)
    try:
        yield made
    finally:
        for host in made.hosts:
            print(f"---- {host.name}")
            with contextlib.suppress(AssertionError):
                print(host.log(200))
        made.destroy()


def dial_with_foreign_keys(endpoint: str, server: bytes, times: int = 20):
    """Returns once all were turned away."""
    dialling = []
    with zmq.Context() as context:
        for _ in range(times):
            socket = context.socket(zmq.DEALER)
            socket.linger, socket.reconnect_ivl = 0, -1
            socket.curve_publickey, socket.curve_secretkey = zmq.curve_keypair()
            socket.curve_serverkey = server
            ends = zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
            monitor = socket.get_monitor_socket(ends | zmq.EVENT_DISCONNECTED)
            socket.connect(endpoint)
            dialling.append((socket, monitor))
        for socket, monitor in dialling:
            assert monitor.poll(20_000), "an answer to a stranger"
            socket.disable_monitor()
            socket.close()


class Story:
    """The facility with its runs, and the events by name."""

    def __init__(self, facility: Facility):
        self.at, self.prometheus, self.service = facility, facility.prometheus, facility.service
        self.runs: dict[str, Analysis] = {}
        self.began = time.monotonic()

    def tell(self, what: str):
        print(f"measured: {time.monotonic() - self.began:5.0f} s  {what}", flush=True)

    def fires(self, *alerts: str):
        self.prometheus.must_fire(*alerts)
        self.tell(f"fires: {', '.join(alerts)}")

    def clears(self, *alerts: str):
        self.prometheus.must_clear(*alerts)
        self.tell(f"clears: {', '.join(alerts)}")

    def end(self, *names: str):
        """These runs end, and their collectors say what was to be expected."""
        for name in names:
            self.runs[name].tell("end")
        self.await_ends(*names)

    def await_ends(self, *names: str):
        for name in names:
            assert self.runs[name].await_end() == EXPECTED[name][0], name
        self.tell(f"ended: {', '.join(names)}")

    def sees(self, name: str) -> dict:
        """What the store says of that run."""
        return self.service.listing()[self.runs[name].run_id]

    def logged(self, unit: str, event: str) -> str:
        return self.service.run(f"journalctl --no-pager -u {unit} | grep event={event} || true")

    # ---------------------------------------------------------------- events

    def twenty_runs_begin(self):
        for name in EXPECTED:
            user = name.split("-")[0]
            host = self.at.frozen if user == "dave" or name == "bob-5" else self.at.worker
            options = ["--dask"] if name == "alice-5" else []
            spool = SMALL_SPOOL if name == "bob-5" else ""
            self.runs[name] = Analysis(host, user, *options, spool=spool)
        for run in self.runs.values():
            run.await_begin()
        phases = [run["phase"] for run in self.service.listing().values()]
        assert phases == ["open"] * 20, phases
        self.tell("twenty runs are open")

    def client_is_killed(self):
        self.runs["bob-1"].kill()

    def key_is_revoked(self):
        self.end("carol-1")
        keys = "--keys /var/lib/crema/keys --revoke-key carol"
        self.service.run(f"runuser -u crema -- crema-aggregator {keys}")
        mine = [f"carol-{i}" for i in range(2, 6)]
        wait_for(
            lambda: all(self.sees(name)["verdict"] == PARTIAL for name in mine),
            PATIENCE_S,
            "verdicts",
        )
        self.fires("CremaVerdictPartial")
        for name in mine:
            self.runs[name].end()  # she is told, and what she records later is in no file
        refused = self.at.worker.command("carol", [PYTHON, HERE / "recorder.py"])
        done = subprocess.run(refused, input="end\n", capture_output=True, text=True, timeout=90)
        assert done.returncode != 0
        assert "does not admit the key" in done.stderr, done.stderr

    def host_freezes(self):
        say("docker", "pause", self.at.frozen.name)
        self.fires("CremaAgentLost")
        say("docker", "unpause", self.at.frozen.name)
        self.clears("CremaAgentLost")
        self.end("dave-1")

    def sink_is_stopped(self):
        self.service.run("systemctl stop crema-sink")
        self.fires("CremaSinkSilent")
        self.runs["bob-4"].tell("end")
        self.service.run("systemctl start crema-sink")
        self.await_ends("bob-4")
        self.clears("CremaSinkSilent", "CremaProgramDown")

    def killed_client_is_missed(self):
        wait_for(lambda: self.sees("bob-1")["verdict"], 150, "a file of the run without a client")
        self.tell("sealed: bob-1")

    def aggregator_is_stopped(self):
        self.service.run("systemctl stop crema-aggregator")
        self.fires("CremaProgramDown")
        log = "journalctl -u crema-agent@small"
        while "event=spool_full" not in self.at.frozen.run(log):
            self.runs["bob-5"].burst()
        self.service.run("systemctl start crema-aggregator")
        self.clears("CremaProgramDown")

    def disk_is_filled(self):
        self.at.store_disk.fill()
        self.fires("CremaStoreFilling", "CremaStoreFull")
        self.runs["alice-1"].tell("end")
        assert self.sees("alice-1")["phase"] == "open"
        self.at.store_disk.free()
        self.await_ends("alice-1")
        self.clears("CremaStoreFilling", "CremaStoreFull")

    def runs_have_no_room(self):
        self.at.runs_disk.fill()
        self.runs["dave-2"].tell("end")
        self.fires("CremaSealingFails")
        assert self.runs["dave-2"].await_end() == "UNKNOWN"  # it is told why, and does not wait
        self.at.runs_disk.free()
        wait_for(
            lambda: self.sees("dave-2")["verdict"] == COMPLETE, PATIENCE_S, "the file of dave-2"
        )
        self.clears("CremaSealingFails")

    def package_is_upgraded(self):
        before = self.service.started("crema-sink")
        self.runs["dave-3"].tell("end")
        for host in self.at.hosts:
            host.upgrade()
        assert self.service.started("crema-sink") != before
        self.await_ends("dave-3")
        version = say(
            "docker", "exec", self.service.name, "dpkg-query", "-Wf", "${Version}", "crema"
        )
        assert version.endswith("+1"), version

    def service_host_is_rebooted(self):
        self.service.reboot()
        self.runs["alice-2"].tell("end")
        self.fires("CremaProgramDown")
        self.service.power_on()
        self.await_ends("alice-2")
        self.clears("CremaProgramDown")

    def syncs_are_slow(self):
        """Each takes as long as on a disk that is far too busy."""
        shim, drop_in = "/usr/local/lib/slow_sync.so", "/etc/systemd/system/crema-sink.service.d"
        source, local = self.at.work / "slow_sync.c", self.at.work / "slow_sync.so"
        source.write_text(SLOW_SYNC)
        say("cc", "-shared", "-fPIC", "-o", local, source)
        say("docker", "cp", local, f"{self.service.name}:{shim}")
        restart = "systemctl daemon-reload; systemctl restart crema-sink"
        self.service.run(
            f"mkdir -p {drop_in}; printf '[Service]\\nEnvironment=LD_PRELOAD={shim}\\n' "
            f">{drop_in}/slow.conf; {restart}"
        )
        self.fires("CremaCommitsSlow")
        self.service.run(f"rm {drop_in}/slow.conf; {restart}")
        self.clears("CremaCommitsSlow")

    def strangers_come(self):
        """With the server's public key, which is no secret, and keys of their own making."""
        server, _ = zmq.auth.load_certificate(self.at.work / "copy-client-alice" / "server.key")
        while "CremaKeysRefused" not in self.prometheus.firing():
            dial_with_foreign_keys(f"tcp://{self.service.address()}:5700", server)
        self.fires("CremaKeysRefused")
        self.clears("CremaKeysRefused")

    def user_tries_what_is_another_ones(self):
        alice = self.runs["alice-4"]
        command = [PYTHON, HERE / "intruder.py", alice.run_id, USERS["alice"]]
        said = json.loads(say(*self.at.worker.command("bob", command), timeout_s=60))
        for message, (_, path, refusal) in said["answers"].items():
            assert (path, refusal) == ("", OTHER_KEY), message
        assert said["readable"] == []
        found = wait_for(
            lambda: [
                line
                for line in self.logged("crema-aggregator", "stream_refused").splitlines()
                if said["stream"] in line
            ],
            PATIENCE_S,
            "the refusal of bob's stream",
        )
        assert f"uid {USERS['bob']}" in found[0]
        self.tell("bob cannot ask for, join, end, write or read a run of alice's")

    def journal_is_damaged(self):
        """The remedy is a copy of the store that was made while the sink ran; what it lacks is in the spools."""
        self.service.run(f"mkdir -p /backup/store && rsync -a {STORE}/ /backup/store/")
        copied = json.loads(self.service.run("crema-sink store /backup/store --json"))
        assert {run["run_id"] for run in copied} == {run.run_id for run in self.runs.values()}
        journal = f"{STORE}/{self.runs['alice-3'].run_id}/000001.journal"
        middle = f"seek=$(($(stat -c %s {journal}) / 2))"
        self.service.run("systemctl stop crema-sink")
        self.service.run(f"printf %300s x | dd of={journal} bs=1 {middle} conv=notrunc 2>/dev/null")
        self.service.run("systemctl start crema-sink")
        self.fires("CremaJournalUnreadable")
        self.service.run("systemctl stop crema-sink")
        self.service.run(f"rsync -a --delete /backup/store/ {STORE}/")
        self.service.run("systemctl start crema-sink")
        self.clears("CremaJournalUnreadable")

    # ---------------------------------------------------------------- what must hold at the end

    def verdicts_are_right(self):
        for name, (verdict, event, reasons) in EXPECTED.items():
            run = self.runs[name]
            wait_for(lambda name=name: self.sees(name)["verdict"], 150, f"the verdict of {name}")
            with h5py.File(self.at.file_of(run.run_id)) as file:
                assert file.attrs["verdict"] == verdict, (name, file.attrs["verdict_reasons"])
                found = {reason["code"] for reason in json.loads(file.attrs["verdict_reasons"])}
                rows = len(file["custom"])
            assert reasons <= found and bool(found) == bool(reasons), (name, found)
            assert rows == run.recorded if verdict == COMPLETE else rows > 0, (name, rows)
            codes = ", ".join(sorted(found)) or "-"
            of = f"{rows} of {run.recorded or '?'}"
            print(f"measured: {name:8} {verdict:8} {of:20} {event}; reasons: {codes}")

    def alerts_came_and_went(self):
        shipped = re.findall(r"- alert: (\w+)", RULES.read_text())
        history = self.prometheus.history()
        for name in shipped:
            seconds = history.get(name, [])
            times = f"{seconds[0]} s to {seconds[-1]} s" if seconds else "never"
            print(f"measured: {name:28} fired {len(seconds):3} s, from {times}")
        assert set(shipped) == set(history)
        wait_for(lambda: not self.prometheus.firing(), PATIENCE_S, "an end of all alerts")

    def files_are_private(self):
        where = "/var/lib/crema /var/lib/crema/runs /var/lib/crema/store /var/lib/crema/keys/server"
        modes = self.service.run(f"stat -c %U:%a {where}").split()
        assert modes == ["crema:750"] * 3 + ["crema:700"], modes
        for_others = "find /var/lib/crema/store /var/lib/crema/runs -perm /007"
        assert self.service.run(for_others) == ""
        self.service.run("useradd visitor")
        listing = self.service.run("runuser -u visitor -- ls /var/lib/crema/runs 2>&1 || true")
        assert "Permission denied" in listing, listing
        for port in 9101, 9102:
            with urllib.request.urlopen(
                f"http://{self.service.address()}:{port}/metrics"
            ) as answer:
                page = answer.read().decode()
            assert "crema_build_info" in page
            assert not any(run.run_id in page for run in self.runs.values())
            assert not any(user in page for user in USERS)


def test_a_facility_keeps_what_it_promises(facility):
    facility.set_up()
    story = Story(facility)
    story.tell("the guide's commands have been executed")
    story.twenty_runs_begin()
    story.client_is_killed()
    story.key_is_revoked()
    story.host_freezes()
    story.sink_is_stopped()
    story.killed_client_is_missed()
    story.aggregator_is_stopped()
    story.disk_is_filled()
    story.runs_have_no_room()
    story.package_is_upgraded()
    story.service_host_is_rebooted()
    story.syncs_are_slow()
    story.strangers_come()
    story.user_tries_what_is_another_ones()
    story.journal_is_damaged()
    story.end(*OPEN_TO_THE_END)
    story.verdicts_are_right()
    story.alerts_came_and_went()
    story.files_are_private()
