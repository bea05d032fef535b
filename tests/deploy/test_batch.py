"""The batch examples: checked by the batch systems' own tools where those are, and run where one can be."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess

import kubernetes_validate
import pytest

import missing
from manifests import CLUSTER, KUBERNETES, MANIFESTS, documents
from paths import ROOT

BATCH = ROOT / "compose" / "batch"


def pods(path):
    if path == CLUSTER:
        (cluster,) = documents(path)
        return [cluster["spec"][part]["spec"] for part in ("worker", "scheduler")]
    return [d["spec"]["template"]["spec"] for d in documents(path) if d["kind"] == "Deployment"]


def containers(pod):
    return pod.get("initContainers", []) + pod["containers"]


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifests_are_valid(path):
    for document in documents(path):
        kubernetes_validate.validate(document, KUBERNETES, strict=True)


def test_a_wrong_manifest_is_found():
    (document,) = documents(BATCH / "kubernetes" / "worker.yaml")
    document["spec"]["template"]["spec"]["containers"][0]["volumeMount"] = []
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(document, KUBERNETES, strict=True)


@pytest.mark.parametrize("path", [*MANIFESTS, CLUSTER], ids=lambda path: path.name)
def test_containers_have_no_rights_and_mounts_have_volumes(path):
    for pod in pods(path):
        assert pod["securityContext"]["runAsNonRoot"] is True
        volumes = {volume["name"] for volume in pod["volumes"]}
        for container in containers(pod):
            rights = container["securityContext"]
            assert rights["readOnlyRootFilesystem"] is True
            assert rights["allowPrivilegeEscalation"] is False
            assert rights["capabilities"] == {"drop": ["ALL"]}
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes


def commands():
    for path in [*MANIFESTS, CLUSTER]:
        for pod in pods(path):
            for container in containers(pod):
                command = container["command"] + container.get("args", [])
                if command[0].startswith("crema-"):
                    yield pytest.param(command, id=f"{path.name}-{container['name']}")


@pytest.mark.parametrize("command", list(commands()))
def test_options_of_the_manifests_are_those_of_the_programs(command, tmp_path):
    """All but the keys, which are not here."""
    program = pathlib.Path(os.environ.get("CREMA_BIN_DIR", ROOT / "build/dev/bin"))
    own = command[1 : command.index("--")] if "--" in command else command[1:]
    if "--keys" in own:
        at = own.index("--keys")
        own = own[:at] + own[at + 2 :]
    own = [word.replace("/data", str(tmp_path)).replace("0.0.0.0", "127.0.0.1") for word in own]
    done = subprocess.run(
        [program / command[0], *own, "--check"],
        env={**os.environ, "CREMA_INSECURE": "1"}, capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_images_are_those_of_this_version():
    (version,) = re.findall(
        r"^project\(crema VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.M
    )
    named = {}
    for path in [*ROOT.glob("compose/**/*"), *ROOT.glob("tests/deploy/cluster/*.yaml")]:
        if path.is_file():
            for found in re.findall(
                r"(?:crema:|crema-dask:|CREMA_VERSION=)(\d[\w.]*)", path.read_text()
            ):
                named.setdefault(found, set()).add(path.name)
    assert set(named) == {version}, named
    assert {".env", "Dockerfile", "worker.yaml", "dask-docker.yaml"} <= named[version]


@pytest.fixture
def condor(tmp_path, monkeypatch):
    """What makes jobs of a submit file as condor_submit does, in a folder as the example wants it."""
    monkeypatch.setenv("CONDOR_CONFIG", "/dev/null")
    monkeypatch.chdir(shutil.copytree(BATCH / "htcondor", tmp_path / "job"))
    pathlib.Path("agent-keys").mkdir()
    import htcondor

    def jobs(text: str, **variables: str) -> list:
        given = "".join(f"{name} = {value}\n" for name, value in variables.items())
        return list(htcondor.Submit(given + text).jobs(clusterid=1))

    return jobs


def test_condor_makes_jobs_of_the_submit_file(condor):
    text = pathlib.Path("workers.sub").read_text()
    found = condor(text, aggregator="tcp://a:1", scheduler="tcp://a:2", count="3")
    assert len(found) == 3
    assert len(condor(text)) == 10
    for i, job in enumerate(found):
        assert job["Cmd"] == str(pathlib.Path("worker.sh").resolve())
        assert job["Args"].split() == ["tcp://a:1", "tcp://a:2", f"spool.{i}", "1"]
        assert job["TransferOutput"] == f"spool.{i}"
        assert job["TransferInput"] == "agent-keys"
        assert f"PATH={os.environ['PATH']}" in job["Environment"]
        assert job["JobMaxVacateTime"] > 30  # --drain-timeout of worker.sh


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("ON_EXIT_OR_EVICT", "ON_EVICT"), ("SIGTERM", "SIGTREM"), ("queue", "queu")],
)
def test_a_wrong_submit_file_is_found(condor, right, wrong):
    text = pathlib.Path("workers.sub").read_text()
    with pytest.raises((RuntimeError, ValueError)):
        condor(text.replace(right, wrong))


def test_slurm_takes_the_job():
    if not shutil.which("sinfo") or subprocess.run(["sinfo"], capture_output=True).returncode:
        pytest.skip(missing.SLURM)
    job = BATCH / "slurm" / "crema.sh"
    subprocess.run(["sbatch", "--test-only", job, "true"], check=True, timeout=60)


@pytest.mark.parametrize("arguments", [[], ["true"]])
def test_the_slurm_job_is_no_plain_script(arguments):
    done = subprocess.run(
        [BATCH / "slurm" / "crema.sh", *arguments],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "sbatch" in done.stderr
