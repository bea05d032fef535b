"""What the test cluster promises, on a real engine: faults change no total, and the verdict says what is missing."""

from __future__ import annotations

import json
import pathlib
import re
import time
import urllib.error
import urllib.request

import pytest

import measured_runs
from stack import VERSION, Workload, can_drop, docker, wait_for

pytestmark = pytest.mark.timeout(300, func_only=True)
OUR_FAILURES = re.compile(
    r"level=error|panic|site-packages/crema/"
)  # Dask complains about a peer that was killed


@pytest.fixture(scope="module")
def stack(stacks, figure):
    stack = stacks("compose.yaml")
    stack.began = time.monotonic()
    stack.up("--scale", "worker=3")
    return stack


def as_a_browser() -> urllib.request.OpenerDirector:
    """Keeps cookies, and knows no proxy."""
    cookies = urllib.request.HTTPCookieProcessor()
    return urllib.request.build_opener(cookies, urllib.request.ProxyHandler({}))


def measured(stack, tmp_path, figure, name, during=None, workers=3, **options):
    """One run of the workload, with what is done to it meanwhile; what it ended with, and its file."""
    work = Workload(stack, tmp_path / "workload.log", workers=workers, **options)
    if during:
        work.await_chunks(3)
        during(work)
    done = work.await_end()
    path = stack.fetch(done["path"], tmp_path)
    metrics = measured_runs.workflow(path)
    figure(
        f"{name}: {done['verdict']} {[r['code'] for r in done['reasons']]}, {metrics['num_chunks']:.0f} chunks, "
        f"{metrics['total_events']:.0f} events, verdict after {done['verdict_s']:.1f} s"
    )
    return work, done, path


def must_have_every_chunk(done: dict, path: pathlib.Path) -> None:
    """Chunks, events and bytes are coffea's own."""
    assert measured_runs.chunk_identities(path) == {tuple(item) for item in done["processed"]}
    chunks = measured_runs.counted_chunks(path)
    assert len(chunks) == len(done["processed"])
    assert chunks.n_events.sum() == done["report"]["entries"] == done["events"]
    assert chunks.bytes_read_b.sum() == done["report"]["bytesread"]


def must_equal_dask(done: dict, path: pathlib.Path) -> None:
    """Every total of Dask's span is in the file."""
    ours = measured_runs.execute_totals(path, done["span_id"])
    theirs = {(p, a, u): v for p, a, u, v in done["dask"] if p != "N/A"}
    assert theirs
    assert set(ours) == set(theirs)
    for key, value in theirs.items():
        assert ours[key] == pytest.approx(value, rel=1e-9, abs=1e-9), key


def must_be_complete(done: dict, path: pathlib.Path) -> None:
    assert (done["verdict"], done["reasons"]) == ("COMPLETE", [])
    must_have_every_chunk(done, path)
    must_equal_dask(done, path)


def test_a_clean_run_is_complete(stack, tmp_path, figure):
    work, done, path = measured(stack, tmp_path, figure, "clean")
    assert work.first_chunk_at, work.looks
    figure(
        f"from `up` to the first chunk in the live file: {work.first_chunk_at - stack.began:.1f} s"
    )
    must_be_complete(done, path)


def test_the_notebooks_container_loads_the_file(stack):
    code = (
        "import glob, json, crema, pandas as pd; path = max(glob.glob('/runs/*[0-9a-f].h5'));"
        "print(json.dumps([len(pd.read_hdf(path, 'chunks')), crema.open(path).verdict]))"
    )
    rows, verdict = json.loads(stack.python(code))
    assert rows >= 48
    assert verdict == "COMPLETE"


