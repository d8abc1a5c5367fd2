"""Presence and AsyncPresence: thin typed twins over ``operations``, with a module for each domain.

Start reading in ``sessions.py``. ``base.py`` connects and closes, ``internal.py`` runs operations. This package imports
operations and transport; worker, web and cli import it.
"""

from __future__ import annotations

from presence_core.client.base import copy_docstrings
from presence_core.client.bulk_kick import AsyncBulkKickMethods, BulkKickMethods
from presence_core.client.events import AsyncEventsMethods, EventsMethods
from presence_core.client.maintenance import AsyncMaintenanceMethods, MaintenanceMethods
from presence_core.client.privacy import AsyncPrivacyMethods, PrivacyMethods
from presence_core.client.reshard import AsyncReshardMethods, ReshardMethods
from presence_core.client.search import AsyncSearchMethods, SearchMethods
from presence_core.client.sessions import AsyncSessionsMethods, SessionsMethods
from presence_core.client.staff import AsyncStaffMethods, StaffMethods
from presence_core.client.team import AsyncTeamMethods, TeamMethods

__all__ = ["AsyncPresence", "Presence"]


class Presence(
    SessionsMethods,
    SearchMethods,
    StaffMethods,
    TeamMethods,
    BulkKickMethods,
    PrivacyMethods,
    MaintenanceMethods,
    EventsMethods,
    ReshardMethods,
):
    """Multi-device sessions in Redis. Safe to share between threads and across forks.

    Every method may raise Unavailable, InvalidArgument (the change was not made) and CorruptData. Methods that write
    may also raise OutcomeUnknown. ``settings.timeout`` limits each step of a call, all attempts together. Most calls
    have one step.

    ``client`` is a redis.Redis or redis.RedisCluster; the caller closes it. If its pool is a plain ConnectionPool, we
    only take its address and credentials, and open connections with our own time limits. A cluster, or a pool of
    another class, is used as it is: give it a ``socket_timeout``.

    Costs are per call: N live sessions in all, S sessions of one user (at most 1000), P shards (1 on a single Redis).
    """


class AsyncPresence(
    AsyncSessionsMethods,
    AsyncSearchMethods,
    AsyncStaffMethods,
    AsyncTeamMethods,
    AsyncBulkKickMethods,
    AsyncPrivacyMethods,
    AsyncMaintenanceMethods,
    AsyncEventsMethods,
    AsyncReshardMethods,
):
    """Presence for asyncio: the same methods, awaited. It belongs to the event loop that first uses it; once that loop
    is closed, to the next one."""


copy_docstrings(Presence, AsyncPresence)
