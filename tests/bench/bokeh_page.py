"""The task stream as a page of Bokeh, to compare with the report's own canvas: its size, and what a strict policy leaves of it.

    python tests/bench/bokeh_page.py OUT.html [--tasks 1000000]

Open OUT.html in a browser, and OUT.strict.html, which has the report's policy: default-src 'none', scripts and styles by hash.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import pathlib
import re
import time

import numpy as np
from bokeh.embed import file_html
from bokeh.models import ColumnDataSource
from bokeh.plotting import figure
from bokeh.resources import INLINE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("--tasks", default=1_000_000, type=int)
    options = parser.parse_args()
    began = time.monotonic()
    rng = np.random.default_rng(1)
    slot = np.arange(options.tasks) % 1000
    start = (np.arange(options.tasks) // 1000 + rng.random(options.tasks) * 0.1).astype(np.float32)
    rows = {
        "slot": slot.astype(np.uint16),
        "left": start,
        "right": start + np.float32(0.9),
        "side": rng.integers(0, 4, options.tasks).astype(np.uint8),
        "prefix": rng.integers(0, 9, options.tasks).astype(np.uint16),
    }
    plot = figure(
        width=1000, height=500, output_backend="webgl", tools="xwheel_zoom,pan,hover,reset"
    )
    plot.hbar(y="slot", left="left", right="right", height=0.8, source=ColumnDataSource(rows))
    text = file_html(plot, INLINE, "tasks")
    options.page.write_text(text, encoding="utf-8")
    print(f"{options.tasks:,} tasks: {len(text) * 1e-6:.2f} MB in {time.monotonic() - began:.1f} s")
    scripts = re.findall(r"<script(?![^>]*json)[^>]*>(.*?)</script>", text, re.DOTALL)
    styles = re.findall(r"<style[^>]*>(.*?)</style>", text, re.DOTALL)
    print(f"of that {sum(map(len, scripts)) * 1e-6:.2f} MB are scripts")
    policy = "default-src 'none'; img-src data:"
    for kind, parts in (("script", scripts), ("style", styles)):
        hashes = (base64.b64encode(hashlib.sha256(p.encode()).digest()).decode() for p in parts)
        policy += f"; {kind}-src " + " ".join(f"'sha256-{h}'" for h in hashes)
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    strict = options.page.with_suffix(".strict.html")
    strict.write_text(text.replace("<head>", f"<head>{meta}", 1), encoding="utf-8")


if __name__ == "__main__":
    main()
