#!/usr/bin/env python3
"""Which source may include which: reads the sources and reports where a layer is broken.

Rules, by the names they are reported under:

program  no folder includes a header of another program, and proto/ includes no program's
pure     a module whose header's first comment says "Pure:" reaches no socket, clock, disk or log, not even through
         another header
codec    only proto/wire/crema_body.h includes what protobuf-c generates, and only sources of proto/wire/ pack and unpack it
hdf5     only sink/file/sink_h5*.c, and the tests, include HDF5
http     only proto/scrape/crema_scrape.c includes libmicrohttpd
room     a folder inside a part includes only the folders that ROOMS names, so that the arrows run one way
circle   the sources of the product use each other's functions one way: a reader of one needs only those below it
print    programs print lines for people by crema_print() alone, which escapes what users named
header   no header shows a type of ZeroMQ, CZMQ, HDF5 or libmicrohttpd

usage: layers.py [ROOT]   prints one line for each broken rule; exit status 1 if there is any
"""

import itertools
import re
import sys
from pathlib import Path

PROGRAMS = ("agent", "aggregator", "sink")
SHIPPED = ("proto", *PROGRAMS)
FOLDERS = (*SHIPPED, "tests")

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.MULTILINE)
# A function of a .c file that others may call: its return type has a line of its own.
DEFINED = re.compile(r"^(?!.*\bstatic\b)\w.*\n(\w+)\(", re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
FIRST_COMMENT = re.compile(r"\A\s*/\*(.*?)\*/", re.DOTALL)

ZMQ = re.compile(r"(czmq|zmq|zmq_utils|zsock|zloop)\.h")
CODEC = re.compile(r".*\.pb-c\.h|protobuf-c/.*")
PACKING = re.compile(r"\bprotobuf_c_message_(?:un)?pack\w*|\bcrema__\w+__(?:un)?pack\w*")
HDF5 = re.compile(r"(hdf5|hdf5_hl|H5\w*)\.h")
HTTP = re.compile(r"microhttpd\.h")
SYSTEM = re.compile(
    r"(dirent|fcntl|locale|netdb|poll|pthread|signal|spawn|stdio|syslog|termios|threads|time|unistd)\.h"
    r"|sys/(?!types\.h).*|(arpa|linux|net|netinet)/.*"
)
OWN = re.compile(r"(.*/)?crema_(clock|link|log|option|random|spool)\.h")

LIBRARIES = (ZMQ, HDF5, HTTP)
IMPURE = (*LIBRARIES, SYSTEM, OWN)
PRINTING = re.compile(r"\b(?:v?[fd]?printf|perror)\(")
MAY_INCLUDE_CODEC = "proto/wire/crema_body.h"
MAY_PACK = "proto/wire"
MAY_USE_HTTP = "proto/scrape/crema_scrape.c"
MAY_USE_HDF5 = re.compile(r"sink/file/sink_h5\w*\.c|tests/.*\.c")

# Which folders of its own part a folder may know, besides itself. The folder of the part itself, with its main, knows all.
ROOMS = {
    "proto/base": (),
    "proto/tables": ("proto/base",),
    "proto/wire": ("proto/base", "proto/tables"),
    "proto/daemon": ("proto/base", "proto/tables", "proto/wire"),
    "proto/scrape": ("proto/base", "proto/tables", "proto/wire", "proto/daemon"),
    "proto/generator": ("proto/base", "proto/tables", "proto/wire", "proto/scrape"),
    "sink/store": (),
    "sink/rows": ("sink/store",),
    "sink/metrics": (),
    "sink/analysis": ("sink/metrics", "sink/rows", "sink/store"),
    "sink/summary": ("sink/analysis", "sink/metrics", "sink/rows", "sink/store"),
    "sink/file": ("sink/summary", "sink/analysis", "sink/metrics", "sink/rows", "sink/store"),
    "sink/serve": ("sink/store",),
    "sink/command": ("sink/file", "sink/serve", "sink/store"),
    "aggregator/base": (),
    "aggregator/core": ("aggregator/base",),
    "agent/spool": (),
    "agent/session": ("agent/spool",),
}


def any_match(patterns, text):
    """Whether one of the patterns matches the whole text."""
    return any(pattern.fullmatch(text) for pattern in patterns)


class Tree:
    """The sources below one root, with what each includes."""

    def __init__(self, root):
        self.root = root
        files = [p for f in FOLDERS for p in sorted((root / f).rglob("*.[ch]"))]
        self.text = {p.relative_to(root).as_posix(): p.read_text(encoding="utf-8") for p in files}
        self.includes = {name: INCLUDE.findall(text) for name, text in self.text.items()}
        self.headers = {Path(name).name: name for name in self.text if name.endswith(".h")}

    def own(self, include):
        """The header of this tree that an include means, or None for a system header."""
        return self.headers.get(Path(include).name)

    def is_pure(self, name):
        """Whether the module's header claims it; a .c belongs to the header beside it, else to its private one."""
        header = str(Path(name).with_suffix(".h"))
        if header not in self.text:
            shared = (
                self.own(i) for i in self.includes[name] if i.endswith(("_private.h", "_impl.h"))
            )
            header = next(filter(None, shared), "")
        comment = FIRST_COMMENT.match(self.text.get(header, ""))
        return comment is not None and "Pure:" in comment.group(1)

    def impure_path(self, name, seen=()):
        """The chain of includes by which a file reaches something impure, or None."""
        for include in self.includes[name]:
            if any_match(IMPURE, include):
                return (name, include)
            header = self.own(include)
            if header and header not in seen:
                seen = (*seen, header)
                chain = self.impure_path(header, seen)
                if chain:
                    return (name, *chain)
        return None


def uses(tree):
    """Of each source of the product the sources whose functions it calls, each with one of these functions."""
    sources = {n: COMMENT.sub("", t) for n, t in tree.text.items() if n.endswith(".c")}
    sources = {n: t for n, t in sources.items() if n.split("/")[0] in SHIPPED}
    home = {f: n for n, text in sources.items() for f in DEFINED.findall(text)}
    found = {}
    for name, text in sources.items():
        words = dict.fromkeys(re.findall(r"\w+", text))
        found[name] = {home[w]: w for w in words if home.get(w, name) != name}
    return found


def circles(graph):
    """Yield each circle that a walk through the graph closes."""
    done, path = set(), []

    def walk(name):
        path.append(name)
        for other in graph[name]:
            if other in path:
                yield [*path[path.index(other) :], other]
            elif other not in done:
                yield from walk(other)
        done.add(path.pop())

    for name in graph:
        if name not in done:
            yield from walk(name)


def leaves_room(name, header):
    """Whether a file includes a header of a folder that its own folder may not know."""
    room, theirs = (str(Path(n).parent) for n in (name, header))
    return room in ROOMS and theirs not in (room, *ROOMS[room])


def broken(tree):
    """Yield (rule, sentence) for every rule a file breaks."""
    graph = uses(tree)
    for way in circles(graph):
        steps = [f"{graph[a][b]} of {b}" for a, b in itertools.pairwise(way)]
        yield "circle", f"{way[0]} uses " + ", which uses ".join(steps)
    for name, includes in tree.includes.items():
        folder = name.split("/")[0]
        for include in includes:
            header = tree.own(include)
            theirs = header.split("/")[0] if header else None
            if folder in SHIPPED and theirs in PROGRAMS and theirs != folder:
                yield "program", f"{name} includes {header}"
            if header and theirs == folder and leaves_room(name, header):
                yield "room", f"{name} includes {header}"
            if CODEC.fullmatch(include) and name != MAY_INCLUDE_CODEC:
                yield "codec", f"{name} includes {include}"
            if HDF5.fullmatch(include) and not MAY_USE_HDF5.fullmatch(name):
                yield "hdf5", f"{name} includes {include}"
            if HTTP.fullmatch(include) and name != MAY_USE_HTTP:
                yield "http", f"{name} includes {include}"
            shows = name.endswith(".h") and any_match(LIBRARIES, include)
            if folder in SHIPPED and shows:
                yield "header", f"{name} includes {include}; forward-declare its types instead"
        packs = PACKING.search(COMMENT.sub("", tree.text[name]))
        if folder in SHIPPED and packs and str(Path(name).parent) != MAY_PACK:
            yield "codec", f"{name} uses {packs[0]}"
        prints = PRINTING.search(COMMENT.sub("", tree.text[name]))
        if folder in PROGRAMS and prints:
            yield "print", f"{name} uses {prints[0]})"
        if folder in SHIPPED and tree.is_pure(name):
            chain = tree.impure_path(name)
            if chain:
                yield "pure", " -> ".join(chain)


def main(arguments):
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parents[2]
    tree = Tree(root)
    if not tree.text:
        print(f"layers: no sources below {root}", file=sys.stderr)
        return 2
    faults = sorted(set(broken(tree)))
    for rule, sentence in faults:
        print(f"layers: {rule}: {sentence}")
    pure = sum(tree.is_pure(name) for name in tree.headers.values())
    print(f"layers: {len(tree.text)} files, {pure} pure modules, {len(faults)} broken")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
