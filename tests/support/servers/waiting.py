"""Free ports, and waiting until something is true."""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import Callable

import redis

from presence_core import Unavailable
from tests.support.servers.binaries import HOST

# Each pytest worker has ports of its own, so that none takes what another is about to start a server on.
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))

_ports_given: set[int] = set()


def free_port() -> int:
    """A free loopback port, never the same twice in one run of the tests."""
    # Below the ephemeral range of Linux and macOS: there, an outgoing connection could take the port of a server that
    # is down for some time, and a client polling for it could even connect to itself.
    for _ in range(1000):
        port = random.SystemRandom().randrange(10_000 + _WORKER, 32_000, _WORKERS)
        if port in _ports_given:
            continue
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        _ports_given.update((port, port + 10_000))  # a node of a cluster takes both
        return port
    raise RuntimeError("no free loopback port")


def wait_for(what: str, check: Callable[[], object], timeout: float = 120.0) -> None:
    """Poll until `check` is true. A server that cannot answer yet counts as not true.

    `timeout` only ends what hangs: a program may take a minute to start on a busy machine.
    """
    began = time.monotonic()
    error: Exception | None = None
    while True:
        try:
            if check():
                return
            error = None
        except (redis.RedisError, OSError, Unavailable) as failure:
            error = failure
        waited = time.monotonic() - began
        if waited > timeout:
            raise TimeoutError(f"waited {timeout:g} s for: {what}") from error
        time.sleep(min(0.005 + waited / 20, 0.05))  # a check may cost as much as what it waits for
