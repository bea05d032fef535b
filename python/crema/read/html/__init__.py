"""The report: one HTML page per run, self-contained, that opens offline."""

from __future__ import annotations

import importlib
from typing import Any

_MODULES = {"write_comparison": "two", "write_report": "page", "write_scaling": "scaling_page"}
__all__ = ["write_comparison", "write_report", "write_scaling"]


def __getattr__(name: str) -> Any:  # sentences alone need no matplotlib
    if name not in _MODULES:
        raise AttributeError(name)
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
