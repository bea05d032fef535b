"""Completion for bash."""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from collections.abc import Iterator

    from model import Command, Option

# ``path`` are the words of commands so far, ``previous`` what the value belongs to.
_FORM = """\
# bash completion of {name}; made of its own table of options.
{function}() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}}
    local path= value= kind= words= options= word i
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${{COMP_WORDS[i]}}
        [[ $value && $word == = ]] && continue
        [[ $value ]] && value= && continue
{wraps}        case "$path $word" in
{values}
        esac
        case "$path $word" in
{commands}
        esac
    done
    [[ $current == = ]] && current= && value=$previous
    [[ $previous == = ]] && value=${{COMP_WORDS[COMP_CWORD - 2]}}
    COMPREPLY=()
    if [[ $value ]]; then
        case "$path $value" in
{kinds}
        esac
    else
        case $path in
{offers}
        esac
        [[ $current == -* ]] && words=$options
    fi
    if [[ $words || $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    elif [[ $kind ]]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -A "$kind" -- "$current")
    fi
}}
complete -F {function} {name}
"""

_WRAPS = """\
        if [[ $word == -- ]]; then
            mapfile -t COMPREPLY < <(compgen -c -- "$current")
            return
        fi
"""


def _walk(command: Command, path: str = "") -> Iterator[tuple[str, Command]]:
    yield path, command
    for below in command.commands:
        yield from _walk(below, f"{path} {below.name}")


def _pattern(path: str, option: Option) -> str:
    return "|".join(f'"{path} {name}"' for name in option.names)


def write(command: Command) -> str:
    """Make the file that bash sources."""
    values, commands, kinds, offers = [], [], [], []
    for path, at in _walk(command):
        taking = [option for option in at.options if option.value]
        if taking:
            values.append(f"{'|'.join(_pattern(path, o) for o in taking)}) value=$word ;;")
        for option in taking:
            if option.kind == "choice":
                kinds.append(f'{_pattern(path, option)}) words="{" ".join(option.choices)}" ;;')
            elif option.kind != "text":
                kinds.append(f"{_pattern(path, option)}) kind={option.kind} ;;")
        commands += [f'"{path} {b.name}") path="{path} {b.name}" ;;' for b in at.commands]
        names = " ".join(name for option in at.options for name in option.names)
        words = " ".join(below.name for below in at.commands)
        files = " kind=file" if at.files else ""
        offers.append(f'"{path}") options="{names}" words="{words}"{files} ;;')

    def lines(of: list[str]) -> str:
        return "\n".join(f"            {line}" for line in of)

    return _FORM.format(
        name=command.name,
        function="_" + command.name.replace("-", "_"),
        wraps=_WRAPS if command.wraps else "",
        values=lines(values),
        commands=lines(commands),
        kinds=lines(kinds),
        offers=lines(offers),
    )
