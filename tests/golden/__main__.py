"""``python -m tests.golden``: write the files again, and what two pages of docs repeat."""

from __future__ import annotations

import sys
import tempfile

from presence_core import Settings
from tests.golden import FILES, TEXTS, acl_users, public_names
from tests.golden.namespace import SETTINGS, lines
from tests.support.facade import Clock, P, sync_facade
from tests.support.servers import Server, redis_binary, valkey_binary


def main() -> int:
    """Write them all; the one that needs a server, if there is one."""
    for page in (acl_users, public_names):
        page.PAGE.write_text(page.written(), "utf-8")
    for name, make in TEXTS.items():
        (FILES / name).write_text("\n".join(make()) + "\n", "utf-8")
    binary = valkey_binary() or redis_binary()
    if binary is None:
        print("namespace.txt is left as it is: no Redis server is installed.", file=sys.stderr)
        return 1
    with (
        tempfile.TemporaryDirectory() as directory,
        Server.start(binary, directory) as server,
        P.from_url(server.url, Settings(**SETTINGS)) as presence,
    ):
        left = lines(sync_facade(presence, Clock(lambda: 0)), server.client())
        (FILES / "namespace.txt").write_text("\n".join(left) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
