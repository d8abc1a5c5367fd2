"""The trackers: who was seen recently, without sessions. One list by last seen, or one SET for each bucket of time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import floor
from typing import Any, Final

from presence_core import validation as check
from presence_core.errors import InvalidArgument, Unavailable
from presence_core.keyspace import hashed
from presence_core.models import text
from presence_core.operations.search.live_counts import START
from presence_core.operations.search.online_users import newest_first
from presence_core.scripts import trackers as scripts
from presence_core.scripts.calls import CHECKED, Op, call_of, checked_first, command
from presence_core.scripts.search import decode_last_seen

TRIMMED_BY_TOUCH: Final = 1_000
"""Stale members that one touch removes: a millisecond of the server's time, while a visitor waits."""

TRIMMED_AT_ONCE: Final = 5_000
"""The same of one script of a trim: 2 to 6 ms."""

MAX_READ: Final = 2_000
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
            raise InvalidArgument("keep_older", "must be True or False", "wrong_type")
        if self.is_cluster and "}" in hashed(self.key):
            raise InvalidArgument("key", "must hold braces only as a {tag} on a cluster")

    def within(self, given: object) -> int:
        return self.window if given is None else check.seconds("within", given)

    def friends(self, key: object) -> str:
        return _friends_key(key, self.key, "key", self.is_cluster)

    def copy(self, within: int, share: int, now: str) -> str:
        """The key of a trimmed copy, on the node of the list. Callers who give their own time share one only where the
        times are about the same."""
        tagged = self.key if hashed(self.key) != self.key else f"{{{self.key}}}"
        moment = f":{floor(float(now) / share)}" if now and share else ""
        return f"{tagged}:copy:{within}:{share}{moment}"


@checked_first
def touch(tracker: LastSeen, member: object, now: object) -> Op[int]:
    name, at = check.uid(member, "member"), check.instant(now)
    yield CHECKED
    trimmed = 0 if tracker.keep_older else TRIMMED_BY_TOUCH
    [reply] = yield [call_of(scripts.TOUCH_LAST_SEEN, (tracker.key,), at, tracker.window, name, trimmed)]
    return scripts.TOUCH_LAST_SEEN.reply(reply)


@checked_first
def count(tracker: LastSeen, within: object, now: object) -> Op[int]:
    window, at = tracker.within(within), check.instant(now)
    yield CHECKED
    [reply] = yield [call_of(scripts.READ_LAST_SEEN, (tracker.key,), at, window, 0)]
    return scripts.READ_LAST_SEEN.reply(reply)


@checked_first
def members(tracker: LastSeen, within: object, now: object) -> Op[list[str]]:
    window, at = tracker.within(within), check.instant(now)
    yield CHECKED
    seen: dict[bytes, float] = {}
    begin = START
    while True:
        [reply] = yield [call_of(scripts.READ_LAST_SEEN, (tracker.key,), at, window, MAX_READ, *begin)]
        page = decode_last_seen(reply)
        seen |= page.seen  # a member seen again while this reads is on two pages: the later counts
        begin = page.next_begin
        if begin == START:
            return newest_first(seen)


@checked_first
def forget(tracker: LastSeen, member: object) -> Op[bool]:
    name = check.uid(member, "member")
    yield CHECKED
    [gone] = yield [command(tracker.key, "ZREM", tracker.key, name)]
    return bool(gone)


@checked_first
def trim(tracker: LastSeen, now: object) -> Op[int]:
    at = check.instant(now)
    yield CHECKED
    gone = 0
    while True:
        [reply] = yield [call_of(scripts.TRIM_LAST_SEEN, (tracker.key,), at, tracker.window, TRIMMED_AT_ONCE)]
        trimmed = scripts.TRIM_LAST_SEEN.reply(reply)
        gone += trimmed
        if trimmed < TRIMMED_AT_ONCE:
            return gone


@checked_first
def online_friends(
    tracker: LastSeen, friends_key: object, within: object, now: object, reuse_for: object
) -> Op[list[str]]:
    friends, window, at = tracker.friends(friends_key), tracker.within(within), check.instant(now)
    share = tracker.reuse_for if reuse_for is None else check.whole("reuse_for", reuse_for, 0, 3600)
    yield CHECKED
    keys = (tracker.key, friends, tracker.copy(window, share, at))
    [reply] = yield [call_of(scripts.READ_FRIENDS_LAST_SEEN, keys, at, window, share)]
    return newest_first(scripts.READ_FRIENDS_LAST_SEEN.reply(reply))


