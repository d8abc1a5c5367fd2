"""The Lua scripts, one for each state transition or kind of read, and the calls that carry them.

A script names what it needs of ``lua/include`` by ``-- include: name`` lines; the text that Redis sees is put together
here once, when the module is imported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from hashlib import sha1
from importlib.resources import files
from typing import Any, Final, TypeVar

from presence_core.filters import CUT, fold_table

T = TypeVar("T")

_LUA = files("presence_core") / "lua"
_INCLUDE = re.compile(r"^-- include: (\w+)\n", re.MULTILINE)


class Script:
    """A Lua script as Redis sees it. ``safe`` ones may be sent again when a reply was lost."""

    __slots__ = ("command", "name", "safe", "sha", "text")

    def __init__(self, name: str, *, safe: bool) -> None:
        def paste(match: re.Match[str]) -> str:
            text = (_LUA / "include" / f"{match[1]}.lua").read_text("utf-8")
            return text.replace("FOLD_TABLE", fold_table()) if "FOLD_TABLE" in text else text

        self.name = name
        self.text = _INCLUDE.sub(paste, (_LUA / f"{name}.lua").read_text("utf-8")).replace("INDEX_CUT", str(CUT + 2))
        self.sha = sha1(self.text.encode(), usedforsecurity=False).hexdigest()
        self.safe = safe
        self.command = "EVALSHA_RO" if "flags=no-writes" in self.text.partition("\n")[0] else "EVALSHA"

    def __repr__(self) -> str:
        return f"<Script {self.name}>"


Wire = Sequence[str | bytes | int]


@dataclass(slots=True)
class Call:
    """One command to one shard: a script with its keys, or a plain command. ``key`` decides the node."""

    key: str
    wire: Wire | Callable[[], Wire]  #: the command as it is sent; what builds it, where many travel together
    safe: bool  #: may be sent again when its reply was lost
    script: Script | None = None
    lenient: bool = False  #: a key of a foreign type answers None

    @property
    def words(self) -> Wire:
        """The command, built now if it has to be."""
        return self.wire() if callable(self.wire) else self.wire


Op = Generator[list[Call], list[Any], T]
"""An operation: yields batches of calls, receives their replies, returns its answer. Knows no driver."""


def run(script: Script, keys: Sequence[Any], *args: str | bytes | int) -> Call:
    """Call a script."""
    return Call(keys[0], (script.command, script.sha, len(keys), *keys, *args), script.safe, script)


def later(key: str, script: Script, build: Callable[[], Call]) -> Call:
    """A call that is built while the server is at work on those before it."""
    return Call(key, lambda: build().words, script.safe, script)


def command(key: str, *wire: str | bytes | int, lenient: bool = False) -> Call:
    """Call a plain command. ``key`` decides the node: the key itself, or its hash tag."""
    return Call(key, wire, True, lenient=lenient)


LOGIN: Final = Script("login", safe=False)
VALIDATE: Final = Script("validate", safe=True)
ROTATE: Final = Script("rotate", safe=False)
HEARTBEAT: Final = Script("heartbeat", safe=True)
FINISH: Final = Script("finish", safe=False)
TIDY: Final = Script("tidy", safe=True)
FORGET: Final = Script("forget", safe=True)
READ: Final = Script("read", safe=True)
PAGE: Final = Script("page", safe=True)
WALK: Final = Script("walk", safe=True)
GATHER: Final = Script("gather", safe=True)
PLAN: Final = Script("plan", safe=True)
COUNT: Final = Script("count", safe=True)
DUE: Final = Script("due", safe=True)
STALE: Final = Script("stale", safe=True)
INDEX: Final = Script("index", safe=True)
UNINDEX: Final = Script("unindex", safe=True)
UNADDRESS: Final = Script("unaddress", safe=True)
RECOUNT: Final = Script("recount", safe=True)
DRIFT: Final = Script("drift", safe=True)
REVOKE: Final = Script("revoke", safe=True)
EVENTS: Final = Script("events", safe=True)
BLOCK: Final = Script("block", safe=False)
UNBLOCK: Final = Script("unblock", safe=False)
BLOCKED: Final = Script("blocked", safe=True)
RELEASE: Final = Script("release", safe=True)
NEWEST: Final = Script("newest", safe=True)
AUDIT: Final = Script("audit", safe=True)
TRIM: Final = Script("trim", safe=True)
DENIED: Final = Script("denied", safe=False)
SAMPLE: Final = Script("sample", safe=True)
GAUGE: Final = Script("gauge", safe=True)
LEAD: Final = Script("lead", safe=True)
STATUS: Final = Script("status", safe=True)
BULK: Final = Script("bulk", safe=False)
TURN: Final = Script("turn", safe=True)
STEER: Final = Script("steer", safe=False)
CLOSE: Final = Script("close", safe=True)
FENCE: Final = Script("fence", safe=True)
AMONG: Final = Script("among", safe=True)
ONLINE: Final = Script("online", safe=True)
ACTIVE: Final = Script("active", safe=True)
TOUCH: Final = Script("touch", safe=True)
PRUNE: Final = Script("prune", safe=True)
VISITS: Final = Script("visits", safe=True)
FRIENDS: Final = Script("friends", safe=True)
MARK: Final = Script("mark", safe=True)
BUCKETS: Final = Script("buckets", safe=True)

EVERY: Final = (
    LOGIN, VALIDATE, ROTATE, HEARTBEAT, FINISH, REVOKE, TIDY, FORGET, READ, PAGE, WALK, GATHER, PLAN, COUNT, DUE, STALE,
    EVENTS, INDEX, UNINDEX, UNADDRESS, RECOUNT, DRIFT,
    BLOCK, UNBLOCK, BLOCKED, RELEASE, NEWEST, AUDIT, TRIM, DENIED,
    SAMPLE, GAUGE, LEAD, STATUS,
    BULK, TURN, STEER, CLOSE, FENCE,
    AMONG, ONLINE, ACTIVE,
    TOUCH, PRUNE, VISITS, FRIENDS, MARK, BUCKETS,
)  # fmt: skip
