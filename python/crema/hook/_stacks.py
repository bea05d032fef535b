"""Stacks of Python frames: the same lines in the same callers are one object in this process, however often they are seen."""

from __future__ import annotations

import bisect
import pathlib
import site
import sys
import sysconfig
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

from . import _columns

FRAMES_MAX = 64
STACKS_MAX = _columns.LIMITS["writer_stacks"]
# Of what is known of code: when one is reached, all of it is dropped and learnt again.
_CODES_MAX = 2000  # some 30 kB each, and new ones for each task where functions travel by value
_KNOWN_MAX = 1 << 16

# Functions that call a task, by the end of their file's name: what is further out is the same for all tasks.
_ROOTS = (
    ("coffea/processor/executor.py", "_work_function"),
    ("coffea/processor/executor.py", "metadata_fetcher_root"),
    ("crema/hook/chunks.py", "__call__"),
    ("crema/hook/instrument.py", "measured"),
    ("distributed/worker.py", ""),
    ("dask/local.py", ""),
    ("concurrent/futures/thread.py", ""),
    ("concurrent/futures/process.py", ""),
    ("multiprocessing/pool.py", ""),
    ("multiprocessing/process.py", ""),
    ("threading.py", "run"),
)
_READERS = frozenset(("uproot", "fsspec", "XRootD", "pyxrootd", "fsspec_xrootd", "aiohttp", "s3fs"))
_SERVERS = ("distributed/", "tornado/", "asyncio/", "crema/", "ipykernel/", "zmq/", "IPython/")
_SOURCES = ("uproot/source/", "fsspec/", "XRootD/", "fsspec_xrootd/", "s3fs/")

USER, LIBRARY, STANDARD, CREMA = range(4)  # as the enumeration of dict/frame


class Frame:
    """A line of code."""

    __slots__ = ("file", "function", "line", "owner")

    def __init__(self, file: str, function: str, line: int, owner: int) -> None:
        self.file, self.function, self.line, self.owner = file, function, line, owner


_ROOT = Frame("", "", 0, CREMA)  # stands for every function that calls a task


class Stack:
    """A frame and its callers."""

    __slots__ = ("children", "frame", "parent", "reads", "serves", "sources")

    def __init__(self, parent: Stack | None, frame: Frame) -> None:
        self.parent = parent
        self.frame = frame
        self.children: dict[tuple, Stack] = {}
        outer = parent is not None
        package = frame.file.partition("/")[0] if frame.owner == LIBRARY else ""
        # Whether it reads the input, and whether it does so in the code that speaks to the source.
        self.reads: bool = package in _READERS or (outer and parent.reads)
        self.sources: bool = (package != "" and frame.file.startswith(_SOURCES)) or (
            outer and parent.sources
        )
        # True for threads of Dask, a notebook's kernel or crema, which do no work for tasks.
        self.serves: bool = frame.file.startswith(_SERVERS) or (outer and parent.serves)

    def outwards(self) -> Iterator[Stack]:
        """The stack itself, that of its caller, and so on."""
        stack: Stack | None = self
        while stack is not None:
            yield stack
            stack = stack.parent


class _Code:
    """What is known of a code object; the object is kept, so that no other one gets its number."""

    __slots__ = ("_lines", "_starts", "code", "file", "function", "owner", "root")

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.file, self.owner = named(code.co_filename)
        self.function = getattr(code, "co_qualname", code.co_name)
        self._lines: tuple[list[int], list[int | None]] | None = None  # where each begins; lines
        name = code.co_filename.replace("\\", "/")
        self.root = any(
            name.endswith(file) and function in ("", code.co_name) for file, function in _ROOTS
        )

    def line(self, instruction: int) -> int:
        """Line of an instruction."""
        if self._lines is None:
            runs = list(self.code.co_lines())
            self._lines = [start for start, _, _ in runs], [line for _, _, line in runs]
        starts, lines = self._lines
        at = bisect.bisect_right(starts, instruction) - 1
        return (lines[at] if at >= 0 else self.code.co_firstlineno) or 0


