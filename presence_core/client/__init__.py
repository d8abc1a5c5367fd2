"""Presence and AsyncPresence: thin typed twins, a room for each kind of caller.

What they do is in ``operations``; how it travels in ``transport``.
"""

from __future__ import annotations

from presence_core.client.bulk import AsyncBulk, Bulk
from presence_core.client.online import AsyncOnline, Online
from presence_core.client.privacy import AsyncPrivacy, Privacy
from presence_core.client.site import AsyncSite, Site
from presence_core.client.staff import AsyncStaff, Staff
from presence_core.client.team import AsyncTeam, Team
from presence_core.client.upkeep import AsyncUpkeep, Upkeep

__all__ = ["AsyncPresence", "Presence"]


class Presence(Site, Online, Staff, Team, Bulk, Privacy, Upkeep):
    """Multi-device sessions in Redis. Safe to share between threads and across forks.

    Every method may raise Unavailable (Redis did not answer within ``settings.timeout`` seconds, all tries together),
    InvalidArgument (nothing was sent) and CorruptData; the methods that change something also OutcomeUnknown.
    ``client`` is a redis.Redis or redis.RedisCluster that stays the caller's. Of a Redis with a plain pool the address
    and credentials are used, on connections with time limits of our own; a cluster, or a pool of another kind, is used
    as it is: give it a ``socket_timeout``.

    Costs are per call: N live sessions in all, S sessions of one user (at most 1000), P shards (1 on a single Redis).
    """


class AsyncPresence(AsyncSite, AsyncOnline, AsyncStaff, AsyncTeam, AsyncBulk, AsyncPrivacy, AsyncUpkeep):
    """The same for asyncio: every method as on Presence, awaited. Belongs to the event loop that first uses it."""
