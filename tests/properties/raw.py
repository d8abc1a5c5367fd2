"""The server of a case, and every key of it, read at one time."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from presence_core import AsyncPresence, Settings
from presence_core.keyspace import split_ref
from tests.properties.drawing import Case
from tests.support.facade import Clock, EventLoop, P, async_facade, sync_facade
from tests.support.servers import Server

_LOOK: Final = """
local reads = {hash = {'HGETALL'}, set = {'SMEMBERS'}, zset = {'ZRANGE', 0, -1, 'WITHSCORES'}, string = {'GET'},
               stream = {'XLEN'}}
local out = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local read = reads[redis.call('TYPE', key).ok]
  out[#out + 1] = {key, redis.call('PEXPIRETIME', key), redis.call(read[1], key, unpack(read, 2)), read[1]}
end
return out
"""

_PACKED: Final = ("words", "ids", "addresses", "facets", "recount", "labels", "known")  # their names are not text


@dataclass
class Raw:
    """Every key of the server, read at one time."""

    values: dict[str, Any]
    expires: dict[str, int]  #: ms by the server's clock, -1 for no TTL
    at: float = field(default_factory=time.time)

    @classmethod
    def look(cls, script: Any) -> Raw:
        values, expires = {}, {}
        for raw, when, value, read in script():
            key = raw.decode()
            if read in (b"HGETALL", b"ZRANGE"):
                names = value[::2] if _family(key) in _PACKED else [name.decode() for name in value[::2]]
                value = dict(zip(names, value[1::2] if read == b"HGETALL" else map(int, value[1::2]), strict=True))
            elif read == b"SMEMBERS":
                value = {name.decode() for name in value}
            values[key], expires[key] = value, when
        return cls(values, expires)

    def hash(self, key: str) -> dict[str, str]:
        return {name: value.decode() for name, value in self.values.get(key, {}).items()}

    def counters(self, key: str) -> Counter[bytes]:
        """Values of counters; "-" is not a counter: it makes the hash a hash table from the start."""
        return Counter({name: int(number) for name, number in self.values.get(key, {}).items() if name != b"-"})

    def of(self, uid: str) -> dict[str, Any]:
        """The keys of one user only: values and TTLs."""
        return {key: (value, self.expires[key]) for key, value in self.values.items() if owner(key) == uid}


def _family(key: str) -> str:
    return key.partition("}:")[2].partition(":")[0]


def owner(key: str) -> str | None:
    """The user of a key; None for shared keys."""
    family, name = _family(key), key.partition("}:")[2].partition(":")[2]
    if family == "session":
        return split_ref(name)[0]
    return name if name and family in ("user", "devices", "known", "person", "ended", "block") else None


class Bench:
    """The server of a case, and the data that its machines share."""

    def __init__(self, server: Server, case: Case, loop: EventLoop) -> None:
        self.server = server
        self.case = case
        self.loop = loop
        self.raw = server.client()
        self.look = self.raw.register_script(_LOOK)

    def connect(self, settings: Settings, clock: Clock) -> P:
        if self.case.mode == "sync":
            presence = P.from_url(self.server.url, settings)
            assert isinstance(presence, P)
            return sync_facade(presence, clock)
        twin = self.loop.call(lambda: AsyncPresence.from_url(self.server.url, settings))
        return async_facade(twin, self.loop, clock)
