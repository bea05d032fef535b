"""Real programs, real Dask, coffea and ROOT files, end to end."""

from insecure import pytest_configure  # noqa: F401
