"""What crema's hooks touch of coffea, uproot and Dask: found by watching them, and taken away from them alone.

Every class of these packages gets a ``__getattribute__`` that looks who asks. The packages themselves keep what they have.
"""

from __future__ import annotations

import contextlib
import enum
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

PACKAGES = ("coffea", "distributed", "uproot")
ASKING = ("crema.hook.", "crema.collect._runner")

Touched = tuple[str, str]  # class or module, attribute
_known: dict[str, type] = {}  # classes that were seen, by name


def _of_packages(name: str) -> bool:
    return name.partition(".")[0] in PACKAGES


def _classes() -> list[type]:
    found: dict[type, None] = {}
    for name, module in list(sys.modules.items()):
        if _of_packages(name):
            for value in list(vars(module).values()):
                if isinstance(value, type) and _of_packages(value.__module__):
                    found[value] = None
    return [c for c in found if not issubclass(c, (BaseException, enum.Enum, tuple))]


@contextlib.contextmanager
def watched(asked: Callable[[str, str], bool], owners: set[str] | None = None) -> Iterator[None]:
    """Watch all classes and modules of these packages, or `owners`.

    `asked` is called with owner and name of each attribute before crema gets it; crema gets None if it returns True, and what it raises."""

    def by_crema() -> bool:
        return sys._getframe(2).f_globals.get("__name__", "").startswith(ASKING)

    undo: list[Callable[[], None]] = []
    patched: set[type] = set()
    classes = [_known[name] for name in owners & set(_known)] if owners is not None else _classes()
    for cls in sorted(classes, key=lambda c: len(c.__mro__)):
        if patched.intersection(cls.__mro__[1:]) and "__getattribute__" not in vars(cls):
            continue

        def make(before: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
            def get(self: Any, name: str) -> Any:
                if by_crema():
                    cls = type(self)
                    owner = f"{cls.__module__}.{cls.__qualname__}"
                    _known[owner] = cls
                    if asked(owner, name):
                        return None
                return before(self, name)

            return get

        own = "__getattribute__" in vars(cls)
        before = cls.__getattribute__
        try:
            cls.__getattribute__ = make(before)
        except TypeError:
            continue
        patched.add(cls)
        undo.append(
            (lambda c, b: lambda: setattr(c, "__getattribute__", b))(cls, before)
            if own
            else (lambda c: lambda: delattr(c, "__getattribute__"))(cls)
        )

    class Watched(types.ModuleType):
        def __getattribute__(self, name: str) -> Any:
            asks = by_crema() and not name.startswith("__")
            if asks and asked(types.ModuleType.__getattribute__(self, "__name__"), name):
                return None
            return types.ModuleType.__getattribute__(self, name)

    for name, module in list(sys.modules.items()):
        if owners is not None and name not in owners:
            continue
        if _of_packages(name) and type(module) is types.ModuleType:
            module.__class__ = Watched
            undo.append((lambda m: lambda: setattr(m, "__class__", types.ModuleType))(module))
    try:
        yield
    finally:
        for each in reversed(undo):
            each()


@contextlib.contextmanager
def traced() -> Iterator[set[Touched]]:
    """The attributes that crema asks for meanwhile."""
    found: set[Touched] = set()

    def note(owner: str, name: str) -> bool:
        if not (owner.startswith("crema") or name.startswith("__")):
            found.add((owner, name))
        return False

    with watched(note):
        yield found


@contextlib.contextmanager
def taken(what: set[Touched], is_none: bool = False) -> Iterator[None]:
    """crema does not find these attributes, or finds None there; everybody else has them."""

    def gone(owner: str, name: str) -> bool:
        if (owner, name) not in what:
            return False
        if is_none:
            return True
        raise AttributeError(name)

    with watched(gone, {owner for owner, _ in what}):
        yield
