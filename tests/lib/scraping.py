"""What the tests of `--metrics` share: a scrape as Prometheus makes it, read by a parser of the text format."""

from __future__ import annotations

import re
import urllib.request

from paths import ROOT

SAMPLE = re.compile(r"([a-z_]+)(?:\{(.*)\})? (\S+)")
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')


class Scrape(dict):
    """(name, label values in their order) -> value; types by name."""

    def __init__(self, text: str):
        super().__init__()
        self.text, self.types = text, {}
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split()
                assert name not in self.types, f"{name} comes in two groups"
                self.types[name] = kind
            elif not line.startswith("# HELP "):
                name, labels, value = SAMPLE.fullmatch(line).groups()
                values = tuple(found[1] for found in LABEL.findall(labels or ""))
                assert LABEL.sub("", labels or "") == "", line
                assert (name, *values) not in self, f"{line} is there twice"
                self[name, *values] = float(value)

    def only(self, name: str) -> float:
        return self[(name,)]

    def of(self, name: str) -> dict:
        """Label values -> value."""
        found = {key[1:]: value for key, value in self.items() if key[0] == name}
        return {key[0] if len(key) == 1 else key: value for key, value in found.items()}


def fetch(url: str, timeout_s: float = 10):
    return urllib.request.urlopen(url, timeout=timeout_s)


def scrape(service_or_url, timeout_s: float = 10) -> Scrape:
    url = service_or_url if isinstance(service_or_url, str) else service_or_url.said["metrics"]
    with fetch(url, timeout_s) as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        return Scrape(answer.read().decode())


def documented() -> dict[str, str]:
    """docs/operation/series.md: series -> type."""
    page = (ROOT / "docs" / "operation" / "series.md").read_text()
    return dict(re.findall(r"^\| `([a-z_]+)` \| (counter|gauge|histogram) \|", page, re.MULTILINE))
