"""The examples for Kubernetes, but for Dask's operator's, and what is in them."""

from __future__ import annotations

import pathlib

import yaml

from paths import ROOT

EXAMPLES = ROOT / "compose" / "batch" / "kubernetes"
CLUSTER = EXAMPLES / "operator" / "daskcluster.yaml"
OTHERS = (CLUSTER.name, "kustomization.yaml")  # test_kustomize.py
MANIFESTS = sorted(p for p in EXAMPLES.rglob("*.yaml") if p.name not in OTHERS)
KUBERNETES = "1.33"


def documents(path: pathlib.Path) -> list[dict]:
    return [d for d in yaml.safe_load_all(path.read_text()) if d]
