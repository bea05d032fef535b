"""Records travel over Dask where no address of the collector's machine can be reached: everything but the addresses is real."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import struct
import threading
import time
from concurrent.futures import CancelledError

import psutil
import pytest
from coffea import processor
from distributed import Client

import crema
from clusters import LocalCluster
from coffea_runs import run_coffea
from crema.collect import _reach
from crema.hook import _broker
from crema.hook._way import Way
from waiting import wait_for
from workloads import DijetProcessor

NOWHERE = (
    "tcp://192.0.2.1:9,tcp://127.0.0.1:9"  # of a network for documentation; a port that nobody has
)


@pytest.fixture(autouse=True)
def unreachable(monkeypatch):
    monkeypatch.setattr(_reach.Plan, "endpoints", lambda plan, bound: NOWHERE)


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """Directory for temporary files of workers that are on another host than the scheduler, as far as spools go; too long for a socket."""
    path = tmp_path_factory.mktemp("elsewhere") / ("a" * 100) / ("b" * 100)
    path.mkdir(parents=True)
    return path


@pytest.fixture(scope="module")
def cluster_of_its_own(elsewhere):
    options = {
        "threads_per_worker": 1,
        "dashboard_address": None,
        "env": {"TMPDIR": str(elsewhere)},
    }
    with LocalCluster(n_workers=2, **options) as cluster, Client(cluster) as client:
        yield client


def nap(number: int) -> int:
    time.sleep(0.05)
    return number


def work(client, n=40) -> None:
    assert sum(client.gather(client.map(nap, range(n), pure=False))) == n * (n - 1) // 2


def agents(mc) -> list[int]:
    """Process ids of a run's agents on this host."""
    lines = ((p.pid, " ".join(p.info["cmdline"] or [])) for p in psutil.process_iter(["cmdline"]))
    return [pid for pid, line in lines if "crema-agent " in line and mc._config.run_id in line]


def must_have_left_nothing(mc) -> None:
    wait_for(lambda: not agents(mc), 30, "the agent's last moment")  # it has let go of its spool
    assert not list(mc._config.spool_dir().parent.glob(f"*{mc._config.run_id}*"))


def test_all_records_arrive_over_dask(client, fileset, tmp_path, capfd):
    instance = DijetProcessor()
    with crema.MetricsCollector(client, instance, output=tmp_path, quiet=True) as mc:
        executor = processor.DaskExecutor(client=client, status=False)
        _, report = run_coffea(mc, executor, fileset, instance)
        mc.set_coffea_report(report)
        carrier = mc._plugins.carrier
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
    assert len(carrier.hosts) == 1
    said = capfd.readouterr().err
    assert said.count("travel over Dask: no connection to 192.0.2.1:9") == 1
    assert mc.get_metrics()["total_events"] == report["entries"]
    must_have_left_nothing(mc)


def test_a_run_that_is_over_before_the_way_is_found_arrives_too(client, tmp_path):
    with crema.MetricsCollector(client, output=tmp_path, quiet=True) as mc:
        assert client.submit(sum, (1, 2), pure=False).result() == 3
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
    must_have_left_nothing(mc)


def test_an_agent_that_is_killed_is_replaced_and_nothing_is_missing(client, tmp_path):
    with crema.MetricsCollector(client, output=tmp_path, quiet=True) as mc:
        work(client)
        wait_for(lambda: mc._plugins.carrier.hosts, 60, "the route over Dask")
        for pid in agents(mc):
            os.kill(pid, signal.SIGKILL)
        work(client)
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
    must_have_left_nothing(mc)


def test_the_next_worker_takes_the_way_over(cluster_of_its_own, elsewhere, tmp_path):
    """The worker that has it is killed: its own last moments are unknown, of the others nothing is missing."""
    client = cluster_of_its_own

    def has_way(dask_worker) -> bool:
        return any(
            hook._way is not None and hook._way._server is not None
            for name, hook in dask_worker.plugins.items()
            if name.startswith("crema-")
        )

    with crema.MetricsCollector(client, output=tmp_path, quiet=True) as mc:
        work(client)
        wait_for(lambda: mc._plugins.carrier.hosts, 60, "the route over Dask")
        pids = client.run(os.getpid)
        (holder,) = [pids[name] for name, has in client.run(has_way).items() if has]
        os.kill(holder, signal.SIGKILL)
        work(client)
    assert {reason["code"] for reason in mc.reasons} == {"writer_killed"}
    assert len(mc.reasons) == 1
    wait_for(lambda: not agents(mc), 30, "the end of its agents")
    assert not list(elsewhere.glob("crema-*/run-*"))


