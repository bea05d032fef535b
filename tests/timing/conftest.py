"""Tests that measure seconds."""

from insecure import pytest_configure  # noqa: F401
