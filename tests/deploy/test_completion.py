"""What the shells complete and man(1) shows of the programs: made of the programs, tried in a real bash."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import missing
from paths import ROOT
from service_kit import BIN, PROGRAMS

# What is offered for the line: the last word is the one that is being written.
ASK = """
source "$1"
cd "$2"
shift 2
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE}
function=$(complete -p "$1" | sed -E 's/.*-F ([^ ]+) .*/\\1/')
"$function"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> pathlib.Path:
    output = tmp_path_factory.mktemp("shell")
    command = [sys.executable, ROOT / "packaging/shell", output, "2026-01-01", "0.2.0"]
    subprocess.run([*command, *(BIN / name for name in PROGRAMS)], check=True)
    return output


@pytest.fixture
def offered(made, tmp_path):
    (tmp_path / "store").mkdir()
    (tmp_path / "run.h5").touch()

    def ask(*line: str) -> set[str]:
        command = ["bash", "--norc", "-u", "-c", ASK, "bash", made / "bash" / line[0], tmp_path]
        done = subprocess.run([*command, *line], capture_output=True, text=True)
        assert done.returncode == 0 and not done.stderr, done.stderr
        return set(done.stdout.split())

    return ask


def test_every_option_of_the_help_is_offered(offered):
    for name in PROGRAMS:
        said = subprocess.run([BIN / name, "--help"], capture_output=True, text=True).stdout
        assert offered(name, "-") == set(re.findall(r"^  (--[a-z-]+)", said, re.MULTILINE))


def test_words_values_files_and_directories(offered):
    assert offered("crema-sink", "re") == {"rebuild"}
    assert offered("crema-sink", "--log-format", "j") == {"json"}
    assert offered("crema-sink", "--log-format", "=", "t") == {"text"}
    assert offered("crema-sink", "--log-format", "=") == {"text", "json"}
    assert offered("crema-sink", "--store", "") == {"store"}
    assert offered("crema-sink", "--bind", "") == set()
    assert offered("crema-sink", "--store", "rebuild", "--ou") == {"--output"}
    assert offered("crema-sink", "rebuild", "--me") == {"--memory"}
    assert offered("crema-sink", "check", "r") == {"run.h5"}
    assert offered("crema-aggregator", "--key-role", "m") == {"monitor"}
    assert offered("crema-aggregator", "") == set()
    assert "bash" in offered("crema-agent", "--daemon", "--", "bas")
    assert offered("crema-agent", "--config", "ru") == {"run.h5"}


def test_the_command_of_the_package_too(offered):
    assert {"show", "report", "diff", "doctor", "keys", "what-if"} <= offered("crema", "")
    assert offered("crema", "keys", "") == {"add", "make", "revoke"}
    assert offered("crema", "keys", "add", "--role", "age") == {"agent"}
    assert offered("crema", "export", "--to", "p") == {"parquet"}
    assert offered("crema", "show", "--a") == {"--all"}
    assert offered("crema", "show", "") == {"run.h5", "store"}


def test_zsh_reads_them(made):
    zsh = shutil.which("zsh")
    if zsh is None:
        pytest.skip(missing.ZSH)
    for path in (made / "zsh").iterdir():
        subprocess.run([zsh, "-n", path], check=True)


def test_the_manual_page_has_every_command(made):
    page = subprocess.run(
        ["gzip", "-dc", made / "man1/crema.1.gz"], capture_output=True, text=True, check=True
    ).stdout.replace("\\-", "-")
    for word in ("check", "diff", "doctor", "keys add", "scaling", "top", "what-if"):
        assert f'.SS "crema {word} ' in page
    assert "--input-speed" in page


def test_the_manual_page_of_a_program_has_every_option_with_its_variable_and_default(made):
    page = subprocess.run(
        ["gzip", "-dc", made / "man1/crema-sink.1.gz"], capture_output=True, text=True, check=True
    ).stdout.replace("\\-", "-")
    assert "\n.br\n.B crema-sink\ncheck FILE...\n" in page
    option = "\n.TP\n\\fB--commit-interval\\fR \\fITIME\\fR\n"
    assert "[CREMA_SINK_COMMIT_INTERVAL, default 20ms]" in page.split(option)[1].split(".TP")[0]
    assert page.index('.SS "Common options"') < page.index("--log-level") < page.index("--version")
