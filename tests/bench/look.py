"""The report in a real browser: no message on its console, every figure there, and screenshots to be looked at.

    python tests/bench/look.py RUN.h5 [DIRECTORY]

It needs Debian's package chromium. The screenshots are of a desktop and a telephone, light and dark; a copy of the run whose
names are all attacks is opened too, and may do nothing.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import h5py

from crema.read.html import write_report

CHROMIUM = ["/usr/lib/chromium/chromium", "chromium", "chromium-browser", "google-chrome"]
SIZES = {"desktop": (1200, 1600), "phone": (390, 1600)}
DARK = "--blink-settings=preferredColorScheme=0"
ATTACK = "</script><script>document.title='attacked'</script><img src=x onerror=\"document.title='attacked'\">"


def browse(page: pathlib.Path, *arguments: str) -> tuple[str, list[str]]:
    """Output of the browser, and what the page said on its console."""
    program = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if program is None:
        raise SystemExit("look: there is no chromium: apt-get install chromium")
    with tempfile.TemporaryDirectory() as profile:
        command = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                   f"--user-data-dir={profile}", "--enable-logging=stderr",
                   "--virtual-time-budget=10000", *arguments, page.absolute().as_uri()]  # fmt: skip
        ran = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    return ran.stdout, [line for line in ran.stderr.splitlines() if "CONSOLE" in line]


def framed(page: pathlib.Path, width: int, height: int) -> pathlib.Path:
    """A page that shows another one in so many pixels: no window is narrower than 500."""
    path = page.with_name(f"{page.stem}-{width}.html")
    path.write_text(
        f'<body style="margin:0"><iframe src="{page.name}" width="{width}" height="{height}" style="border:0">'
    )
    return path


def attacked(source: pathlib.Path, copy: pathlib.Path) -> pathlib.Path:
    """A copy of the run whose names are attacks."""
    shutil.copy(source, copy)
    with h5py.File(copy, "a") as f:
        f.attrs["run_label"] = f.attrs["user"] = ATTACK
        for table in ("dict/worker", "dict/dataset", "dict/task_prefix", "dict/file"):
            rows = f[table][:]
            rows["name"] = [(ATTACK + str(i)).encode() for i in range(len(rows))]
            f[table][:] = rows
    return copy


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=pathlib.Path)
    parser.add_argument("directory", nargs="?", default=".", type=pathlib.Path)
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    page = write_report(options.run, options.directory / "report.html")
    hostile = attacked(options.run, options.directory / "attack.h5")
    bad = 0
    for path in (page, write_report(hostile)):
        dom, said = browse(path, "--dump-dom")
        figures = set(re.findall(r'<figure data-name="(\w+)"', path.read_text(encoding="utf-8")))
        shown = set(re.findall(r'<figure data-name="(\w+)"><button[^>]*>SVG</button>', dom))
        ready = 'data-ready="1"' in dom
        title = re.search(r"<title>(.*?)</title>", dom, re.DOTALL)
        done = title is not None and title[1] == "attacked"
        print(
            f"{path.name}: {len(figures)} figures, script {'ran' if ready else 'failed'}, {len(said)} messages"
        )
        print("\n".join(said))
        bad += bool(said) + (figures != shown) + (not ready) + done
    for name, (width, height) in SIZES.items():
        frame = framed(page, width, height)
        for kind, more in {name: [], f"{name}-dark": [DARK]}.items():
            shot = options.directory / f"{kind}.png"
            browse(frame, f"--window-size={width},{height}", f"--screenshot={shot}", *more)
            print(shot)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
