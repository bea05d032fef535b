"""Completion for zsh."""

from __future__ import annotations

import re
import typing

if typing.TYPE_CHECKING:
    from collections.abc import Iterator

    from model import Command, Option

_ACTIONS = {"file": "_files", "directory": "_files -/", "text": " "}


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _plain(text: str) -> str:
    """Text within a specification of _arguments: its own signs escaped."""
    return re.sub(r"([\[\]:\\])", r"\\\1", " ".join(text.split()))


def _specification(option: Option) -> Iterator[str]:
    for name in option.names:
        action = f"({' '.join(option.choices)})" if option.choices else _ACTIONS[option.kind]
        equals = "=" if option.value and name.startswith("--") else ""
        value = f":{_plain(option.value)}:{action}" if option.value else ""
        yield _quoted(f"{name}{equals}[{_plain(option.help)}]{value}")


def _functions(command: Command, function: str) -> Iterator[str]:
    """The function of a command, after those of the commands below it."""
    for below in command.commands:
        yield from _functions(below, f"{function}_{below.name.replace('-', '_')}")
    arguments = [spec for option in command.options for spec in _specification(option)]
    if command.wraps:
        arguments += ["'(-)*:: :_normal'"]
    elif command.files and not command.commands:
        arguments += ["'*: :_files'"]
    listed = " \\\n        ".join(arguments)
    if not command.commands:
        yield f"{function}() {{\n    _arguments -S \\\n        {listed}\n}}\n"
        return
    words = "\n".join(
        f"        {_quoted(below.name + ':' + _plain(_first(below)))}" for below in command.commands
    )
    cases = "\n".join(
        f"        {b.name}) {function}_{b.name.replace('-', '_')} ;;" for b in command.commands
    )
    yield f"""\
{function}() {{
    local curcontext="$curcontext" state state_descr line
    typeset -A opt_args
    local -a words_
    words_=(
{words}
    )
    _arguments -C -S \\
        {listed} \\
        '1: :->word' '*:: :->rest'
    case $state in
        word) _describe -t commands command words_ ;;
        rest) curcontext="${{curcontext%:*}}-$line[1]:"
            case $line[1] in
{cases}
            esac ;;
    esac
}}
"""


def _first(command: Command) -> str:
    return re.split(r"(?<=[.:]) |\n", command.help.strip())[0] or command.synopsis[0]


def write(command: Command) -> str:
    """Make the file that zsh loads."""
    function = "_" + command.name
    body = "\n".join(_functions(command, function))
    return (
        f'#compdef {command.name}\n# Made of its own table of options.\n\n{body}\n{function} "$@"\n'
    )
