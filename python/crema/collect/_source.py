"""Source text of the user's lines that threads were seen in: only of the processor's module and its package."""

from __future__ import annotations

import json
import linecache
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ..hook._secrets import REMOVED, cleaned
from . import _cluster
from ._attributes import TEXT_BYTES_MAX

if TYPE_CHECKING:
    from distributed import Client

    from ._settings import Settings

LINES_MAX = 400  # those with most seconds
PIECES_MAX = 8  # attributes of at most TEXT_BYTES_MAX
_LETTERS_MAX = 160  # of a line
_WORKERS_MAX = 8  # that are asked: the lines of a run are much the same in all of them
_ASK_S = 2.0

Seen = tuple[str, int, float, str]  # file, line, seconds, text where the process has the file

_LITERAL = re.compile(r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')""")
_SECRET_BEFORE = re.compile(
    r"(?:passw|token|secret|credential|api_?key|auth|bearer)\w*\W{0,6}$", re.IGNORECASE
)
# Letters and digits that mean nothing to a reader; neither a path nor words joined by underscores.
_RANDOM = re.compile(r"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9+=.-]{24,}")


def kept(settings: Settings, client: Client | None, run_id: str, t_start_ns: int) -> dict[str, str]:
    """Attributes of a run that ends: text of its lines, or without looks, Dask's own profile. What fails costs these only.

    It is asked for before the processes forget what they saw.
    """
    processor = settings.processor
    try:
        if settings.look_interval_s == 0:
            return attributes(processor, ()) | (_of_dask(client, t_start_ns) if client else {})
        lines: list[Seen] = []
        if settings.look_source and processor is not None:
            here = client is None
            lines = seen(run_id, package(processor))() if here else of_workers(client, run_id, processor)  # fmt: skip
        return attributes(processor, lines)
    except Exception:
        return {}


def _of_dask(client: Client, t_start_ns: int) -> dict[str, str]:
    """Dask's profile since the run began, which its workers make anyway."""
    import dask
    from dask.utils import parse_timedelta

    from ..hook import _stacks
    from ..read.code import dask_profile

    owners = {_stacks.USER: "user", _stacks.LIBRARY: "library", _stacks.STANDARD: "standard"}

    def owner_of(file: str) -> tuple[str, str]:
        name, owner = _stacks.named(file)
        return name, owners.get(owner, "crema")

    tree = _cluster.bounded(lambda: client.profile(start=t_start_ns * 1e-9), "its profile", _ASK_S)
    interval_s = parse_timedelta(dask.config.get("distributed.worker.profile.interval"))
    return dask_profile.attributes(tree, interval_s, owner_of)


def of_workers(client: Client, run_id: str, processor: Any) -> list[Seen]:
    """Lines that some workers were seen in; none if they do not answer soon, for a run never waits for this."""
    ask = seen(run_id, package(processor))
    try:
        workers = sorted(_cluster.bounded(client.nthreads, "asking who is there", _ASK_S))
        answers = _cluster.bounded(
            lambda: client.run(ask, workers=workers[:_WORKERS_MAX], on_error="return"),
            "asking for the lines",
            _ASK_S,
        )
    except Exception:
        return []
    return [each for answer in answers.values() if isinstance(answer, list) for each in answer]


def seen(run_id: str, outermost: str) -> Callable[[], list[Seen]]:
    """A function that returns the lines that threads of its process were seen in, most seconds first; it is pickled by value."""
    most = LINES_MAX

    def lines() -> list[Any]:
        import linecache

        from crema.hook import _looking
        from crema.hook._stacks import USER

        found: dict[Any, float] = {}
        sampler = _looking._sampler
        for looks in list(sampler.streams) if sampler is not None else ():
            if looks.recorder.config.run_id != run_id:
                continue
            for key, seconds in list(looks._totals.items()):
                for stack in key[-1].outwards() if key[-1] is not None else ():
                    file = stack.frame.file
                    if stack.frame.owner == USER or file.startswith((f"{outermost}/", f"{outermost}.py")):  # fmt: skip
                        at = file, stack.frame.line
                        found[at] = found.get(at, 0.0) + seconds
                        break
        hottest = sorted(found.items(), key=lambda each: -each[1])[:most]
        return [(*at, seconds, linecache.getline(*at).strip()) for at, seconds in hottest]

    return lines


def attributes(processor: Any, lines: Iterable[Seen]) -> dict[str, str]:
    """Attributes of the run: the processor's module, and the text of those lines that are its own."""
    from ..read.code import looks, source

    name = _module(processor)
    if not name:
        return {}
    found = {source.MODULE: name}
    own = _Own(name)
    texts: dict[tuple[str, int], str] = {}
    for file, line, _, text in sorted(lines, key=lambda each: -each[2]):
        here = own.path(file)
        if here and len(texts) < LINES_MAX:
            text = text or linecache.getline(here, line).strip()
            if text:
                texts.setdefault((looks.of_any_worker(file), line), masked(text))
    pieces = _pieces([[*at, text] for at, text in texts.items()])
    return found | {f"{source.PREFIX}{i}": piece for i, piece in enumerate(pieces[:PIECES_MAX])}


def package(processor: Any) -> str:
    """Outermost package of a processor's module, as a directory; the module itself where it is in none."""
    return _module(processor).partition(".")[0]


def masked(text: str) -> str:
    """A line of code without what may be secret in its string literals."""

    def literal(match: re.Match[str]) -> str:
        quote, inside = match[0][0], match[0][1:-1]
        if _SECRET_BEFORE.search(match.string[: match.start()]) or _RANDOM.fullmatch(inside):
            return f"{quote}{REMOVED}{quote}"
        return match[0]

    return cleaned(_LITERAL.sub(literal, text))[:_LETTERS_MAX]


class _Own:
    """The files of a module and its package."""

    def __init__(self, name: str) -> None:
        outermost = name.partition(".")[0]
        self._paths: dict[str, str] = {}  # by what the end of a worker's path may be
        if name == "__main__":
            self._paths = {path: path for path in _of_main()}
            return
        for each, module in list(sys.modules.items()):
            path = getattr(module, "__file__", None)
            if path and (each == outermost or each.startswith(f"{outermost}.")):
                is_package = path.endswith("__init__.py")
                tail = each.replace(".", "/") + ("/__init__.py" if is_package else ".py")
                self._paths[tail] = self._paths[path] = path

    def path(self, file: str) -> str:
        """The file here that a worker calls `file`; empty if it is another's."""
        if file in self._paths:
            return self._paths[file]
        parts = file.split("/")
        tails = ("/".join(parts[i:]) for i in range(1, len(parts)))
        return next((self._paths[tail] for tail in tails if tail in self._paths), "")


def _of_main() -> Iterator[str]:
    """Files of what was defined in the main module: a script, or the cells of a notebook."""
    main = sys.modules.get("__main__")
    if path := getattr(main, "__file__", None):
        yield path
    for value in list(vars(main).values()) if main is not None else ():
        if getattr(value, "__module__", None) == "__main__":
            inner = list(vars(value).values()) if isinstance(value, type) else [value]
            for each in inner:
                if isinstance(each, types.FunctionType):
                    yield each.__code__.co_filename


def _module(processor: Any) -> str:
    if processor is None:
        return ""
    own = getattr(processor, "__module__", "") or type(processor).__module__
    return own if isinstance(own, str) else ""


def _pieces(rows: list[list[Any]]) -> list[str]:
    """JSON lists of the rows, each short enough for an attribute."""
    pieces: list[list[str]] = [[]]
    used = 2
    for row in rows:
        text = json.dumps(row, ensure_ascii=False)
        size = len(text.encode("utf-8", "replace")) + 1
        if used + size > TEXT_BYTES_MAX:
            pieces.append([])
            used = 2
        pieces[-1].append(text)
        used += size
    return [f"[{','.join(piece)}]" for piece in pieces if piece]