def test_the_link_that_the_start_prints_opens_the_first_notebook(stack):
    wait_for(lambda: stack.health("jupyter") == "healthy", 60, "health of jupyter")
    said = stack.compose("logs", "--no-color", "jupyter")
    (link,) = set(re.findall(r"http://\S+/first_look\.ipynb\?token=\w+", said))
    server, _, token = link.replace("/lab/tree/", "?token=").split("?token=")
    with as_a_browser().open(link, timeout=30) as page:
        assert page.status == 200
        assert page.url.startswith(f"{server}/lab/tree/notebooks/first_look.ipynb")  # no login
    contents = f"{server}/api/contents/notebooks"
    with as_a_browser().open(f"{contents}?token={token}", timeout=30) as answer:
        listed = {item["name"]: item for item in json.load(answer)["content"]}
    assert listed["first_look.ipynb"]["type"] == "notebook"
    with pytest.raises(urllib.error.HTTPError, match="403"):
        as_a_browser().open(contents, timeout=30)


def test_the_first_notebook_runs_in_the_stack(stack):
    command = [
        "jupyter",
        "nbconvert",
        "--log-level=ERROR",
        "--to=notebook",
        "--execute",
        "--stdout",
    ]
    path = "/analysis/notebooks/first_look.ipynb"
    done = json.loads(docker("exec", stack.id("jupyter"), *command, path, timeout_s=120))
    outputs = [output for cell in done["cells"] for output in cell.get("outputs", ())]
    data = [output["data"] for output in outputs]  # neither errors nor streams
    assert "COMPLETE" in "".join(str(d.get("text/plain", "")) for d in data)
    assert sum("image/png" in d for d in data) == 3


@pytest.mark.parametrize("image", ["crema", "crema-dask"])
def test_an_images_label_tells_the_version_of_what_is_in_it(stack, image):
    image = f"{image}:{VERSION}"
    labels = json.loads(docker("image", "inspect", "--format", "{{json .Config.Labels}}", image))
    version = labels["org.opencontainers.image.version"]
    for program in ("crema-agent", "crema-aggregator", "crema-sink"):
        assert docker("run", "--rm", image, program, "--version").split() == [program, version]


def test_containers_have_no_more_rights_than_they_need(stack):
    for container in stack.containers():
        state = stack.inspect(container)
        host = state["HostConfig"]
        assert state["Config"]["User"] == "1000:1000"
        assert host["ReadonlyRootfs"]
        assert host["CapDrop"] == ["ALL"]
        assert not host["CapAdd"]
        assert not host["Privileged"]
        assert "no-new-privileges:true" in host["SecurityOpt"]
    status = stack.python("print(open('/proc/self/status').read())")
    assert "CapEff:\t0000000000000000" in status
    assert "NoNewPrivs:\t1" in status


def test_the_servers_secret_is_with_the_servers_alone(stack):
    for service in ("sink", "aggregator", "scheduler", "jupyter"):
        mounts = {m["Destination"] for m in stack.inspect(stack.id(service))["Mounts"]}
        assert ("/keys/server" in mounts) == (service in ("sink", "aggregator"))


def test_health_says_whether_the_work_can_be_done(stack):
    for service in ("sink", "aggregator", "scheduler", "jupyter"):
        wait_for(lambda s=service: stack.health(s) == "healthy", 60, f"health of {service}")
    for worker in stack.ids("worker"):
        assert stack.inspect(worker)["State"]["Health"]["Status"] == "healthy"


def test_an_aggregator_cut_off_for_20_s_changes_no_total(stack, tmp_path, figure):
    def cut(work):
        with stack.cut_off("aggregator") as how:
            figure(f"aggregator: {how}")
            time.sleep(20)

    _, done, path = measured(stack, tmp_path, figure, "aggregator cut off for 20 s", cut, pause=1.5)
    must_be_complete(done, path)


def test_a_killed_sink_changes_no_total(stack, tmp_path, figure):
    def kill(work):
        docker("kill", stack.id("sink"))
        wait_for(
            lambda: stack.health("aggregator") == "unhealthy",
            90,
            "an aggregator that misses its sink",
        )
        stack.compose("start", "sink")

    _, done, path = measured(stack, tmp_path, figure, "sink killed and started", kill, pause=1)
    must_be_complete(done, path)


