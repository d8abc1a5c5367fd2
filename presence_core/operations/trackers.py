"""The trackers: who was seen of late, without sessions. One list by last seen, or one SET for each bucket of time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import floor
from typing import Any, Final

from presence_core import settings as check
from presence_core.errors import InvalidArgument, Unavailable
from presence_core.keyspace import hashed
from presence_core.models import text
from presence_core.operations.online import newest_first, next_look, take
from presence_core.scripts import BUCKETS, FRIENDS, MARK, PRUNE, TOUCH, VISITS, Op, command, run

GO_ALONG: Final = 1_000
"""Stale members that one touch lets go of: a millisecond of the server's time, while a visitor waits."""

GO_AT_ONCE: Final = 5_000
"""The same of one script of a trim: 2 to 6 ms."""

LOOK: Final = 2_000
"""Members that one script reads: 3 to 4 ms."""

LONGEST_WINDOW: Final = 3_598
"""Of minute sets: their time to live exceeds the window and stays under an hour."""

GUESSES: Final = 4


@dataclass(frozen=True, slots=True)
class LastSeen:
    """One ZSET, member → Unix seconds."""

    key: str
    window: int  #: seconds
    reuse_for: int  #: seconds that a trimmed copy may be shared; 0: never
    keep_older: bool  #: members silent for longer than the window stay
    is_cluster: bool

    def __post_init__(self) -> None:
        check.uid(self.key, "key")
        check.seconds("window", self.window)
        check.whole("reuse_for", self.reuse_for, 0, 3600)
        if not isinstance(self.keep_older, bool):
            raise InvalidArgument("keep_older", "must be True or False")
        if self.is_cluster and "}" in hashed(self.key):
            raise InvalidArgument("key", "must hold braces only as a {tag} on a cluster")

    def within(self, given: object) -> int:
        return self.window if given is None else check.seconds("within", given)

    def friends(self, key: object) -> str:
        return _friends_key(key, self.key, "key", self.is_cluster)

    def copy(self, within: int, share: int, now: str) -> str:
        """The key of a trimmed copy, on the node of the list itself. Callers with clocks of their own share one only
        where those tell about the same time."""
        tagged = self.key if hashed(self.key) != self.key else f"{{{self.key}}}"
        moment = f":{floor(float(now) / share)}" if now and share else ""
        return f"{tagged}:copy:{within}:{share}{moment}"


def touch(it: LastSeen, member: object, now: object) -> Op[int]:
    who, at = check.uid(member, "member"), check.instant(now)

    def steps() -> Op[int]:
        [count] = yield [run(TOUCH, (it.key,), at, it.window, who, 0 if it.keep_older else GO_ALONG)]
        return int(count)

    return steps()


def count(it: LastSeen, within: object, now: object) -> Op[int]:
    span, at = it.within(within), check.instant(now)

    def steps() -> Op[int]:
        [number] = yield [run(VISITS, (it.key,), at, span, 0, "")]
        return int(number)

    return steps()


def members(it: LastSeen, within: object, now: object) -> Op[list[str]]:
    span, at = it.within(within), check.instant(now)

    def steps() -> Op[list[str]]:
        seen: dict[bytes, float] = {}
        begin, look = b"", LOOK
        while True:
            [(flat, behind)] = yield [run(VISITS, (it.key,), at, span, look, begin)]
            take(flat, seen)
            if not behind:
                return newest_first(seen)
            begin, look = behind, next_look(begin, behind, look, LOOK)

    return steps()


def forget(it: LastSeen, member: object) -> Op[bool]:
    who = check.uid(member, "member")

    def steps() -> Op[bool]:
        [gone] = yield [command(it.key, "ZREM", it.key, who)]
        return bool(gone)

    return steps()


def trim(it: LastSeen, now: object) -> Op[int]:
    at = check.instant(now)

    def steps() -> Op[int]:
        gone = 0
        while True:
            [part] = yield [run(PRUNE, (it.key,), at, it.window, GO_AT_ONCE)]
            gone += int(part)
            if part < GO_AT_ONCE:
                return gone

    return steps()


def online_friends(it: LastSeen, friends_key: object, within: object, now: object, reuse_for: object) -> Op[list[str]]:
    friends, span, at = it.friends(friends_key), it.within(within), check.instant(now)
    share = it.reuse_for if reuse_for is None else check.whole("reuse_for", reuse_for, 0, 3600)

    def steps() -> Op[list[str]]:
        [found] = yield [run(FRIENDS, (it.key, friends, it.copy(span, share, at)), at, span, share)]
        seen: dict[bytes, float] = {}
        take(found, seen)
        return newest_first(seen)

    return steps()


