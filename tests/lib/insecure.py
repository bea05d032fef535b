"""Services without keys, for the folders of tests that start them by hand: their conftest.py takes the hook from here."""

import os


def pytest_configure(config):
    """Many tests start the services without keys."""
    os.environ["CREMA_INSECURE"] = "1"