def test_workers_come_and_go(stack, tmp_path, figure):
    def scale(n):
        stack.up("--no-deps", "--scale", f"worker={n}", "worker")
        assert len(stack.ids("worker")) == n

    scale(2)

    def there_and_back(work):
        scale(4)
        work.await_chunks(work.live + 8)
        scale(2)

    _, done, path = measured(
        stack, tmp_path, figure, "workers 2 -> 4 -> 2", there_and_back, workers=2, pause=2
    )
    must_have_every_chunk(done, path)
    assert done["verdict"] == "COMPLETE", done["reasons"]


def test_a_killed_worker_is_named_and_no_finished_chunk_is_missing(stack, tmp_path, figure):
    def kill(work):
        worker = stack.ids("worker")[0]
        docker("kill", worker)
        time.sleep(3)
        docker("start", worker)  # takes up the spool that it left

    _, done, path = measured(stack, tmp_path, figure, "worker killed", kill, workers=2, pause=1)
    assert done["verdict"] == "PARTIAL"
    assert {reason["code"] for reason in done["reasons"]} == {"writer_killed"}
    must_have_every_chunk(done, path)


def test_a_cluster_that_goes_down_and_up_again_loses_nothing(stack, tmp_path, figure):
    def restart(work):
        stack.compose("restart", "--timeout", "10", "sink")
        docker("kill", stack.id("aggregator"))
        stack.compose("start", "aggregator")

    _, done, path = measured(
        stack, tmp_path, figure, "sink restarted, aggregator killed", restart, workers=2, pause=1
    )
    must_be_complete(done, path)
    assert not OUR_FAILURES.findall(stack.logs())
    began = time.monotonic()
    ended = stack.stop()
    assert [name for name, status in ended.items() if status == 137] == []
    stack.down()
    figure(f"down: {time.monotonic() - began:.1f} s")
    stack.up("--scale", "worker=2")
    (tmp_path / "again").mkdir()
    again = stack.fetch(done["path"], tmp_path / "again")
    assert again.read_bytes() == path.read_bytes()
    said = stack.compose("run", "--rm", "analysis", timeout_s=280)
    assert "COMPLETE" in said


def test_totals_are_the_same_without_any_agent(stacks, tmp_path, figure):
    stack = stacks("compose.yaml", "compose.no-agents.yaml")
    stack.up("--scale", "worker=2")
    assert stack.ids("aggregator") == stack.ids("sink") == []
    _, done, path = measured(stack, tmp_path, figure, "no agents", workers=2)
    must_be_complete(done, path)
    code = (
        "import glob; print([open(p).read() for p in glob.glob('/proc/[0-9]*/comm')],"
        " glob.glob('/tmp/crema-*/run-*'))"
    )
    for container in (stack.id("jupyter"), *stack.ids("worker")):
        assert "crema-" not in stack.python(code, container=container)


@pytest.mark.skipif(not can_drop(), reason="it takes root, nsenter and iptables to close a port")
def test_records_travel_over_dask_where_no_port_is_open(stacks, tmp_path, figure):
    """The collector's pipeline is in the notebook's container, which nobody else can connect to."""
    stack = stacks("compose.yaml", "compose.no-agents.yaml")
    stack.up("--scale", "worker=2")
    with stack.closed("jupyter"):
        work, done, path = measured(stack, tmp_path, figure, "port closed", workers=2)
    must_be_complete(done, path)
    assert "travel over Dask: no connection to" in work.log.read_text()


def test_agents_as_sidecars_deliver_everything(stacks, tmp_path, figure):
    stack = stacks("compose.yaml", "compose.sidecars.yaml")
    stack.up()
    _, done, path = measured(stack, tmp_path, figure, "sidecars", workers=2)
    must_be_complete(done, path)


def test_a_stack_that_knew_nothing_of_crema_delivers_everything(stacks, tmp_path, figure):
    theirs = "../tests/deploy/cluster/dask-docker.yaml"
    stack = stacks(theirs, "compose.add-crema.yaml", notebook="notebook")
    stack.up("--scale", "worker=2")
    _, done, path = measured(stack, tmp_path, figure, "added to a stack", workers=2)
    must_be_complete(done, path)