@pytest.mark.slow
def test_workers_are_not_lost_when_the_scheduler_and_the_notebook_stand_still(
    cluster_of_its_own, tmp_path
):
    """Eight seconds each: longer than an agent that is connected directly would wait for an answer."""
    client = cluster_of_its_own

    def stand_still(dask_scheduler) -> None:
        time.sleep(8)

    with crema.MetricsCollector(client, output=tmp_path, quiet=True) as mc:
        work(client, 10)
        wait_for(lambda: mc._plugins.carrier.hosts, 60, "the route over Dask")
        client.run_on_scheduler(stand_still)
        work(client, 10)
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])


def test_a_restart_of_all_workers_loses_nobody(cluster_of_its_own, tmp_path):
    client = cluster_of_its_own
    with crema.MetricsCollector(client, output=tmp_path, quiet=True) as mc:
        work(client, 10)
        wait_for(lambda: mc._plugins.carrier.hosts, 60, "the route over Dask")
        client.restart()
        work(client, 10)
    assert {reason["code"] for reason in mc.reasons} <= {"writer_killed"}, mc.reasons
    must_have_left_nothing(mc)


class Tunnel:
    """A port of this host that leads to the scheduler, as a proxy does, and can be told to reset what goes through it."""

    def __init__(self, address: str) -> None:
        self._target = address.removeprefix("tcp://").rsplit(":", 1)
        self._ends: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                here, _ = self._listener.accept()
                there = socket.create_connection((self._target[0], int(self._target[1])))
                self._ends += [here, there]
                for ends in ((here, there), (there, here)):
                    threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    @staticmethod
    def _pass_on(one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := one.recv(65536):
                other.sendall(piece)
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def reset(self) -> None:
        ends, self._ends = self._ends, []
        for end in ends:
            with contextlib.suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                end.shutdown(socket.SHUT_RDWR)
                end.close()

    def close(self) -> None:
        self._listener.close()
        self.reset()


def test_a_connection_that_is_reset_costs_what_dask_says_and_the_records_arrive(client, tmp_path):
    """Dask cancels every future of that client, and its exception passes as it is; what was recorded comes by the next connection."""
    tunnel = Tunnel(client.scheduler.address)
    try:
        with Client(tunnel.address, set_as_default=False) as through:
            mc = crema.MetricsCollector(through, output=tmp_path, quiet=True)
            with pytest.raises(CancelledError), mc:
                work(through, 10)
                wait_for(lambda: mc._plugins.carrier.hosts, 60, "the route over Dask")
                future = through.submit(time.sleep, 5, pure=False)
                tunnel.reset()
                future.result()
            assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
            with crema.open(mc.path) as run:
                assert "cancelled" in run.attributes["exception"].lower()
            must_have_left_nothing(mc)
    finally:
        tunnel.close()


# -------------------------------------------------------------- keys


def test_secrets_do_not_travel(client, tmp_path, monkeypatch):
    """Every pickle of the run is looked at; a host's agent has a pair of its own, and who logs an event is let in."""
    import pickle as standard

    import cloudpickle
    import zmq
    from distributed.protocol import pickle as of_dask

    from crema.hook._agent import key_event, key_topic

    def log(dask_scheduler, topic, event) -> None:
        dask_scheduler.log_event(topic, event)

    seen: list[bytes] = []
    for module in (standard, cloudpickle, of_dask):

        def kept(*args, dumps=module.dumps, **kwargs):
            data = dumps(*args, **kwargs)
            seen.append(bytes(data))
            return data

        monkeypatch.setattr(module, "dumps", kept)
    with crema.MetricsCollector(client, output=tmp_path, quiet=True) as mc:
        work(client, 4)
        wait_for(lambda: mc._plugins.carrier.hosts, 60, "the route over Dask")
        own = mc._config.spool_dir() / "keys"
        private = (own, own / "agent.key_secret")
        assert [path.stat().st_mode & 0o777 for path in private] == [0o700, 0o600]
        secrets = [(own / "agent.key_secret").read_text().split('"')[3].encode()]
        below = mc._service.run_dir.rglob("*.key_secret")
        secrets += [path.read_text().split('"')[3].encode() for path in below]
        public, secret = zmq.curve_keypair()
        client.run_on_scheduler(
            log, topic=key_topic(mc._config.run_id), event=key_event(public.decode())
        )
        let_in = zmq.Context.instance().socket(zmq.DEALER)
        let_in.curve_publickey, let_in.curve_secretkey = public, secret
        let_in.curve_serverkey = mc._config.server_key.encode()
        monitor = let_in.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED)
        wait_for(lambda: let_in.connect(mc._service.endpoint) or monitor.poll(500), 60, "its key")
        let_in.disable_monitor()
        let_in.close(linger=0)
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
    assert len(secrets) == 4  # of the agent, and of server, aggregator and client
    assert mc._config.server_key.encode() in b"".join(seen)
    assert not [data for data in seen if any(secret in data for secret in secrets)]
    must_have_left_nothing(mc)


# -------------------------------------------------------------- calls that nobody of ours makes