def _friends_key(key: object, beside: str, named: str, is_cluster: bool) -> str:
    friends = check.uid(key, "friends_key")
    if is_cluster and hashed(friends) != hashed(beside):
        raise InvalidArgument("friends_key", f"must carry the {{tag}} of {named} on a cluster, to lie on its node")
    return friends


# -- minute sets ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class MinuteSets:
    """One SET for each bucket of time, ``prefix:<number>``, counted since 1970."""

    prefix: str
    window: int  #: seconds
    bucket: int  #: seconds
    is_cluster: bool
    clock: Callable[[], float]  #: only a guess at what the clock of Redis says
    ahead: float = 0  #: how far that clock is ahead of ours, as far as we know

    def __post_init__(self) -> None:
        check.uid(self.prefix, "prefix")
        check.whole("window", self.window, 1, LONGEST_WINDOW)
        check.whole("bucket", self.bucket, 1, self.window)
        if self.window % self.bucket:
            raise InvalidArgument("bucket", "must divide window")
        if self.is_cluster and hashed(f"{self.prefix}:0") == f"{self.prefix}:0":
            raise InvalidArgument("prefix", "must hold a {tag} on a cluster, so that its sets lie on one node")

    @property
    def ttl(self) -> int:
        return min(self.window + self.bucket, LONGEST_WINDOW + 1)

    def buckets(self, within: object) -> int:
        """How many buckets, the present one among them."""
        if within is None:
            return self.window // self.bucket
        return -(-check.whole("within", within, 1, self.window) // self.bucket)

    def keys(self, first: int, count: int) -> list[str]:
        """The newest first."""
        return [f"{self.prefix}:{number}" for number in range(first, first - count, -1)]


def mark(it: MinuteSets, member: object, now: object) -> Op[None]:
    who, at = check.uid(member, "member"), check.instant(now)

    def steps() -> Op[None]:
        for _ in range(GUESSES):
            first = _newest(it, at)
            [number] = yield [run(MARK, it.keys(first, 2), at, it.bucket, first, it.ttl, who)]
            if first - number in (0, 1):
                return
            _learn(it, number)
        raise _too_slow(it)

    return steps()


def count_in_sets(it: MinuteSets, within: object, now: object) -> Op[int]:
    return _number(_read(it, "count", it.buckets(within), check.instant(now)))


def members_in_sets(it: MinuteSets, within: object, now: object) -> Op[list[str]]:
    return _names(_read(it, "members", it.buckets(within), check.instant(now)))


def friends_in_sets(it: MinuteSets, friends_key: object, within: object, now: object) -> Op[list[str]]:
    friends = _friends_key(friends_key, f"{it.prefix}:0", "prefix", it.is_cluster)
    return _names(_read(it, "friends", it.buckets(within), check.instant(now), friends))


def _read(it: MinuteSets, what: str, wanted: int, at: str, *friends: str) -> Op[Any]:
    for _ in range(GUESSES):
        first = _newest(it, at)
        keys = [*it.keys(first, wanted + 1), *friends]
        [reply] = yield [run(BUCKETS, keys, at, it.bucket, first, wanted, what)]
        if len(reply) > 1:
            return reply[1]
        _learn(it, reply[0])
    raise _too_slow(it)


def _newest(it: MinuteSets, at: str) -> int:
    """The newest bucket that may be the present one: a script's keys are named before it knows what time it is."""
    if at:
        return floor(float(at) / it.bucket)
    return floor((it.clock() + it.ahead + it.bucket / 2) / it.bucket)  # or the one before: half a bucket either way


def _learn(it: MinuteSets, number: int) -> None:
    it.ahead = (number + 0.5) * it.bucket - it.clock()


def _too_slow(it: MinuteSets) -> Unavailable:
    return Unavailable(f"Redis took longer than a bucket of {it.bucket} seconds to answer, again and again.")


def _number(steps: Op[Any]) -> Op[int]:
    number = yield from steps
    return int(number)


def _names(steps: Op[Any]) -> Op[list[str]]:
    """The newest bucket first, each in order."""
    buckets = yield from steps
    return [text(member) for fresh in buckets for member in sorted(fresh)]
