"""The examples for Kubernetes as kubectl builds them, and for Dask's operator against the schema that the operator installs."""

from __future__ import annotations

import subprocess
import zipfile

import jsonschema
import kubernetes_validate
import pytest
import yaml

import apt_programs
import missing
from manifests import EXAMPLES, KUBERNETES, MANIFESTS, documents
from paths import ROOT

KUSTOMIZATIONS = sorted(path.parent for path in EXAMPLES.rglob("kustomization.yaml"))
OPERATOR = "dask-kubernetes==2026.3.0"
CRD = "dask_kubernetes/operator/deployment/helm/dask-kubernetes-operator/crds/daskcluster.yaml"


@pytest.fixture(scope="session", params=["Debian's", "this machine's"])
def kubectl(request):
    """Debian 13 has it in a package of its own name, Debian 12 in the other."""
    find = apt_programs.unpacked if request.param == "Debian's" else apt_programs.program
    return find("kubectl", "kubectl", "kubernetes-client")


def key(document: dict) -> tuple[str, str]:
    return document["kind"], document["metadata"]["name"]


@pytest.mark.parametrize("directory", KUSTOMIZATIONS, ids=lambda path: path.name)
def test_kubectl_builds_what_the_files_say(kubectl, directory):
    done = subprocess.run(
        [kubectl, "kustomize", directory], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")  # what is deprecated is reported there
    built = {key(document): document for document in yaml.safe_load_all(done.stdout)}
    written = {
        key(d): d for path in EXAMPLES.rglob("*.yaml") if path in MANIFESTS for d in documents(path)
    }
    assert built
    for name, document in built.items():
        kubernetes_validate.validate(document, KUBERNETES, strict=True)
        if name != (
            "Deployment",
            "crema-worker",
        ):  # there are two of that name, for one or the other
            assert document == written[name]


# ---------------------------------------------------------------- Dask's operator


def cluster() -> dict:
    (found,) = documents(EXAMPLES / "operator" / "daskcluster.yaml")
    return found


def strict(schema):
    """The same schema, which refuses what it does not name."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: strict(each) for name, each in schema.items()}
    return (
        {"additionalProperties": False, **inner}
        if isinstance(schema.get("properties"), dict)
        else inner
    )


@pytest.fixture(scope="session")
def schema():
    """Of DaskCluster, from the wheel of the operator, which is not installed."""
    cache = ROOT / ".cache" / "dask-kubernetes"
    if not list(cache.glob("*.whl")):
        pip = [ROOT / ".venv/bin/python", "-m", "pip", "download", "-q", "--no-deps"]
        if subprocess.run([*pip, "-d", cache, OPERATOR]).returncode:
            pytest.skip(missing.PYPI)
    (wheel,) = cache.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        (version,) = yaml.load(file.read(CRD), yaml.CSafeLoader)["spec"]["versions"]
    schema = strict(version["schema"]["openAPIV3Schema"])
    return jsonschema.Draft202012Validator({**schema, "additionalProperties": True})


def test_the_operator_takes_the_cluster(schema):
    schema.validate(cluster())


@pytest.mark.parametrize("part", ["worker", "scheduler"])
def test_a_wrong_cluster_is_found(schema, part):
    wrong = cluster()
    wrong["spec"][part]["spec"]["containers"][0]["volumeMount"] = []
    with pytest.raises(jsonschema.ValidationError, match="volumeMount"):
        schema.validate(wrong)


@pytest.mark.parametrize("part", ["worker", "scheduler"])
def test_kubernetes_takes_the_pods_that_the_operator_makes(part):
    """A Deployment around the pod as it is written."""
    labels = {"dask.org/component": part}
    metadata = {"name": part, "labels": labels}
    template = {"metadata": metadata, "spec": cluster()["spec"][part]["spec"]}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    kubernetes_validate.validate(deployment, KUBERNETES, strict=True)
