"""Secrets of the client's command line and attributes stay out of the run file."""

from __future__ import annotations

import os
import shlex

import pytest

from crema.collect._attributes import of_client
from crema.read.html.page import write_text


@pytest.mark.parametrize(
    "given",
    [
        "run.py --token S3CRET --n 4",
        "run.py --api-token=S3CRET --n 4",
        "run.py --password 'S3CRET and more' --n 4",
        "curl -H 'Authorization: Bearer S3CRET' --n 4",
        "x --header Bearer%20S3CRET --n 4",
        "root://user:S3CRET@host//file --n 4",
        "https://host/file.root?authz=Bearer%20S3CRET --n 4",
        "https://host/file.root?X-Amz-Signature=S3CRET&b=1 --n 4",
        "run.py --secret S3CRET --key S3CRET --n 4",
    ],
)
def test_secrets_are_removed_and_the_rest_stays(given, monkeypatch):
    monkeypatch.setattr("sys.argv", shlex.split(given))
    found = of_client({"note": given})
    for text in (found["note"], found["cmdline"]):
        assert "S3CRET" not in text
        assert "--n 4" in text


@pytest.mark.parametrize("given", ["run.py --keys-dir /a --n 4", "mail me@host", "tokens: 5"])
def test_text_that_is_no_secret_stays(given):
    assert of_client({"note": given})["note"] == given


def test_a_page_obeys_the_umask(tmp_path):
    before = os.umask(0o077)
    try:
        write_text(tmp_path / "page.html", "x")
    finally:
        os.umask(before)
    assert (tmp_path / "page.html").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