def test_malformed_late_and_unknown_calls_harm_nobody(cluster_of_its_own, tmp_path):
    client = cluster_of_its_own

    def call(name, **fields):
        return client.sync(getattr(client.scheduler, name), **fields)

    with crema.MetricsCollector(client, output=tmp_path, quiet=True) as mc:
        run_id = mc._config.run_id
        wait_for(lambda: mc._plugins.carrier.hosts, 60, "the route over Dask")
        over = {"open": False}
        up, down, give = (_broker.operation(name, run_id) for name in ("up", "down", "give"))
        assert call(up, connection="nobody", data=b"x") == over
        assert call(up) == over
        assert call(up, connection=7, host="h") == over
        assert call(up, connection="x" * 65, host="h") == over
        assert call(up, nonsense=1) == over
        assert call(down, connection="nobody") == over
        assert call(give, pieces=[["nobody", b"x"]])["open"]
        assert call(give, pieces=7) == over
        assert call(give, done=["nobody"], closed=["nobody"])["open"]
        workers = set(client.nthreads())
        work(client, 10)
    assert (mc.verdict, mc.reasons) == ("COMPLETE", [])
    assert call(up, connection="late", host="h") == over
    assert call(_broker.operation("up", "0" * 32), connection="of no run") is None
    assert set(client.nthreads()) == workers


def test_way_over_dask_leaves_nothing_on_the_cluster(client, tmp_path):
    def held(dask_scheduler) -> list[str]:
        from crema.hook._broker import nothing

        return [
            name
            for name, handler in dask_scheduler.handlers.items()
            if name.startswith("crema_") and handler is not nothing
        ]

    with crema.MetricsCollector(client, output=tmp_path, quiet=True) as mc:
        work(client, 4)
        assert len(client.run_on_scheduler(held)) == len(_broker.OPERATIONS)
    assert mc.verdict == "COMPLETE"
    assert client.run_on_scheduler(held) == []


def test_way_that_is_closed_is_removed_without_a_word(tmp_path, caplog):
    """Python 3.13 would remove it by the name under which it was bound, which begins with the number of a descriptor."""

    async def open_and_close():
        way = Way(None, tmp_path)
        await asyncio.wait_for(way._keeper, 20)
        assert (tmp_path / "way").exists()
        others = [os.open(os.devnull, os.O_RDONLY) for _ in range(20)]
        way.close()
        await asyncio.sleep(0.1)
        for each in others:
            os.close(each)

    asyncio.run(open_and_close())
    assert [path.name for path in tmp_path.iterdir()] == ["way.lock"]
    assert caplog.text == ""


# -------------------------------------------------------------- the scheduler's part alone


def in_a_loop(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 20))


class Scheduler:
    def __init__(self) -> None:
        self.handlers: dict = {}

    def __getattr__(self, name):
        return self.handlers[_broker.operation(name, "r")]


def test_messages_that_the_scheduler_holds_are_bounded_and_a_reply_permits_more():
    async def fill() -> None:
        scheduler = Scheduler()
        broker = _broker.Broker("r")
        broker.serve(scheduler)
        names = [f"c{i}" for i in range(1000)]
        for name in names:
            answer = await scheduler.up(connection=name, host=name)
        piece = bytes(answer["piece"])
        assert len(names) * len(piece) * 2 <= _broker.HELD_BYTES
        assert answer["pause"] == 5.0
        waiting = [asyncio.ensure_future(scheduler.up(connection=n, data=piece)) for n in names]
        await asyncio.sleep(0)
        assert (await scheduler.up(connection="c0", data=piece)) == {"open": False}
        seen = 0
        while seen < len(names):
            news = (await scheduler.fetch())["news"]
            assert sum(len(data) for _, _, data in news) < _broker.REPLY_BYTES + len(piece)
            done = [name for kind, name, _ in news if kind == "data"]
            seen += len(done)
            await scheduler.give(done=done)
        assert all(answer["open"] for answer in await asyncio.gather(*waiting))

    in_a_loop(fill())


def test_an_answer_that_nobody_waits_for_takes_nothing():
    """A collector whose call was cut off asks anew: what comes then is for the new call."""

    async def ask_twice() -> None:
        scheduler = Scheduler()
        broker = _broker.Broker("r")
        broker.serve(scheduler)
        first = asyncio.ensure_future(scheduler.fetch())
        await asyncio.sleep(0.01)
        second = asyncio.ensure_future(scheduler.fetch())
        assert (await first)["news"] == []
        await scheduler.up(connection="c", host="h")
        assert (await second)["news"] == [["open", "c", b"h"]]
        waiting = asyncio.ensure_future(scheduler.down(connection="c"))
        await asyncio.sleep(0)
        broker.close(scheduler)
        assert await waiting == {"open": False}
        assert await scheduler.up(connection="c", data=b"x") == {"open": False}

    in_a_loop(ask_twice())
