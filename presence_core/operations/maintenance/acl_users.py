"""The ACL users of docs/run/acl.md: health judges each by the rights that its own task needs."""

from __future__ import annotations

from typing import Final, NamedTuple

from presence_core.scripts import script

WRITES: Final = script.WRITES | {"evalsha", "xdel"}


class AclUser(NamedTuple):
    name: str  #: without "presence-"
    not_needed: frozenset[str]  #: commands that it does not run on the sessions of a shard


SITE: Final = AclUser(
    "site",
    frozenset(("persist", "rename", "setrange", "xdel", "xinfo", "xrange", "xrevrange", "xsetid", "xtrim", "zscan")),
)
WORKER: Final = AclUser("worker", frozenset(("persist", "xdel", "xsetid")))
SUPPORT: Final = AclUser(
    "support",
    frozenset(("hsetnx", "persist", "rename", "sadd", "setrange", "xdel", "xsetid", "xtrim", "zscan")),
)
VIEWER: Final = AclUser("viewer", WRITES - {"pexpire", "zrangestore"} | {"zscan"})

ACL_USERS: Final = (SITE, WORKER, SUPPORT, VIEWER)


def recognised(*, writes_places: bool, writes_worker: bool, writes_viewers: bool, heal: bool) -> list[AclUser]:
    """The users whose tasks a client can have: each has a key that none of the others may write. Support and viewer
    share theirs; a viewer's client does not heal."""
    users = [user for user, is_it in ((SITE, writes_places), (WORKER, writes_worker)) if is_it]
    if writes_viewers and heal:
        users.append(SUPPORT)
    elif writes_viewers or not (heal or users):
        users.append(VIEWER)
    return users
