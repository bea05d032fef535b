"""Write what shells and man(1) know of the programs: ``python packaging/shell OUTPUT DATE VERSION PROGRAM...``.

OUTPUT/bash and OUTPUT/zsh hold a completion per program and one for ``crema``, OUTPUT/man1 their manual pages; each follows from the
program's own options. The package ``crema`` must be importable, as the source tree is; of what it needs, click is enough.
"""

from __future__ import annotations

import gzip
import pathlib
import sys

import bash
import man
import model
import zsh


def main() -> None:
    """Make all of it."""
    output, date, version, *programs = sys.argv[1:]
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
    from crema.read.command import main as group

    made = pathlib.Path(output)
    for folder in ("bash", "zsh", "man1"):
        (made / folder).mkdir(parents=True, exist_ok=True)
    command = model.of_click(group, "crema")
    of_programs = [model.of_program(pathlib.Path(path)) for path in programs]
    pages = {each.name: man.write_program(each, date, version) for each in of_programs}
    pages["crema"] = man.write(command, date, version)
    for name, page in pages.items():
        (made / f"man1/{name}.1.gz").write_bytes(gzip.compress(page.encode(), mtime=0))
    for each in (command, *of_programs):
        (made / "bash" / each.name).write_text(bash.write(each))
        (made / "zsh" / f"_{each.name}").write_text(zsh.write(each))


if __name__ == "__main__":
    main()
