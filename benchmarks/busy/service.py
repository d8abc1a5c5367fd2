"""Programs that the loads run next to themselves: ``presence serve`` and other sites."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from presence_core import Presence
from presence_core.web.service.api_keys import make_key

ROOT: Final = Path(__file__).parents[2]


@contextmanager
def program(words: Sequence[str], environ: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program in the checkout, and end it."""
    env = os.environ | (environ or {})
    with subprocess.Popen(words, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
        try:
            yield running
        finally:
            running.terminate()
            try:
                running.wait(15)
            except subprocess.TimeoutExpired:
                running.kill()


def address_of(running: subprocess.Popen[bytes]) -> str:
    """The address in the line of JSON that a program prints once it listens."""
    assert running.stdout
    line = running.stdout.readline()
    if not line:
        raise RuntimeError(f"it ended at once: {running.args!r}")
    return str(json.loads(line)["url"])


@contextmanager
def service(url: str) -> Iterator[tuple[str, str, int]]:
    """Run ``presence serve``: its address, an API key for everything, and its pid."""
    with Presence.from_url(url) as presence:
        _, key = make_key(presence, f"bench-{secrets.token_hex(4)}", ["record", "read", "kick"])
    words = [sys.executable, "-m", "presence_core.cli", "serve", "--port", "0", "--json"]
    with program(words, {"PRESENCE_REDIS_URL": url}) as running:
        yield address_of(running), key, running.pid
