"""Directories; not in conftest.py, of which a run of several folders of tests has more than one."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
SAMPLES = ROOT / ".cache" / "coffea-samples"
EXTRA = ROOT.parent / "shared" / "data"  # more real files, where a checkout has them
