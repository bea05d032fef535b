"""The page as tests read it: the data in it, a script that runs its own, and text that must stay text."""

from __future__ import annotations

import base64
import json
import struct
import zlib

import numpy as np

from paths import ROOT

STUB = ROOT / "tests/lib/page_script.js"
HOSTILE = '</script><script>alert(1)</script><img src=x onerror="alert(2)">'


def unpack(packed: str) -> tuple[dict, dict[str, np.ndarray]]:
    """Header and columns of the data that a page carries."""
    raw = zlib.decompress(base64.b64decode(packed))
    (length,) = struct.unpack_from("<I", raw)
    header = json.loads(raw[4 : 4 + length])
    at, columns = 4 + length, {}
    for name, width, n in header["columns"]:
        planes = np.frombuffer(raw, np.uint8, width * n, at).reshape(width, n)
        columns[name] = (planes.astype(np.int64) << (8 * np.arange(width)[:, None])).sum(axis=0)
        at += width * n
    assert at == len(raw)
    return header, columns
