"""What a failed attempt raised, as the run file keeps it: whole enough to be known, without secrets, whatever the exception is."""

from __future__ import annotations

import pytest

from crema.hook._failures import text

SECRET = "SuperSecretPassword1234"


def behind(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "secret",
    [
        f"root://user:{SECRET}@host//f",
        f"https://{SECRET}@host/d/f.root",
        f"--token='abc {SECRET}'",
        f"Authorization: Bearer {SECRET}",
        f"https://host/f?authz={SECRET}",
    ],
)
@pytest.mark.parametrize("before", [0, 150, 260, 270, 280, 290])
def test_a_secret_is_not_kept_wherever_the_text_is_cut(secret, before):
    found = text(OSError("x" * before + " " + secret), set())
    assert "Super" not in found and found.startswith("crema.exception OSError: ")
    assert len(found) < 350


def test_coffeas_own_exception_gives_way_to_what_is_behind_it():
    error = behind(Exception("Failed processing file: WorkItem(...)"), ValueError("no jet"))
    assert text(error, set()) == "crema.exception ValueError: no jet"


@pytest.mark.parametrize("kind", [RuntimeError, Exception])
def test_an_exception_of_the_user_stays(kind):
    error = behind(kind("no calibration for 2025, have 2024"), KeyError("2025"))
    assert (
        text(error, set()) == f"crema.exception {kind.__name__}: no calibration for 2025, have 2024"
    )


@pytest.mark.parametrize("raised", [ValueError, SystemExit, KeyboardInterrupt])
def test_an_exception_that_cannot_be_shown_is_its_type(raised):
    class BadError(Exception):
        def __str__(self):
            raise raised

    assert text(BadError(), set()) == "crema.exception BadError"


def test_a_long_message_is_looked_at_as_far_as_it_is_kept():
    class LongError(Exception):
        def __str__(self):
            return "x y " * 5_000_000

    assert len(text(LongError(), set())) < 350


def test_messages_beyond_a_hundred_are_their_type():
    written: set[str] = set()
    found = [text(ValueError(str(i)), written) for i in range(200)]
    assert found[0] == "crema.exception ValueError: 0"
    assert found[-1] == "crema.exception ValueError" and len(written) == 100