class _Known:
    """Code that was seen so far. It is replaced as a whole: a thread that still uses the old one reads valid entries."""

    __slots__ = ("codes", "lines", "stacks")

    def __init__(self) -> None:
        self.codes: dict[int, _Code] = {}
        # By address of an instruction, which lies in its code object.
        self.lines: dict[int, Frame] = {}
        self.stacks: dict[tuple[Frame, ...], Stack | None] = {}

    def learn(self, code: CodeType, instruction: int) -> Frame:
        """The line of an instruction that is seen for the first time."""
        its = self.codes.get(id(code)) or self.codes.setdefault(id(code), _Code(code))
        line = _ROOT
        if not its.root:
            line = Frame(its.file, its.function, its.line(instruction), its.owner)
        return self.lines.setdefault(id(code) + instruction, line)

    def is_full(self) -> bool:
        return len(self.codes) >= _CODES_MAX or max(len(self.lines), len(self.stacks)) >= _KNOWN_MAX


class Stacks:
    """All stacks of this process. Threads may use it at once, and in a garbage collection, without a lock: what they add is added in one step."""

    def __init__(self) -> None:
        self._known = _Known()
        self._outermost: dict[tuple, Stack] = {}
        self._n = 0
        self.folded = 0  # stacks that are their outer frames, since there were too many

    def of(self, frame: FrameType | None) -> Stack | None:
        """The stack of a frame, up to the function that called its task; None if that is all there is."""
        known = self._known
        lines, path = known.lines, []
        while frame is not None:
            code = frame.f_code
            line = lines.get(id(code) + frame.f_lasti)
            if line is None:
                line = known.learn(code, frame.f_lasti)
            if line is _ROOT:
                break
            path.append(line)
            frame = frame.f_back
        key = tuple(path)
        try:
            return known.stacks[key]
        except KeyError:
            stack = known.stacks[key] = self._new(key)
            if known.is_full():
                self._known = _Known()
            return stack

    def _new(self, path: tuple[Frame, ...]) -> Stack | None:
        if len(path) > FRAMES_MAX:  # the innermost frames, below the outermost one
            path = path[: FRAMES_MAX - 1] + path[-1:]
        stack = None
        for line in reversed(path):
            if line.owner == CREMA:
                continue
            children = self._outermost if stack is None else stack.children
            key = (line.file, line.function, line.line)
            inner = children.get(key)
            if inner is None:
                if self._n >= STACKS_MAX:
                    self.folded += 1
                    break
                self._n += 1
                inner = children.setdefault(key, Stack(stack, line))
            stack = inner
        return stack


def _directories() -> list[tuple[str, int]]:
    paths = sysconfig.get_paths()
    standard = {paths["stdlib"], paths["platstdlib"]}
    library = {paths["purelib"], paths["platlib"], *_site_packages()}
    found = [(path, LIBRARY) for path in library] + [(path, STANDARD) for path in standard]
    resolved = {(str(pathlib.Path(path).resolve()), owner) for path, owner in found}
    return sorted({*found, *resolved}, key=lambda each: -len(each[0]))


def _site_packages() -> list[str]:
    try:
        return [*site.getsitepackages(), site.getusersitepackages()]
    except Exception:
        return []


_installed = _directories()
_crema = str(pathlib.Path(__file__).resolve().parents[1])
_demo = f"{_crema}/_demo_processor.py"  # stands for a user's


def named(name: str) -> tuple[str, int]:
    """A source file as it is named in run files, and whose it is."""
    if name.startswith(_crema):
        return "crema" + name[len(_crema) :], USER if name == _demo else CREMA
    if name.startswith("<frozen "):
        return name, STANDARD
    for directory, owner in _installed:
        if name.startswith(directory + "/"):
            rest = name[len(directory) + 1 :]
            if rest.startswith(("site-packages/", "dist-packages/")):
                return rest.partition("/")[2], LIBRARY
            return rest, owner
    for part in ("/site-packages/", "/dist-packages/"):  # of another environment: shipped by value
        if part in name:
            return name.rpartition(part)[2], LIBRARY
    version = f"/python{sys.version_info[0]}.{sys.version_info[1]}/"
    return (name.rpartition(version)[2], STANDARD) if version in name else (name, USER)


def task_argument(frame: FrameType | None, function: str, name: str) -> Any:
    """Local variable of the caller whose name begins with `function`; None without one."""
    for _ in range(2 * FRAMES_MAX):
        if frame is None:
            return None
        if frame.f_code.co_name.startswith(function):
            return frame.f_locals.get(name)
        frame = frame.f_back
    return None
