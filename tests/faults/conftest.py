"""Programs that are killed, cut off, filled up and attacked."""

from insecure import pytest_configure  # noqa: F401
