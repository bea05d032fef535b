"""The results of `crema.doctor`: one line each, with its remedy."""

from __future__ import annotations

import dataclasses

from rich.text import Text

OK, WARNING, PROBLEM = "ok", "warning", "problem"
_STYLES = {OK: "green", WARNING: "bold yellow", PROBLEM: "bold red"}


@dataclasses.dataclass(frozen=True)
class Finding:
    """The result of one check.

    Parameters
    ----------
    status : str
        ``"ok"``, ``"warning"``: runs are recorded, but something is worth knowing or doing, or ``"problem"``.
    topic : str
        ``system``, ``program``, ``package``, ``room``, ``spool``, ``undelivered``, ``keys``, ``run file``, ``aggregator``, ``cluster`` or ``reach``.
    what : str
        What was found.
    where : str
        File, directory, address or process that it is about.
    remedy : str
        What to do; empty if nothing is to be done.
    """

    status: str
    topic: str
    what: str
    where: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        where = f" [{self.where}]" if self.where else ""
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{self.status:<7}  {self.topic}: {self.what}{where}{remedy}"

    def __rich__(self) -> Text:
        text = Text(str(self))
        text.stylize(_STYLES[self.status], 0, len(self.status))
        return text


class Findings(list[Finding]):
    """All findings in the order of the checks; prints one line each."""

    @property
    def problems(self) -> list[Finding]:
        """Findings that prevent recording or delivery, or that expose a secret."""
        return [finding for finding in self if finding.status == PROBLEM]

    def __repr__(self) -> str:
        return "\n".join(map(str, self))


def bytes_text(count: float) -> str:
    """An amount of bytes for people."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if count < 1024 or unit == "TiB":
            break
        count /= 1024
    return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"


def ok(topic: str, what: str, where: object = "", remedy: str = "") -> Finding:
    """A check that passed."""
    return Finding(OK, topic, what, str(where), remedy)


def warning(topic: str, what: str, where: object, remedy: str) -> Finding:
    """A finding that does not prevent recording."""
    return Finding(WARNING, topic, what, str(where), remedy)


def problem(topic: str, what: str, where: object, remedy: str) -> Finding:
    """A finding that must be fixed."""
    return Finding(PROBLEM, topic, what, str(where), remedy)