def _friends_key(key: object, same_node_as: str, named: str, is_cluster: bool) -> str:
    friends = check.uid(key, "friends_key")
    if is_cluster and hashed(friends) != hashed(same_node_as):
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
    ahead: float = 0  #: how far that clock is ahead of ours, as far as is known

    def __post_init__(self) -> None:
        check.uid(self.prefix, "prefix")
        check.whole("window", self.window, 1, LONGEST_WINDOW)
        check.whole("bucket", self.bucket, 1, self.window)
        if self.window % self.bucket:
            raise InvalidArgument("bucket", "must divide window", "out_of_range")
        if self.is_cluster and hashed(f"{self.prefix}:0") == f"{self.prefix}:0":
            raise InvalidArgument("prefix", "must hold a {tag} on a cluster, so that its sets lie on one node")

    @property
    def ttl(self) -> int:
        return min(self.window + self.bucket, LONGEST_WINDOW + 1)

    def buckets(self, within: object) -> int:
        """How many buckets, with the present one."""
        if within is None:
            return self.window // self.bucket
        return -(-check.whole("within", within, 1, self.window) // self.bucket)

    def keys(self, first: int, count: int) -> list[str]:
        """The newest first."""
        return [f"{self.prefix}:{number}" for number in range(first, first - count, -1)]


@checked_first
def mark(tracker: MinuteSets, member: object, now: object) -> Op[None]:
    name, at = check.uid(member, "member"), check.instant(now)
    yield CHECKED
    for _ in range(GUESSES):
        first = _newest(tracker, at)
        keys = tracker.keys(first, 2)
        [reply] = yield [call_of(scripts.TOUCH_BUCKET, keys, at, tracker.bucket, first, tracker.ttl, name)]
        number = scripts.TOUCH_BUCKET.reply(reply)
        if first - number in (0, 1):
            return
        _learn(tracker, number)
    raise _too_slow(tracker)


def count_in_sets(tracker: MinuteSets, within: object, now: object) -> Op[int]:
    return _number(_read(tracker, "count", tracker.buckets(within), check.instant(now)))


def members_in_sets(tracker: MinuteSets, within: object, now: object) -> Op[list[str]]:
    return _names(_read(tracker, "members", tracker.buckets(within), check.instant(now)))


def friends_in_sets(tracker: MinuteSets, friends_key: object, within: object, now: object) -> Op[list[str]]:
    friends = _friends_key(friends_key, f"{tracker.prefix}:0", "prefix", tracker.is_cluster)
    return _names(_read(tracker, "friends", tracker.buckets(within), check.instant(now), friends))


def _read(tracker: MinuteSets, answer: str, wanted: int, at: str, *friends: str) -> Op[Any]:
    for _ in range(GUESSES):
        first = _newest(tracker, at)
        keys = [*tracker.keys(first, wanted + 1), *friends]
        [reply] = yield [call_of(scripts.READ_BUCKETS, keys, at, tracker.bucket, first, wanted, answer)]
        buckets = scripts.READ_BUCKETS.reply(reply)
        if buckets.answer is not None:
            return buckets.answer
        _learn(tracker, buckets.present)
    raise _too_slow(tracker)


def _newest(tracker: MinuteSets, at: str) -> int:
    """The newest bucket that may be the present one: a script's keys are named before it reads the clock."""
    if at:
        return floor(float(at) / tracker.bucket)
    # Or the one before: half a bucket either way.
    return floor((tracker.clock() + tracker.ahead + tracker.bucket / 2) / tracker.bucket)


def _learn(tracker: MinuteSets, number: int) -> None:
    tracker.ahead = (number + 0.5) * tracker.bucket - tracker.clock()


def _too_slow(tracker: MinuteSets) -> Unavailable:
    return Unavailable(
        f"Redis took longer than a bucket of {tracker.bucket} seconds to answer, several times in a row."
    )


def _number(steps: Op[Any]) -> Op[int]:
    number = yield from steps
    return int(number)


def _names(steps: Op[Any]) -> Op[list[str]]:
    """The newest bucket first, each in order."""
    buckets = yield from steps
    return [text(member) for fresh in buckets for member in sorted(fresh)]
