"""Count visitors without sessions: for visitor counters, anonymous pages and small sites.

There are two trackers, each with a twin for asyncio. ``LastSeenTracker`` keeps the last visits in one sorted set, which
may exist already. ``MinuteSetTracker`` keeps a SET for each minute, or for another bucket of time. For devices, search
or kicks use ``Presence``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Self

from presence_core import validation as check
from presence_core.client.base import awaited
from presence_core.operations import trackers
from presence_core.operations.trackers import LastSeen, MinuteSets
from presence_core.transport import AsyncTransport, SyncTransport, closers, connect

if TYPE_CHECKING:
    from redis import Redis, RedisCluster
    from redis.asyncio import Redis as AsyncRedis
    from redis.asyncio import RedisCluster as AsyncRedisCluster

__all__ = ["AsyncLastSeenTracker", "AsyncMinuteSetTracker", "LastSeenTracker", "MinuteSetTracker"]


def _names_a_cluster(url: object) -> bool:
    """Arguments are checked before anything is connected."""
    return isinstance(url, str) and url.partition("://")[0].endswith("+cluster")


class _Connects:
    """The connection, and whether it is our own."""

    _USES_ASYNCIO: ClassVar[bool] = False
    _is_ours = False

    @classmethod
    def _connect(cls, url: str, timeout: float, *args: Any, **options: Any) -> Self:
        """A tracker with a connection of its own; ``args`` and ``options`` are those of its constructor."""
        make: Callable[..., Self] = cls
        client = connect(url, check.call_time(timeout), use_asyncio=cls._USES_ASYNCIO)
        tracker = make(client, *args, timeout=timeout, **options)
        tracker._is_ours = True
        return tracker


class _LastSeenFromUrl(_Connects):
    @classmethod
    def from_url(
        cls, url: str, key: str, window: int, *, reuse_for: int = 0, keep_older: bool = False, timeout: float = 2.0
    ) -> Self:
        """Connect by URL, as Presence.from_url does."""
        LastSeen(key, window, reuse_for, keep_older, _names_a_cluster(url))
        return cls._connect(url, timeout, key, window, reuse_for=reuse_for, keep_older=keep_older)


class _MinuteSetsFromUrl(_Connects):
    @classmethod
    def from_url(cls, url: str, prefix: str, window: int, bucket: int = 60, *, timeout: float = 2.0) -> Self:
        """Connect by URL, as Presence.from_url does."""
        MinuteSets(prefix, window, bucket, _names_a_cluster(url), time.time)
        return cls._connect(url, timeout, prefix, window, bucket)


class _Tracker(_Connects):
    """A tracker that blocks, and how it is closed."""

    def __init__(self, client: Redis | RedisCluster, timeout: float) -> None:
        self._transport = SyncTransport(client, check.call_time(timeout))
        self._client = client

    def close(self) -> None:
        """Close the connections that are our own. May be called twice."""
        self._transport.close()
        if self._is_ours:
            for close in closers(self._client):
                close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _AsyncTracker(_Connects):
    """The same for asyncio."""

    _USES_ASYNCIO = True

    def __init__(self, client: AsyncRedis | AsyncRedisCluster, timeout: float) -> None:
        self._transport = AsyncTransport(client, check.call_time(timeout))
        self._client = client

    async def close(self) -> None:
        """Close the connections that are our own. May be called twice."""
        await self._transport.close()
        if self._is_ours:
            for close in closers(self._client):
                await close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()


class LastSeenTracker(_Tracker, _LastSeenFromUrl):
    """The last visit of each member, in one sorted set: member → Unix seconds. Exact, for any number of members.

    key: name of the set, 1-256 bytes. It may exist already, also with fractions in its scores. window: seconds, 1…10
    years; a member goes offline when it was not seen for so long. keep_older: ``touch`` removes no member, so the set
    keeps every last visit. reuse_for: see ``online_friends``. timeout: seconds for each step of a call, 0.05…60.
    client: a redis.Redis or redis.RedisCluster; the caller closes it.

    ``now`` is Unix seconds; None is the clock of Redis, which is better if the clocks of your servers differ. A score
    later than ``now`` does not count yet. ``within`` is seconds and replaces the window. If it is longer than the
    window, members that were removed are missing. Safe to share between threads and across forks.

    Every method may raise InvalidArgument (nothing was sent), Unavailable, and CorruptData (a key has another type).
    Every change is idempotent, and is repeated if its reply was lost. N: members of the set, M: members in the window.
    """

    def __init__(
        self,
        client: Redis | RedisCluster,
        key: str,
        window: int,
        *,
        reuse_for: int = 0,
        keep_older: bool = False,
        timeout: float = 2.0,
    ) -> None:
        super().__init__(client, timeout)
        self._tracker = LastSeen(key, window, reuse_for, keep_older, self._transport.is_cluster)

    def touch(self, member: str, now: float | None = None) -> int:
        """Record that ``member`` (1-256 bytes) was seen. Returns how many members are inside the window.

        The same step removes at most 1,000 members outside the window. An older ``now`` never moves a last visit
        back. Cost: O(log N) and the number removed, one round trip.
        """
        return self._transport.run(trackers.touch(self._tracker, member, now))

    def count(self, within: int | None = None, now: float | None = None) -> int:
        """How many members were seen within the window. Cost: O(log N), one round trip."""
        return self._transport.run(trackers.count(self._tracker, within, now))

    def members(self, within: int | None = None, now: float | None = None) -> list[str]:
        """Members that were seen within the window, the latest first.

        A member that is in the window all the time is listed once, also while others are seen. Cost: O(log N + M), a
        round trip for 2,000.
        """
        return self._transport.run(trackers.members(self._tracker, within, now))

    def forget(self, member: str) -> bool:
        """Remove ``member``. False: it was not in the set. Cost: O(log N), one round trip."""
        return self._transport.run(trackers.forget(self._tracker, member))

    def trim(self, now: float | None = None) -> int:
        """Remove members outside the window; returns how many. Cost: O(log N + M), a round trip for 5,000."""
        return self._transport.run(trackers.trim(self._tracker, now))

    def online_friends(
        self, friends_key: str, within: int | None = None, now: float | None = None, *, reuse_for: int | None = None
    ) -> list[str]:
        """Which members of ``friends_key``, a SET or a ZSET, were seen within the window, the latest first.

        One atomic script. It does not change the set or the friends. On a cluster both keys need the same {tag}.
        reuse_for: 0…3600 seconds (None: the tracker's) to keep a copy of the window for other calls. Use it when there
        are many friends and few members in the window. The copy is stored under ``{<key>}:copy:<window>:<seconds>``
        (without the braces if the key has a tag; a given ``now`` adds its number). The result can be up to
        ``reuse_for`` seconds old. Cost: O(min(friends, M)), for the copy also O(log N + M); one round trip.
        """
        return self._transport.run(trackers.online_friends(self._tracker, friends_key, within, now, reuse_for))


class AsyncLastSeenTracker(_AsyncTracker, _LastSeenFromUrl):
    """LastSeenTracker for asyncio: every method, awaited. Belongs to the event loop that first uses it."""

    def __init__(
        self,
        client: AsyncRedis | AsyncRedisCluster,
        key: str,
        window: int,
        *,
        reuse_for: int = 0,
        keep_older: bool = False,
        timeout: float = 2.0,
    ) -> None:
        super().__init__(client, timeout)
        self._tracker = LastSeen(key, window, reuse_for, keep_older, self._transport.is_cluster)

    touch = awaited(LastSeenTracker.touch)
    count = awaited(LastSeenTracker.count)
    members = awaited(LastSeenTracker.members)
    forget = awaited(LastSeenTracker.forget)
    trim = awaited(LastSeenTracker.trim)
    online_friends = awaited(LastSeenTracker.online_friends)


class MinuteSetTracker(_Tracker, _MinuteSetsFromUrl):
    """The visitors of each bucket of time, in a SET ``prefix:<number>``. The number counts buckets since 1970.

    window: 1…3598 seconds, a multiple of ``bucket``. A member goes offline ``window`` seconds after the start of the
    bucket of its last visit: at most one bucket too early. A SET expires about one bucket after the window, always
    within an hour of its last visit, also if ``now`` is given. On a cluster ``prefix`` needs a {tag}. timeout, client,
    ``now``, threads, errors: as for LastSeenTracker. ``within`` is at most ``window``, rounded up to whole buckets with
    the current one.

    If the process clock is wrong by half a bucket, the first call needs two round trips. Later calls need one. M:
    entries of all buckets that are read. 50,000 of them block Redis for 10 to 20 ms when counted, 50 ms when listed.
    For many visitors use LastSeenTracker, which counts in O(log N).
    """

    def __init__(
        self, client: Redis | RedisCluster, prefix: str, window: int, bucket: int = 60, *, timeout: float = 2.0
    ) -> None:
        super().__init__(client, timeout)
        self._tracker = MinuteSets(prefix, window, bucket, self._transport.is_cluster, time.time)

    def touch(self, member: str, now: float | None = None) -> None:
        """Record that ``member`` (1-256 bytes) was seen. Cost: O(1), one round trip; a count would cost O(M)."""
        return self._transport.run(trackers.mark(self._tracker, member, now))

    def count(self, within: int | None = None, now: float | None = None) -> int:
        """How many different members are in the buckets of the window. Cost: O(M), one round trip."""
        return self._transport.run(trackers.count_in_sets(self._tracker, within, now))

    def members(self, within: int | None = None, now: float | None = None) -> list[str]:
        """The members in the buckets of the window, newest bucket first, each in order. Cost: O(M), one round trip."""
        return self._transport.run(trackers.members_in_sets(self._tracker, within, now))

    def online_friends(self, friends_key: str, within: int | None = None, now: float | None = None) -> list[str]:
        """Which members of ``friends_key``, a SET or a ZSET, are in the buckets of the window; ordered as ``members``.

        One atomic script that writes nothing. Cost: O(buckets·friends) at most, one round trip.
        """
        return self._transport.run(trackers.friends_in_sets(self._tracker, friends_key, within, now))


class AsyncMinuteSetTracker(_AsyncTracker, _MinuteSetsFromUrl):
    """MinuteSetTracker for asyncio: every method, awaited. Belongs to the event loop that first uses it."""

    def __init__(
        self,
        client: AsyncRedis | AsyncRedisCluster,
        prefix: str,
        window: int,
        bucket: int = 60,
        *,
        timeout: float = 2.0,
    ) -> None:
        super().__init__(client, timeout)
        self._tracker = MinuteSets(prefix, window, bucket, self._transport.is_cluster, time.time)

    touch = awaited(MinuteSetTracker.touch)
    count = awaited(MinuteSetTracker.count)
    members = awaited(MinuteSetTracker.members)
    online_friends = awaited(MinuteSetTracker.online_friends)
