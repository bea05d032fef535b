"""The report in a real browser: no message on its console, every figure there, and screenshots to be looked at.

    python tests/bench/look.py RUN.h5 [DIRECTORY]

It needs Debian's package chromium. The screenshots are of a desktop, a telephone and a dark desktop; a copy of the run whose
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
SIZES = {"desktop": (1200, 1600), "phone": (390, 1600), "dark": (1200, 1600)}
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
        shot = options.directory / f"{name}.png"
        dark = ["--blink-settings=preferredColorScheme=0"] if name == "dark" else []
        browse(page, f"--window-size={width},{height}", f"--screenshot={shot}", *dark)
        print(shot)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
