"""Modules by the names they had before the package had rooms: what users import, and what lies in pickles."""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_ROOMS = {
    "hook": (
        "_agent",
        "_config",
        "_recorder",
        "_writers",
        "chunks",
        "instrument",
        "scheduler",
        "worker",
    ),
    "collect": ("_attributes", "_cluster", "collector"),
    "read": ("command", "plots", "reader", "report"),
}
MOVED = {
    f"crema.{name}": f"crema.{room}.{name}" for room, names in _ROOMS.items() for name in names
}


class Finder:
    """Finds the very module that a former name means; goes behind the ordinary finders in ``sys.meta_path``."""

    @classmethod
    def find_spec(cls, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Called by the import system for each name that nothing else finds."""
        return ModuleSpec(fullname, cls) if fullname in MOVED else None

    @staticmethod
    def create_module(spec: ModuleSpec) -> None:
        """Leave it to the import system; `exec_module` replaces what it makes."""

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Put the moved module in the place of the one just made."""
        sys.modules[module.__name__] = importlib.import_module(MOVED[module.__name__])
