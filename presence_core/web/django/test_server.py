"""The server of a test run: the site's own tests must not touch the sessions of its users."""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import sys
import tempfile
from functools import cached_property
from typing import Final

from presence_core.embedded import EmbeddedServer

_numbers: Final = itertools.count(1)


def is_test_run() -> bool:
    """Whether Django's test environment is set up: by ``manage.py test`` or pytest-django."""
    module = sys.modules.get("django.test.utils")
    return module is not None and hasattr(module._TestState, "saved_data")


class TestServer:
    """The embedded server with data of this process alone, or a server of your choice; and a new namespace."""

    __test__ = False  # pytest does not collect it

    def __init__(self, url: str | None = None) -> None:
        self._given = url
        self.renew()

    def renew(self) -> None:
        """Take another namespace, which is empty."""
        self.namespace = f"test-{os.getpid()}-{next(_numbers)}"

    @cached_property
    def url(self) -> str:
        """Its URL. The embedded server starts at the first use, and stops with this process."""
        if self._given:
            return self._given
        directory = tempfile.mkdtemp(prefix="presence-test-")
        server = EmbeddedServer.start(directory)
        atexit.register(_remove, server, directory, os.getpid())
        return server.url


def _remove(server: EmbeddedServer, directory: str, owner: int) -> None:
    if os.getpid() == owner:  # not in a forked child
        server.close()
        shutil.rmtree(directory, ignore_errors=True)
