"""Stacks with their seconds for other programs: https://www.speedscope.app, and folded stacks as flamegraph.pl reads them."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from ... import __version__
from .._output import opened
from .looks import PHASE_NAMES, Looks

if TYPE_CHECKING:
    from ..reader import RunFile

SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def speedscope(run: RunFile, path: str | os.PathLike) -> int:
    """Write the stacks as one sampled profile: a sample is a stack with the state of its seconds, its weight is seconds.

    Parameters
    ----------
    run : RunFile
        Sealed or live.
    path : path
        Path of the file, which is replaced; compressed if it ends with ``.gz``.

    Returns
    -------
    int
        Samples written.

    Raises
    ------
    NoLooksError
        If the file has no looks.
    """
    looks = Looks(run)
    frames: list[dict[str, Any]] = []
    known: dict[Any, int] = {}

    def number(key: Any, frame: dict[str, Any]) -> int:
        if key not in known:
            known[key] = len(frames)
            frames.append(frame)
        return known[key]

    def of_frame(row: int) -> int:
        file, line = looks.files[row], int(looks.frame_lines[row])
        frame = {"name": looks.functions[row] or file, "file": file}
        if line > 0:
            frame["line"] = line
        return number((file, frame["name"], line), frame)

    samples, weights = [], []
    for stack, phase, state, seconds in looks.by_stack():
        outermost = number(phase, {"name": PHASE_NAMES.get(phase, phase)})
        innermost = number(("state", state), {"name": f"[{state}]"})
        samples.append([outermost, *map(of_frame, stack), innermost])
        weights.append(seconds)
    profile = {
        "type": "sampled",
        "name": "seconds of the tasks' threads",
        "unit": "seconds",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": samples,
        "weights": weights,
    }
    label = run.attributes.get("run_label") or run.attributes.get("processor_name") or "run"
    content = {
        "$schema": SCHEMA,
        "shared": {"frames": frames},
        "profiles": [profile],
        "name": f"{label} {run.run_id}",
        "activeProfileIndex": 0,
        "exporter": f"crema {__version__}",
    }
    with opened(path) as file:
        json.dump(content, file, separators=(",", ":"))
    return len(samples)


def collapsed(run: RunFile, path: str | os.PathLike) -> int:
    """Write the stacks folded: a line per stack with its state, the outermost frame first, and microseconds; they add up to all.

    Parameters, result and errors as of `speedscope`.
    """
    looks = Looks(run)
    folded: dict[str, float] = {}
    for stack, phase, state, seconds in looks.by_stack():
        names = [PHASE_NAMES.get(phase, phase), *map(looks.label, stack), f"[{state}]"]
        line = ";".join(" ".join(name.replace(";", ":").split()) for name in names)
        folded[line] = folded.get(line, 0.0) + seconds
    left, n = 0.0, 0
    with opened(path) as file:
        for line, seconds in sorted(folded.items()):
            exact = 1e6 * seconds + left  # what rounding takes from a line, the next one has
            whole = round(exact)
            left = exact - whole
            if whole > 0:
                file.write(f"{line} {whole}\n")
                n += 1
    return n
