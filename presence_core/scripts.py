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
from presence_core.keyspace import fence_of

T = TypeVar("T")

_LUA = files("presence_core") / "lua"
_INCLUDE = re.compile(r"^-- include: (\w+)\n", re.MULTILINE)


_FENCE: Final = """local FENCE = table.remove(KEYS)
local FROZEN = redis.call('HGET', FENCE, 'state')
if FROZEN == 'copying' then %s end
if %s then return redis.error_reply('LAYOUT ' .. FROZEN) end
"""
_NOTED: Final = """
  local said, change = {}, redis.call('HINCRBY', FENCE, 'changes', 1)
  for _, key in ipairs(KEYS) do
    if string.find(key, '^{[^}]*}:%l+:') then
      said[#said + 1] = key
      said[#said + 1] = change
    end
  end
  for i = 1, #said, 1000 do redis.call('HSET', FENCE, unpack(said, i, math.min(i + 999, #said))) end
  FROZEN = nil
"""
"""The head of every script on a shard, whose last key is the shard's fence (operations/migrate.py). While a shard is
copied, what writes notes its keys there, each with the number of this change: the mover copies them again. For the last
moment the shard is frozen: reads go on, and what writes is refused before it has written anything; once it has moved,
both are."""


class Script:
    """A Lua script as Redis sees it. ``safe`` ones may be sent again when a reply was lost; ``reads``: it goes on while
    its shard is frozen, and then changes nothing; ``fenced``: it is one on a shard; ``alone``: not while that is
    copied, for the copy would keep what this takes away."""

    __slots__ = ("command", "fenced", "name", "safe", "sha", "text")

    def __init__(self, name: str, *, safe: bool, reads: bool = False, fenced: bool = True, alone: bool = False) -> None:
        def paste(match: re.Match[str]) -> str:
            text = (_LUA / "include" / f"{match[1]}.lua").read_text("utf-8")
            return text.replace("FOLD_TABLE", fold_table()) if "FOLD_TABLE" in text else text

        self.name = name
        self.text = _INCLUDE.sub(paste, (_LUA / f"{name}.lua").read_text("utf-8")).replace("INDEX_CUT", str(CUT + 2))
        head, _, body = self.text.partition("\n")
        looks = "flags=no-writes" in head
        if fenced:
            noted = "FROZEN = 'frozen'" if alone else "FROZEN = nil" if looks else _NOTED
            turned_away = "FROZEN and FROZEN ~= 'frozen'" if reads or looks else "FROZEN"
            self.text = f"{head}\n{_FENCE % (noted, turned_away)}{body}"
        self.fenced = fenced
        self.sha = sha1(self.text.encode(), usedforsecurity=False).hexdigest()
        self.safe = safe
        self.command = "EVALSHA_RO" if looks else "EVALSHA"

    def __repr__(self) -> str:
        return f"<Script {self.name}>"


Wire = Sequence[str | bytes | int]


_TEXT: Final = frozenset((str, bytes))
_NUMBERS: Final = (int, float)


def as_text(words: Wire) -> tuple[str | bytes, ...]:
    """The command as it is sent: numbers are text there, and from here on."""
    if _TEXT.issuperset(map(type, words)):
        return tuple(words)  # type: ignore[arg-type]  # as was just seen
    sent: list[Any] = [word if type(word) in _TEXT or not isinstance(word, _NUMBERS) else str(word) for word in words]
    return tuple(sent)


@dataclass(slots=True)
class Call:
    """One command to one shard: a script with its keys, or a plain command. ``key`` decides the node."""

    key: str
    wire: Wire | Callable[[], Wire]  #: the command as it is sent; what builds it, where many travel together
    safe: bool  #: may be sent again when its reply was lost
    script: Script | None = None
    lenient: bool = False  #: a key of a foreign type answers None
    at: str = ""  #: ask this node of a cluster, by its address, and not the one that serves the key
    waits: bool = False  #: WAIT, or INFO for it: 0 where it fails, or what stood before it went elsewhere

    @property
    def words(self) -> Wire:
        """The command, built now if it has to be."""
        return self.wire() if callable(self.wire) else self.wire


Op = Generator[list[Call], list[Any], T]
"""An operation: yields batches of calls, receives their replies, returns its answer. Knows no driver."""


def run(script: Script, keys: Sequence[Any], *args: str | bytes | int) -> Call:
    """Call a script."""
    if script.fenced:
        keys = (*keys, fence_of(keys[0]))
    return Call(keys[0], (script.command, script.sha, str(len(keys)), *keys, *args), script.safe, script)


