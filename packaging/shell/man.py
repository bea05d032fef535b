"""The manual page of the Python command, in man(7)."""

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
_SEE = (
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
    return f".TP\n{names}{value}\n{_text(option.help or option.value)}"


def _sections(command: Command, words: str) -> Iterator[str]:
    for below in command.commands:
        name = f"{words} {below.name}"
        yield f'.SS "{_text(name)} {_text(below.synopsis[0])}"'
        yield _paragraphs(below.help)
        own = [option for option in below.options if "--help" not in option.names]
        yield from map(_option, own)
        yield from _sections(below, name)


def write(command: Command, date: str, version: str) -> str:
    """Make the page."""
    summary = command.help.strip().rstrip(".")
    return "\n".join(
        [
            f'.TH {command.name.upper()} 1 "{date}" "crema {version}" "crema"',
            f".SH NAME\n{command.name} \\-\n{_text(summary[0].lower() + summary[1:])}",
            f".SH SYNOPSIS\n.B {command.name}\n{_text(command.synopsis[0])}",
            ".SH DESCRIPTION\nThe command of the Python package\n.IR coffea\\-crema ,\nwhich reads run files, alone and side by side.",
            f"Each command has\n.BR \\-\\-help .\n.SH OPTIONS\n{chr(10).join(map(_option, command.options))}",
            ".SH COMMANDS",
            *_sections(command, command.name),
            ".SH ENVIRONMENT",
            *(f".TP\n.B {name}\n{_text(meaning)}" for name, meaning in _ENVIRONMENT.items()),
            ".SH EXIT STATUS\n" + _text(_STATUS),
            ".SH SEE ALSO\n" + ",\n".join(f".BR {_text(page)}" for page in _SEE) + "\n",
        ]
    )
