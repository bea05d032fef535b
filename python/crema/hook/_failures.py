"""What a failed attempt raised, as the name of one of crema's own metrics: type and message of the exception behind coffea's."""

from __future__ import annotations

from ._secrets import cleaned

EXCEPTION = "crema.exception "
_CHARACTERS_MAX = 300
# Per process: with more, messages differ from chunk to chunk, and only the type is kept.
_TEXTS_MAX = 100
_LOOKED_AT_MAX = 4096  # characters of a message, which may be of any length
_CAUSES_MAX = 20


def text(error: BaseException, written: set[str]) -> str:
    """Name of the metric, which is added to those that were `written`."""
    message = _message(error)
    for _ in range(_CAUSES_MAX):
        # coffea's own says where, the one behind it says what
        if type(error) is not Exception or error.__cause__ is None or message[:6] != "Failed":
            break
        error = error.__cause__
        message = _message(error)
    kind = type(error).__name__
    message = " ".join(cleaned(message).split())  # before it is cut: half a secret looks like none
    found = EXCEPTION + (f"{kind}: {message}" if message else kind)[:_CHARACTERS_MAX]
    if found not in written and len(written) >= _TEXTS_MAX:
        return EXCEPTION + kind
    written.add(found)
    return found


def _message(error: BaseException) -> str:
    try:
        return str(error)[:_LOOKED_AT_MAX]
    except BaseException:  # of the user's class: the first exception is the one to record
        return ""