def later(key: str, script: Script, build: Callable[[], Call]) -> Call:
    """A call that is built while the server is at work on those before it."""
    return Call(key, lambda: build().words, script.safe, script)


def command(key: str, *wire: str | bytes | int, lenient: bool = False) -> Call:
    """Call a plain command. ``key`` decides the node: the key itself, or its hash tag."""
    return Call(key, wire, True, lenient=lenient)


def ask(node: str, *wire: str) -> Call:
    """Ask one node, by the address that the transport gave, a command that names no key."""
    return Call("", wire, True, at=node)


def wait(key: str, replicas: int, ms: int) -> Call:
    """How many replicas have what was written to this shard before, on this connection: at the end of a batch."""
    return Call(key, ("WAIT", replicas, ms), True, waits=True)


def tell(key: str) -> Call:
    """INFO of the server that answers this batch; ``confirming.identity_of`` reads it. Before every WAIT."""
    return Call(key, ("INFO", "server", "replication"), True, waits=True)


LOGIN: Final = Script("login", safe=False)
VALIDATE: Final = Script("validate", safe=True, reads=True)
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
EXAMINE: Final = Script("examine", safe=True, fenced=False)
REVOKE: Final = Script("revoke", safe=True)
LATEST: Final = Script("latest", safe=True)
FLOOR: Final = Script("floor", safe=True)
EVENTS: Final = Script("events", safe=True)
BLOCK: Final = Script("block", safe=False)
UNBLOCK: Final = Script("unblock", safe=False)
BLOCKED: Final = Script("blocked", safe=True)
RELEASE: Final = Script("release", safe=True)
NEWEST: Final = Script("newest", safe=True)
AUDIT: Final = Script("audit", safe=True)
TRIM: Final = Script("trim", safe=True)
DENIED: Final = Script("denied", safe=False, fenced=False)
NOTE: Final = Script("note", safe=False)
STAFF: Final = Script("staff", safe=False)
SAMPLE: Final = Script("sample", safe=True, fenced=False)
GAUGE: Final = Script("gauge", safe=True)
LEAD: Final = Script("lead", safe=True, fenced=False)
VOUCH: Final = Script("vouch", safe=True)
STATUS: Final = Script("status", safe=True, fenced=False)
BULK: Final = Script("bulk", safe=False)
TURN: Final = Script("turn", safe=True)
STEER: Final = Script("steer", safe=False)
CLOSE: Final = Script("close", safe=True)
FENCE: Final = Script("fence", safe=True)
AMONG: Final = Script("among", safe=True)
ONLINE: Final = Script("online", safe=True)
ACTIVE: Final = Script("active", safe=True)
TOUCH: Final = Script("touch", safe=True, fenced=False)
PRUNE: Final = Script("prune", safe=True, fenced=False)
VISITS: Final = Script("visits", safe=True, fenced=False)
FRIENDS: Final = Script("friends", safe=True, fenced=False)
MARK: Final = Script("mark", safe=True, fenced=False)
BUCKETS: Final = Script("buckets", safe=True, fenced=False)
FREEZE: Final = Script("freeze", safe=True, fenced=False)
PUT: Final = Script("put", safe=True, fenced=False)
CLEAR: Final = Script("clear", safe=True, fenced=False)
SETTLE: Final = Script("settle", safe=True, fenced=False)
FLIP: Final = Script("flip", safe=True, fenced=False)
STEP: Final = Script("step", safe=True, fenced=False)
ERASE: Final = Script("erase", safe=True, alone=True)
RETELL: Final = Script("retell", safe=False, alone=True)
REWORD: Final = Script("reword", safe=True, alone=True)
TRUNCATE: Final = Script("truncate", safe=True)

EVERY: Final = (
    LOGIN, VALIDATE, ROTATE, HEARTBEAT, FINISH, TIDY, FORGET, READ, PAGE, WALK, GATHER, PLAN, COUNT, DUE, STALE,
    REVOKE, LATEST, FLOOR, EVENTS, INDEX, UNINDEX, UNADDRESS, RECOUNT, DRIFT, EXAMINE,
    BLOCK, UNBLOCK, BLOCKED, RELEASE, NEWEST, AUDIT, TRIM, DENIED, NOTE, STAFF,
    SAMPLE, GAUGE, LEAD, VOUCH, STATUS,
    BULK, TURN, STEER, CLOSE, FENCE,
    FREEZE, PUT, CLEAR, SETTLE, FLIP, STEP,
    AMONG, ONLINE, ACTIVE,
    ERASE, RETELL, REWORD, TRUNCATE,
    TOUCH, PRUNE, VISITS, FRIENDS, MARK, BUCKETS,
)  # fmt: skip
