"""What a command line takes, read from the program itself: of C programs by ``--options``, of the Python command by click."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import typing

if typing.TYPE_CHECKING:
    import pathlib

    import click

# What a value can be completed to; by the name that the help gives it.
_KINDS = {"DIR": "directory", "FILE": "file", "JOURNAL": "directory", "STORE": "directory"}
_CHOICE = re.compile(r"(?:.*: )?([a-z]+(?:, [a-z]+)* or [a-z]+)")


@dataclasses.dataclass(frozen=True)
class Option:
    """An option and what follows it."""

    names: tuple[str, ...]
    value: str  # its name in the help; empty for a flag
    help: str
    kind: str = "text"  # what the value is: file, directory, choice, text
    choices: tuple[str, ...] = ()
    variable: str = ""  # of the environment that sets it
    default: str = ""


@dataclasses.dataclass(frozen=True)
class Command:
    """A program, or a word of one that has options of its own."""

    name: str
    help: str
    synopsis: tuple[str, ...]  # behind the name, one per form
    options: tuple[Option, ...]
    commands: tuple[Command, ...] = ()
    files: bool = False  # its arguments are files or directories
    wraps: bool = False  # what follows `--` is another command
    epilogue: str = ""
    n_common: int = 0  # of the options, at their end: what every program has


def _option(given: str, value: str, help_: str, variable: str, default: str) -> Option:
    kind, choices = _KINDS.get(value, "text"), ()
    choice = _CHOICE.fullmatch(help_) if value else None
    if choice:
        kind, choices = "choice", tuple(re.split(", | or ", choice[1]))
    return Option((given,), value, help_, kind, choices, variable, default)


def of_program(path: pathlib.Path, *words: str) -> Command:
    """The command line of a C program, or of one of its words, with the words that its synopsis names."""
    listed = subprocess.run([path, *words, "--options"], check=True, capture_output=True, text=True)
    lines = [line.split("\t") for line in listed.stdout.splitlines()]

    def text(what: str) -> list[str]:
        return [fields[1] for fields in lines if fields[0] == what]

    synopsis = [line.removeprefix(f"{path.name} ") for line in text("synopsis")]
    options = tuple(_option(*fields[1:]) for fields in lines if fields[0] == "option")
    n_common = len(lines) - 1 - lines.index(["common"])
    below = ()
    if not words:
        first = (re.match(r"([a-z]+) ", form) for form in synopsis)
        below = tuple(of_program(path, found[1]) for found in first if found)
    name = words[-1] if words else path.name
    files = any(re.match("[A-Z]", form) for form in synopsis)
    wraps = any("-- command" in form for form in synopsis)
    description, epilogue = " ".join(text("description")), " ".join(text("epilogue"))
    return Command(
        name, description, tuple(synopsis), options, below, files, wraps, epilogue, n_common
    )


def _of_parameter(parameter: click.Parameter, context: click.Context) -> Option:
    import click

    type_, kind, choices = parameter.type, "text", ()
    if isinstance(type_, click.Choice):
        kind, choices = "choice", tuple(map(str, type_.choices))
    elif isinstance(type_, click.Path):
        kind = "file"
    record = parameter.get_help_record(context)  # ("-o, --output PATH", "The page ...")
    names = (*parameter.opts, *parameter.secondary_opts)
    flag = getattr(parameter, "is_flag", False)
    value = "" if flag else parameter.make_metavar(context)
    return Option(names, value, record[1] if record else "", kind, choices)


def of_click(command: click.Command, name: str, parent: click.Context | None = None) -> Command:
    """The command line of a click command and of all below it."""
    import click

    context = click.Context(command, info_name=name, parent=parent, **command.context_settings)
    options = tuple(
        _of_parameter(p, context)
        for p in command.get_params(context)
        if isinstance(p, click.Option) and not p.hidden
    )
    below = ()
    if isinstance(command, click.Group):
        below = tuple(
            of_click(command.get_command(context, word), word, context)
            for word in command.list_commands(context)
        )
    synopsis = " ".join(command.collect_usage_pieces(context))
    files = any(
        isinstance(p.type, click.Path) for p in command.params if isinstance(p, click.Argument)
    )
    return Command(name, command.help or "", (synopsis,), options, below, files)
