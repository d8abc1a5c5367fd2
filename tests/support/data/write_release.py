"""``python -m tests.support.data.write_release``: the data of this version, in ``release-<version>.jsonl``.

The calls are those of tests/golden/namespace.py. The first line is the time (ms); then each line is one command that
makes a key as it was, in Latin-1, so that every byte is itself.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Final

from presence_core import Settings, __version__
from tests.golden.namespace import SETTINGS, play
from tests.support.data.write_schema_1 import commands
from tests.support.facade import Clock, P, sync_facade
from tests.support.servers import Server, missing, redis_binary

FOLDER: Final = Path(__file__).parent


def main() -> int:
    binary = redis_binary() or missing("redis-server")  # the oldest server, so that every server reads it
    with (
        tempfile.TemporaryDirectory() as directory,
        Server.start(binary, directory) as server,
        P.from_url(server.url, Settings(**SETTINGS)) as presence,
    ):
        p = sync_facade(presence, Clock(lambda: 0))
        play(p)
        written = commands(server.client())
        lines = [json.dumps({"now": p.clock.ms}), *(json.dumps([_text(word) for word in words]) for words in written)]
    (FOLDER / f"release-{__version__}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    return 0


def _text(word: bytes | str) -> str:
    return word.decode("latin-1") if isinstance(word, bytes) else word


if __name__ == "__main__":
    sys.exit(main())
