"""How plugins and checkpointer travel inside Dask: they unpickle anywhere, and do nothing where crema cannot record.

Dask unpickles a plugin in every worker that joins, outside its own error handling: if that fails,
the worker does not start, or accepts tasks that it never runs. A pickle by reference fails wherever
this package, or this version of it, is not installed. So the pickle is an expression of built-in
functions, whose value is the object where crema supports the client's protocol, and a substitute
elsewhere.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from typing import Any

from . import _columns
from ._config import HookConfig

_KINDS = {
    "checkpointer": ("chunks", "ChunkHook"),
    "nanny": ("nanny", "NannyHook"),
    "scheduler": ("scheduler", "SchedulerHook"),
    "worker": ("worker", "WorkerHook"),
}

_EXPRESSION = (
    "(getattr(__import__('sys').modules.get('crema.hook._travel'), 'arrive', None)"
    " or exec(source, here := {}) or here['arrive'])(kind, state, substitute)"
)
_NEW = "(exec(source, here := {}) or here['arrive'])(kind, state, substitute)"
_SOURCE = """
def arrive(kind, state, substitute):
    try:
        from crema.hook._travel import _KINDS, arrive
        _KINDS[kind]  # earlier versions do not have every one
    except Exception:
        return substitute
    return arrive(kind, state, substitute)
"""


def reduced(
    kind: str, config: HookConfig, substitute: Any, *more: Any
) -> tuple[Callable, tuple[str, dict[str, Any]]]:
    """Return value for the ``__reduce__`` of a hook.

    Parameters
    ----------
    kind : str
        ``"checkpointer"``, ``"nanny"``, ``"scheduler"`` or ``"worker"``.
    config : HookConfig
        First argument of the hook's class.
    substitute : object
        Result of unpickling where crema cannot record; must itself unpickle there.
    *more : object
        Further arguments of the class.
    """
    fields = dataclasses.fields(config)
    values = {field.name: getattr(config, field.name) for field in fields}
    state = {"wire": _columns.WIRE_VERSION, "config": values, "more": more}
    names = {"source": _SOURCE, "kind": kind, "state": state, "substitute": substitute}
    return eval, (_NEW if kind == "nanny" else _EXPRESSION, names)


def arrive(kind: str, state: dict[str, Any], substitute: Any) -> Any:
    """The hook in a pickle, or the substitute if its client uses another protocol."""
    if state["wire"] != _columns.WIRE_VERSION:
        return substitute
    module, name = _KINDS[kind]
    found = getattr(importlib.import_module(f"crema.hook.{module}"), name)
    return found(HookConfig.of(state["config"]), *state["more"])
