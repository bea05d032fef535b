"""The manual pages of the Python command and of the programs, in man(7)."""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from collections.abc import Iterator

    from model import Command, Option

_ENVIRONMENT = {
    "CREMA_RUNS": "directory of run files, where a command names none",
    "CREMA_AGGREGATOR_KEYS": "key directory, where keys add and keys revoke name none",
}
_STATUS = "0: done. 1: something is wrong, and standard error says what. 2: bad command line."
_CONFIGURATION = (
    "A value comes from the command line, else the environment variable in brackets, else the same without the program's name "
    "(CREMA_LOG_LEVEL), which sets the option in every program, else the file that --config names, else the default. Sizes take "
    "k M G Ki Mi Gi, durations ms s m h."
)
_SEE = (
    "crema (1)",
    "crema-agent (1)",
    "crema-aggregator (1)",
    "crema-sink (1)",
    "crema-run-file (5)",
    "crema-protocol (7)",
)


def _text(text: str) -> str:
    """Words as man(7) wants them, a line per sentence or so."""
    escaped = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    lines, line = [], ""
    for word in escaped.split(" "):
        if line and len(line) + len(word) > 75:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    lines.append(line)
    return "\n".join(f"\\&{line}" if line[:1] in (".", "'") else line for line in lines)


def _paragraphs(text: str) -> str:
    return "\n.PP\n".join(_text(part) for part in text.replace("`", "").split("\n\n"))


def _option(option: Option) -> str:
    names = ", ".join(f"\\fB{_text(name)}\\fR" for name in option.names)
    value = f" \\fI{_text(option.value)}\\fR" if option.value else ""
    default = f", default {option.default}" if option.default else ""
    variable = f"\n{_text(f'[{option.variable}{default}]')}" if option.variable else ""
    return f".TP\n{names}{value}\n{_text(option.help or option.value)}{variable}"


def _sections(command: Command, words: str) -> Iterator[str]:
    for below in command.commands:
        name = f"{words} {below.name}"
        yield f'.SS "{_text(name)} {_text(below.synopsis[0])}"'
        yield _paragraphs(below.help)
        own = [option for option in below.options if "--help" not in option.names]
        yield from map(_option, own)
        yield from _sections(below, name)


def _head(command: Command, summary: str, date: str, version: str) -> str:
    return (
        f'.TH {command.name.upper()} 1 "{date}" "crema {version}" "crema"\n'
        f".SH NAME\n{_text(command.name)} \\-\n{_text(summary[0].lower() + summary[1:])}"
    )


def _see(command: Command) -> str:
    pages = (page for page in _SEE if page != f"{command.name} (1)")
    return ".SH SEE ALSO\n" + ",\n".join(f".BR {_text(page)}" for page in pages) + "\n"


def write_program(command: Command, date: str, version: str) -> str:
    """Make the page of a program."""
    own, common = command.options[: -command.n_common], command.options[-command.n_common :]
    forms = (f".B {_text(command.name)}\n{_text(form)}" for form in command.synopsis)
    return "\n".join(
        [
            _head(command, command.help.split(".")[0], date, version),
            ".SH SYNOPSIS\n" + "\n.br\n".join(forms),
            f".SH DESCRIPTION\n{_text(command.help)}",
            ".SH OPTIONS",
            *map(_option, own),
            '.SS "Common options"',
            *map(_option, common),
            f".SH ENVIRONMENT AND CONFIGURATION\n{_text(_CONFIGURATION)}",
            *([f".SH NOTES\n{_text(command.epilogue)}"] if command.epilogue else []),
            _see(command),
        ]
    )


def write(command: Command, date: str, version: str) -> str:
    """Make the page of the Python command."""
    return "\n".join(
        [
            _head(command, command.help.strip().rstrip("."), date, version),
            f".SH SYNOPSIS\n.B {command.name}\n{_text(command.synopsis[0])}",
            ".SH DESCRIPTION\nThe command of the Python package\n.IR coffea\\-crema ,\nwhich reads run files, alone and side by side.",
            f"Each command has\n.BR \\-\\-help .\n.SH OPTIONS\n{chr(10).join(map(_option, command.options))}",
            ".SH COMMANDS",
            *_sections(command, command.name),
            ".SH ENVIRONMENT",
            *(f".TP\n.B {name}\n{_text(meaning)}" for name, meaning in _ENVIRONMENT.items()),
            ".SH EXIT STATUS\n" + _text(_STATUS),
            _see(command),
        ]
    )
