"""Who was seen of late, without sessions: for visitor counters, anonymous pages and small sites.

Two ways to keep it, each with a twin for asyncio. ``LastSeenTracker`` is one sorted set of last visits; an existing one
serves as is. ``MinuteSetTracker`` is one SET for each minute, or other bucket of time. Who needs devices, a list to
search, or kicks needs ``Presence``.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from presence_core import settings as check
from presence_core.operations import activity
from presence_core.operations.activity import LastSeen, MinuteSets
from presence_core.transport import AsyncTransport, SyncTransport, closers, connect

if TYPE_CHECKING:
    from redis import Redis, RedisCluster
    from redis.asyncio import Redis as AsyncRedis
    from redis.asyncio import RedisCluster as AsyncRedisCluster

__all__ = ["AsyncLastSeenTracker", "AsyncMinuteSetTracker", "LastSeenTracker", "MinuteSetTracker"]


def _names_a_cluster(url: object) -> bool:
    """Arguments are checked before anything is connected."""
    return isinstance(url, str) and url.partition("://")[0].endswith("+cluster")


class _Tracker:
    """The part that knows a connection."""

    def __init__(self, client: Redis | RedisCluster, timeout: float) -> None:
        self._transport = SyncTransport(client, check.call_time(timeout))
        self._client = client
        self._is_ours = False

    def close(self) -> None:
        """Close the connections that are our own. May be called twice."""
        self._transport.close()
        if self._is_ours:
            for close in closers(self._client):
                close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class _AsyncTracker:
    """The same for asyncio."""

    def __init__(self, client: AsyncRedis | AsyncRedisCluster, timeout: float) -> None:
        self._transport = AsyncTransport(client, check.call_time(timeout))
        self._client = client
        self._is_ours = False

    async def close(self) -> None:
        """Close the connections that are our own. May be called twice."""
        await self._transport.close()
        if self._is_ours:
            for close in closers(self._client):
                await close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()


class LastSeenTracker(_Tracker):
    """Who was seen when, in one sorted set: member → Unix seconds. For any number of members; exact to the moment.

    key: its name, 1-256 bytes; a set that a site has kept so far may have fractions in its scores. window: seconds,
    1…10 years; who is silent for longer counts as gone. keep_older: let ``touch`` remove nobody, for a set that also
    tells when each user was here last. reuse_for: see ``online_friends``. timeout: seconds that one call may take,
    0.05…60. client: a redis.Redis or redis.RedisCluster that stays the caller's.

    ``now``, everywhere, is Unix seconds; None (better, where app servers' clocks differ) is the clock of Redis. A score
    later than ``now`` is not a visit yet. ``within`` is seconds and takes the place of the window; of those silent for
    longer than the window only who has not been trimmed is found. Safe to share between threads and across forks. Every
    method may raise InvalidArgument (nothing was sent), Unavailable, and CorruptData (a key holds something else).
    Every change is idempotent and tried again when its reply was lost. N: members of the set, M: those in question.
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
        self._it = LastSeen(key, window, reuse_for, keep_older, self._transport.is_cluster)

    @classmethod
    def from_url(
        cls,
        url: str,
        key: str,
        window: int,
        *,
        reuse_for: int = 0,
        keep_older: bool = False,
        timeout: float = 2.0,
    ) -> Self:
        """Connect by URL, as Presence.from_url does."""
        LastSeen(key, window, reuse_for, keep_older, _names_a_cluster(url))
        client = connect(url, check.call_time(timeout), use_asyncio=False)
        tracker = cls(client, key, window, reuse_for=reuse_for, keep_older=keep_older, timeout=timeout)
        tracker._is_ours = True
        return tracker

    def touch(self, member: str, now: float | None = None) -> int:
        """``member`` (1-256 bytes) was seen; answers how many are inside the window.

        Who has left the window is removed in the same step, at most 1,000 at once. A late ``now`` never takes a last
        visit back. Cost: O(log N) and what is removed, one round trip.
        """
        return self._transport.run(activity.touch(self._it, member, now))

    def count(self, within: int | None = None, now: float | None = None) -> int:
        """How many were seen within the window. Cost: O(log N), one round trip."""
        return self._transport.run(activity.count(self._it, within, now))

    def members(self, within: int | None = None, now: float | None = None) -> list[str]:
        """Who was seen within the window, the latest first.

        Nobody who was there throughout is missed or named twice, however many are seen meanwhile. Cost: O(log N + M), a
        round trip for 2,000.
        """
        return self._transport.run(activity.members(self._it, within, now))

    def forget(self, member: str) -> bool:
        """``member`` said goodbye. False: was not there. Cost: O(log N), one round trip."""
        return self._transport.run(activity.forget(self._it, member))

    def trim(self, now: float | None = None) -> int:
        """Remove who has left the window; answers how many. Cost: O(log N + M), a round trip for 5,000."""
        return self._transport.run(activity.trim(self._it, now))

    def online_friends(
        self, friends_key: str, within: int | None = None, now: float | None = None, *, reuse_for: int | None = None
    ) -> list[str]:
        """Which members of ``friends_key``, a SET or a ZSET, were seen within the window, the latest first.

        One atomic script; the list and the friends stay as they are. reuse_for: 0…3600 seconds (None: the tracker's)
        for which a copy of the window's part of the list is kept and shared, under a key named after this one, window
        and seconds; the answer is then so old at most. It pays where friends are many and members in the window few. On
        a cluster both keys carry one {tag}. Cost: O(min(friends, M)), with a copy O(log N + M) too; one round trip.
        """
        return self._transport.run(activity.online_friends(self._it, friends_key, within, now, reuse_for))


class AsyncLastSeenTracker(_AsyncTracker):
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
        self._it = LastSeen(key, window, reuse_for, keep_older, self._transport.is_cluster)

    @classmethod
    def from_url(
        cls,
        url: str,
        key: str,
        window: int,
        *,
        reuse_for: int = 0,
        keep_older: bool = False,
        timeout: float = 2.0,
    ) -> Self:
        """See LastSeenTracker.from_url."""
        LastSeen(key, window, reuse_for, keep_older, _names_a_cluster(url))
        client = connect(url, check.call_time(timeout), use_asyncio=True)
        tracker = cls(client, key, window, reuse_for=reuse_for, keep_older=keep_older, timeout=timeout)
        tracker._is_ours = True
        return tracker

    async def touch(self, member: str, now: float | None = None) -> int:
        """See LastSeenTracker.touch."""
        return await self._transport.run(activity.touch(self._it, member, now))

    async def count(self, within: int | None = None, now: float | None = None) -> int:
        """See LastSeenTracker.count."""
        return await self._transport.run(activity.count(self._it, within, now))

    async def members(self, within: int | None = None, now: float | None = None) -> list[str]:
        """See LastSeenTracker.members."""
        return await self._transport.run(activity.members(self._it, within, now))

    async def forget(self, member: str) -> bool:
        """See LastSeenTracker.forget."""
        return await self._transport.run(activity.forget(self._it, member))

    async def trim(self, now: float | None = None) -> int:
        """See LastSeenTracker.trim."""
        return await self._transport.run(activity.trim(self._it, now))

    async def online_friends(
        self, friends_key: str, within: int | None = None, now: float | None = None, *, reuse_for: int | None = None
    ) -> list[str]:
        """See LastSeenTracker.online_friends."""
        return await self._transport.run(activity.online_friends(self._it, friends_key, within, now, reuse_for))


class MinuteSetTracker(_Tracker):
    """Who was seen, in one SET for each bucket of time: ``prefix:<number>``, counted since 1970, so none comes twice.

    window: 1…3598 seconds, a multiple of ``bucket``. A member counts as gone once the bucket of the last visit began
    ``window`` ago: up to a bucket early, never late. A SET goes by itself, about a bucket after its window and in less
    than an hour, counted from its last visit whatever ``now`` is given. On a cluster ``prefix`` carries a {tag}.
    timeout, client, ``now``, threads, errors: as for LastSeenTracker, but ``within`` is at most ``window``, and means
    whole buckets, the present one among them. Where a process's clock is off by half a bucket its first call takes two
    round trips; then it knows. M is the entries of all buckets in question: 50,000 hold Redis for 10 to 20 ms when they
    are counted, 50 when they are listed. For many visitors take LastSeenTracker, whose counts cost next to nothing.
    """

    def __init__(
        self, client: Redis | RedisCluster, prefix: str, window: int, bucket: int = 60, *, timeout: float = 2.0
    ) -> None:
        super().__init__(client, timeout)
        self._it = MinuteSets(prefix, window, bucket, self._transport.is_cluster, time.time)

    @classmethod
    def from_url(cls, url: str, prefix: str, window: int, bucket: int = 60, *, timeout: float = 2.0) -> Self:
        """Connect by URL, as Presence.from_url does."""
        MinuteSets(prefix, window, bucket, _names_a_cluster(url), time.time)
        client = connect(url, check.call_time(timeout), use_asyncio=False)
        tracker = cls(client, prefix, window, bucket, timeout=timeout)
        tracker._is_ours = True
        return tracker

    def touch(self, member: str, now: float | None = None) -> None:
        """``member`` (1-256 bytes) was seen. Counting would cost O(M), so this does not. Cost: O(1), one round trip."""
        return self._transport.run(activity.mark(self._it, member, now))

    def count(self, within: int | None = None, now: float | None = None) -> int:
        """How many different members the buckets of the window hold. Cost: O(M), one round trip."""
        return self._transport.run(activity.count_in_sets(self._it, within, now))

    def members(self, within: int | None = None, now: float | None = None) -> list[str]:
        """Who is in the buckets of the window: the newest bucket first, each in order. Cost: O(M), one round trip."""
        return self._transport.run(activity.members_in_sets(self._it, within, now))

    def online_friends(self, friends_key: str, within: int | None = None, now: float | None = None) -> list[str]:
        """Which members of ``friends_key``, a SET or a ZSET, are in the buckets of the window; ordered as ``members``.

        One atomic script that writes nothing. Cost: O(buckets·friends) at most, one round trip.
        """
        return self._transport.run(activity.friends_in_sets(self._it, friends_key, within, now))


class AsyncMinuteSetTracker(_AsyncTracker):
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
        self._it = MinuteSets(prefix, window, bucket, self._transport.is_cluster, time.time)

    @classmethod
    def from_url(cls, url: str, prefix: str, window: int, bucket: int = 60, *, timeout: float = 2.0) -> Self:
        """See MinuteSetTracker.from_url."""
        MinuteSets(prefix, window, bucket, _names_a_cluster(url), time.time)
        client = connect(url, check.call_time(timeout), use_asyncio=True)
        tracker = cls(client, prefix, window, bucket, timeout=timeout)
        tracker._is_ours = True
        return tracker

    async def touch(self, member: str, now: float | None = None) -> None:
        """See MinuteSetTracker.touch."""
        return await self._transport.run(activity.mark(self._it, member, now))

    async def count(self, within: int | None = None, now: float | None = None) -> int:
        """See MinuteSetTracker.count."""
        return await self._transport.run(activity.count_in_sets(self._it, within, now))

    async def members(self, within: int | None = None, now: float | None = None) -> list[str]:
        """See MinuteSetTracker.members."""
        return await self._transport.run(activity.members_in_sets(self._it, within, now))

    async def online_friends(self, friends_key: str, within: int | None = None, now: float | None = None) -> list[str]:
        """See MinuteSetTracker.online_friends."""
        return await self._transport.run(activity.friends_in_sets(self._it, friends_key, within, now))
