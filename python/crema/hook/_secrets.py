"""Secrets in texts that a run file would keep: tokens, passwords and signatures in command lines, attributes, names and messages."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

REMOVED = "[removed]"

_WORD = r"(?:'[^']*'|\"[^\"]*\"|[^\s'\"&;,]+)"
_NAMES = r"(?:[\w-]*(?:password|passwd|token|secret|credential)[\w-]*|api[-_]?key|key|authz)"
_PATTERNS = (
    (re.compile(rf"(\bauthorization\s*[:=]\s*)(?:(?:bearer|basic)\s+)?{_WORD}", re.I), r"\1"),
    (re.compile(r"(\bbearer(?:\s+|%20))[^\s'\"&;,]+", re.I), r"\1"),
    (re.compile(rf"(--{_NAMES}(?:=|\s+)){_WORD}", re.I), r"\1"),
    (re.compile(rf"([?&]{_NAMES}=|\bx-amz-[\w-]+\s*[:=]\s*){_WORD}", re.I), r"\1"),
    (re.compile(r"(\b[a-z][\w+.-]*://)[^\s/?#@'\"]+(?=@)", re.I), r"\1"),
    (re.compile(r"(\b[a-z][\w+.-]*://[^\s?#'\"<>]+[?#])[^\s'\"<>]+", re.I), r"\1"),
)
_URL = re.compile(r"((?:[a-z][\w+.-]*::)*[a-z][\w+.-]*://)(?:[^/?#]*@)?([^?#]*)", re.I | re.S)
_OPTION = re.compile(rf"--{_NAMES}", re.I)


def cleaned(text: str) -> str:
    """The text without what follows `Bearer`, `Authorization`, `X-Amz-*`, `--token` and the like, stands before an `@`, or is a URL's query."""
    for pattern, kept in _PATTERNS:
        text = pattern.sub(kept + REMOVED, text)
    return text


def file_name(name: str, run_key: bytes) -> str:
    """A file's name without user info, query and fragment of a URL, and without what `cleaned` removes.

    What was cut is stood for by a hash with the run's key: names that differed differ still, in each process of the run alike.
    """
    url = _URL.match(name)
    kept = cleaned("".join(url.groups()) if url else name)
    if kept == name:
        return name
    raw = name.encode("utf-8", "surrogatepass")
    return f"{kept}~{hashlib.blake2b(raw, digest_size=8, key=run_key).hexdigest()}"


def cleaned_words(words: Iterable[str]) -> list[str]:
    """The same of a command line; a word after `--token` and the like is removed whole."""
    kept: list[str] = []
    is_secret = False
    for word in words:
        kept.append(REMOVED if is_secret else cleaned(word))
        is_secret = _OPTION.fullmatch(word) is not None
    return kept
