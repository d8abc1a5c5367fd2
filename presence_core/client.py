"""Presence and AsyncPresence: thin typed twins. What they do is in ``operations``; how it travels in ``transport``."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import time
from binascii import b2a_base64
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from presence_core.errors import LoginRefused
from presence_core.models import Counts, Event, KickResult, Login, Page, Session, SweepReport, Validation
from presence_core.operations import access, ending, events, listing, login, reading, upkeep
from presence_core.operations.context import Context
from presence_core.scripts import Op
from presence_core.settings import Settings
from presence_core.transport import AsyncTransport, SyncTransport, closers, connect

if TYPE_CHECKING:
    from redis import Redis, RedisCluster
    from redis.asyncio import Redis as AsyncRedis
    from redis.asyncio import RedisCluster as AsyncRedisCluster

T = TypeVar("T")

_URL_SAFE = bytes.maketrans(b"+/", b"-_")

WATCH_INTERVAL = 0.1
"""Seconds between looks at the event streams while watching."""


def _new_id() -> str:
    """128 random bits as 22 URL-safe characters."""
    return b2a_base64(secrets.token_bytes(16), newline=False)[:22].translate(_URL_SAFE).decode()


def _context(settings: Settings, is_cluster: bool) -> Context:
    return Context(
        settings,
        is_cluster,
        new_id=_new_id,
        new_secret=lambda: secrets.token_bytes(32),
        random=lambda: random.getrandbits(31),
    )


class Presence:
    """Multi-device sessions in Redis. Safe to share between threads and across forks.

    Every method may raise Unavailable (Redis did not answer within ``settings.timeout`` seconds, all tries together),
    InvalidArgument (nothing was sent) and CorruptData; the methods that change something also OutcomeUnknown.
    ``client`` is a redis.Redis or redis.RedisCluster that stays the caller's. Of a Redis with a plain pool the address
    and credentials are used, on connections with time limits of our own; a cluster, or a pool of another kind, is used
    as it is: give it a ``socket_timeout``.

    Costs are per call: N live sessions in all, S sessions of one user (at most 1000), P shards (1 on a single Redis).
    """

    def __init__(self, client: Redis | RedisCluster, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self._transport = SyncTransport(client, self.settings.timeout)
        self._ctx = _context(self.settings, self._transport.is_cluster)
        self._on_close: list[Any] = []

    @classmethod
    def from_url(cls, url: str, settings: Settings | None = None) -> Presence:
        """Connect by URL: redis://, rediss://, unix://, redis+sentinel://h1,h2,h3/name/db or redis+cluster://.

        The first call connects, not this one (a cluster's layout is fetched here).
        """
        settings = settings or Settings()
        client = connect(url, settings.timeout, use_asyncio=False)
        presence = cls(client, settings)
        presence._on_close += closers(client)
        return presence

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Presence:
        """``PRESENCE_REDIS_URL`` and ``PRESENCE_<SETTING>``; the embedded server when no URL is set."""
        environ = os.environ if environ is None else environ
        settings = Settings.from_env(environ)
        url = environ.get("PRESENCE_REDIS_URL", "").strip()
        return cls.from_url(url, settings) if url else cls.embedded(settings=settings)

    @classmethod
    def embedded(cls, data_dir: str | os.PathLike[str] | None = None, settings: Settings | None = None) -> Presence:
        """A private Redis of one's own, kept in ``data_dir`` and shared by every program that names the same.

        It stops with its last user; ``close()`` (or the end of a ``with``) ends this use. Raises Unavailable when no
        server binary is found, saying what to install.
        """
        from presence_core.embedded import EmbeddedServer

        server = EmbeddedServer.start(data_dir)
        presence = cls.from_url(server.url, settings)
        presence._on_close.append(server.close)
        return presence

    def close(self) -> None:
        """Close the connections; stop an embedded server that nobody else uses. May be called twice."""
        self._transport.close()
        while self._on_close:
            self._on_close.pop(0)()

    def __enter__(self) -> Presence:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _run(self, op: Op[T]) -> T:
        if self._ctx.keyspace is None or self._ctx.is_guess:
            self._transport.run(upkeep.handshake(self._ctx))
        return self._transport.run(op)

    # -- a site's own calls -------------------------------------------------------------------------------------------

    def login(
        self,
        uid: str,
        *,
        name: str | None = None,
        aliases: Iterable[str] = (),
        device: str | None = None,
        app: str | None = None,
        app_version: str | None = None,
        ip: str | None = None,
        user_agent: str | None = None,
        attributes: Mapping[str, Any] | None = None,
        session_id: str | None = None,
        idle_timeout: int | None = None,
        absolute_timeout: int | None = None,
    ) -> Login:
        """Begin a session.

        uid: 1-256 bytes. name: up to 256 bytes; aliases: up to eight more ways to find the person (email, phone).
        device, app, app_version: up to 64 bytes each. user_agent is cut at 512 characters. attributes: up to 4 KB of
        JSON. session_id: an id of the site's own, 8-128 URL-safe characters, never a secret; by default 22 random ones.
        idle_timeout, absolute_timeout: whole seconds, by default those of the settings.

        Given again for a live session of the same user it refreshes the record and the secret and keeps login time,
        timeouts and limits: a call whose reply was lost may be repeated with the same session_id.

        Limits are exact under any race. Raises LoginRefused: a limit with ``on_limit="reject"``, or an id that has
        ended. Cost: O(log N), one round trip, two when a limit ended others.
        """
        given = {
            "uid": uid, "name": name, "aliases": aliases, "device": device, "app": app, "app_version": app_version,
            "ip": ip, "user_agent": user_agent, "attributes": attributes, "session_id": session_id,
            "idle_timeout": idle_timeout, "absolute_timeout": absolute_timeout,
        }  # fmt: skip
        return self._run(login.login(self._ctx, given))

    def login_many(self, rows: Iterable[Mapping[str, Any]], *, imported: bool = False) -> list[Login | LoginRefused]:
        """Begin many sessions: ``rows`` are dicts of login's arguments. For imports and load.

        All rows are checked before any is sent. Answers in the same order; a refused row's place holds its
        LoginRefused. With ``imported=True`` a row may carry ``login_at`` and ``last_seen`` in the past (aware datetimes
        or Unix seconds), so that people who are signed in already arrive as they are. Cost: one round trip per 500.
        """
        return self._run(login.login_many(self._ctx, rows, imported))

    def validate(self, token: str, *, touch: bool = True, ip: str | None = None) -> Validation:
        """May this request pass? Truthy when the token's session is live; ``.ended`` tells its holder why not.

        ``touch`` also notes that the session was seen, and from which ``ip``. Unknown and malformed tokens are answered
        alike, at like cost. Never raises OutcomeUnknown. Cost: O(log N), one round trip; one more to say why it ended.
        """
        return self._run(access.validate(self._ctx, token, touch, ip))

    def validate_session(self, uid: str, session_id: str, *, touch: bool = True, ip: str | None = None) -> Validation:
        """The same for sites with session ids of their own, which have checked the visitor's secret themselves."""
        return self._run(access.validate_session(self._ctx, uid, session_id, touch, ip))

    def rotate(self, token: str) -> Login:
        """A new secret for the same session; the old token opens nothing from here on. Login time and record stay.

        Raises LoginRefused when the token opens no live session. The one change that cannot be told twice: after an
        OutcomeUnknown the old token may be void already; let the visitor sign in again. Cost: O(1), one round trip.
        """
        return self._run(access.rotate(self._ctx, token))

    def heartbeat(self, uid: str, session_id: str) -> bool:
        """This session was seen. False: it is no longer online. Cost: O(log N), one round trip."""
        return self._run(access.heartbeat(self._ctx, uid, session_id))

    def heartbeats(self, refs: Iterable[str]) -> list[str]:
        """These sessions (``uid:session_id``) were seen; answers those that are not live.

        Cost: O(log N) each, one round trip for all. HeartbeatBuffer collects them for you.
        """
        return self._run(access.heartbeats(self._ctx, refs))

    def logout(self, uid: str, session_id: str) -> bool:
        """End a session at its user's wish. False: it was not live. Cost: O(log N), one round trip."""
        return self._run(ending.logout(self._ctx, uid, session_id))

    # -- who is online ------------------------------------------------------------------------------------------------

    def get(self, uid: str, session_id: str) -> Session | None:
        """One live session. Cost: O(1), one round trip."""
        return self._run(reading.get(self._ctx, uid, session_id))

    def sessions(self, uid: str) -> list[Session]:
        """A user's live sessions, newest login first. Cost: O(S), one round trip."""
        return self._run(reading.sessions(self._ctx, uid))

    def list_sessions(self, *, limit: int = 50, cursor: str | None = None) -> Page[Session]:
        """A page of everybody's live sessions, newest login first; ``limit`` is 1…1000.

        While others log in and out no session is shown twice, and none that lived throughout is missed. A deep page
        costs what the first costs: O(P·log N + limit), mostly one round trip.
        """
        return self._run(listing.list_sessions(self._ctx, limit, cursor))

    def iter_sessions(self, *, page_size: int = 500) -> Iterator[Session]:
        """Every live session, newest login first, page by page."""
        cursor = None
        while True:
            page = self.list_sessions(limit=page_size, cursor=cursor)
            yield from page.items
            cursor = page.next_cursor
            if cursor is None:
                return

    def counts(self) -> Counts:
        """How many users and sessions are online, and totals by reason. Cost: O(P·log N), one round trip."""
        return self._run(reading.counts(self._ctx))

    # -- staff --------------------------------------------------------------------------------------------------------

    def kick(
        self,
        uid: str,
        session_id: str | None = None,
        *,
        by: str,
        reason: str,
        message: str | None = None,
        ticket: str | None = None,
        keep: Iterable[str] = (),
    ) -> KickResult:
        """End one session of a user, or all of them but ``keep``. Once this has returned, no request of theirs passes.

        by: who does it, 1-256 bytes. reason: for staff, 1-500 characters. message: for the visitor. ticket: up to 64
        bytes. A session that was over before is in ``already_ended``, with why and by whom where that is still known.
        Cost: O(S·log N), one round trip for one session, three for all.
        """
        return self._run(ending.kick(self._ctx, uid, session_id, by, reason, message, ticket, keep))

    # -- upkeep -------------------------------------------------------------------------------------------------------

    def sweep(self, *, limit: int | None = None) -> SweepReport:
        """End what is past its deadline, finish what a crash left, forget what is kept long enough.

        Answers are right without it; it keeps memory and the count of users in step. In batches that hold the server
        for a few ms; any number of sweepers may run at once, and each end is counted once.
        """
        return self._run(upkeep.sweep(self._ctx, limit))

    def repair(self) -> SweepReport:
        """Walk everything and make lists, sets and records agree again, after foreign hands or a lost key.

        Cost: O(N·log N) in many small steps; sessions go on meanwhile.
        """
        return self._run(upkeep.repair(self._ctx))

    def events(self, *, after: str | None = None, limit: int = 100) -> list[Event]:
        """What began and ended behind ``after`` (an event's cursor), oldest first; from the oldest kept by default.

        Where events between were lost to the cap, a ``gap`` event comes first. Cost: O(P + limit), one round trip.
        """
        return self._run(events.events(self._ctx, after, limit))

    def watch(self, *, after: str | None = None) -> Iterator[Event]:
        """Events as they happen, without end, from now on or behind ``after``. Each arrives once, within 0.1 s or so.

        Raises Unavailable while Redis is away: go on with the cursor of the last event, and nothing is missed.
        """
        cursor = self._run(events.latest(self._ctx)) if after is None else after
        return self._watch(cursor)

    def _watch(self, cursor: str) -> Iterator[Event]:
        while True:
            batch = self.events(after=cursor, limit=1000)
            for event in batch:
                cursor = event.cursor
                yield event
            if not batch:
                time.sleep(WATCH_INTERVAL)


class AsyncPresence:
    """The same for asyncio: every method as on Presence, awaited. Belongs to the event loop that first uses it."""

    def __init__(self, client: AsyncRedis | AsyncRedisCluster, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self._transport = AsyncTransport(client, self.settings.timeout)
        self._ctx = _context(self.settings, self._transport.is_cluster)
        self._on_close: list[Any] = []

    @classmethod
    def from_url(cls, url: str, settings: Settings | None = None) -> AsyncPresence:
        """See Presence.from_url."""
        settings = settings or Settings()
        client = connect(url, settings.timeout, use_asyncio=True)
        presence = cls(client, settings)
        presence._on_close += closers(client)
        return presence

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> AsyncPresence:
        """See Presence.from_env."""
        environ = os.environ if environ is None else environ
        settings = Settings.from_env(environ)
        url = environ.get("PRESENCE_REDIS_URL", "").strip()
        return cls.from_url(url, settings) if url else cls.embedded(settings=settings)

    @classmethod
    def embedded(
        cls, data_dir: str | os.PathLike[str] | None = None, settings: Settings | None = None
    ) -> AsyncPresence:
        """See Presence.embedded. Starting the server blocks for a fifth of a second."""
        from presence_core.embedded import EmbeddedServer

        server = EmbeddedServer.start(data_dir)
        presence = cls.from_url(server.url, settings)
        presence._on_close.append(server.close)
        return presence

    async def close(self) -> None:
        """See Presence.close."""
        await self._transport.close()
        while self._on_close:
            waiting = self._on_close.pop(0)()
            if waiting is not None:
                await waiting

    async def __aenter__(self) -> AsyncPresence:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    async def _run(self, op: Op[T]) -> T:
        if self._ctx.keyspace is None or self._ctx.is_guess:
            await self._transport.run(upkeep.handshake(self._ctx))
        return await self._transport.run(op)

    # -- a site's own calls -------------------------------------------------------------------------------------------

    async def login(
        self,
        uid: str,
        *,
        name: str | None = None,
        aliases: Iterable[str] = (),
        device: str | None = None,
        app: str | None = None,
        app_version: str | None = None,
        ip: str | None = None,
        user_agent: str | None = None,
        attributes: Mapping[str, Any] | None = None,
        session_id: str | None = None,
        idle_timeout: int | None = None,
        absolute_timeout: int | None = None,
    ) -> Login:
        """See Presence.login."""
        given = {
            "uid": uid, "name": name, "aliases": aliases, "device": device, "app": app, "app_version": app_version,
            "ip": ip, "user_agent": user_agent, "attributes": attributes, "session_id": session_id,
            "idle_timeout": idle_timeout, "absolute_timeout": absolute_timeout,
        }  # fmt: skip
        return await self._run(login.login(self._ctx, given))

    async def login_many(
        self, rows: Iterable[Mapping[str, Any]], *, imported: bool = False
    ) -> list[Login | LoginRefused]:
        """See Presence.login_many."""
        return await self._run(login.login_many(self._ctx, rows, imported))

    async def validate(self, token: str, *, touch: bool = True, ip: str | None = None) -> Validation:
        """See Presence.validate."""
        return await self._run(access.validate(self._ctx, token, touch, ip))

    async def validate_session(
        self, uid: str, session_id: str, *, touch: bool = True, ip: str | None = None
    ) -> Validation:
        """See Presence.validate_session."""
        return await self._run(access.validate_session(self._ctx, uid, session_id, touch, ip))

    async def rotate(self, token: str) -> Login:
        """See Presence.rotate."""
        return await self._run(access.rotate(self._ctx, token))

    async def heartbeat(self, uid: str, session_id: str) -> bool:
        """See Presence.heartbeat."""
        return await self._run(access.heartbeat(self._ctx, uid, session_id))

    async def heartbeats(self, refs: Iterable[str]) -> list[str]:
        """See Presence.heartbeats."""
        return await self._run(access.heartbeats(self._ctx, refs))

    async def logout(self, uid: str, session_id: str) -> bool:
        """See Presence.logout."""
        return await self._run(ending.logout(self._ctx, uid, session_id))

    # -- who is online ------------------------------------------------------------------------------------------------

    async def get(self, uid: str, session_id: str) -> Session | None:
        """See Presence.get."""
        return await self._run(reading.get(self._ctx, uid, session_id))

    async def sessions(self, uid: str) -> list[Session]:
        """See Presence.sessions."""
        return await self._run(reading.sessions(self._ctx, uid))

    async def list_sessions(self, *, limit: int = 50, cursor: str | None = None) -> Page[Session]:
        """See Presence.list_sessions."""
        return await self._run(listing.list_sessions(self._ctx, limit, cursor))

    async def iter_sessions(self, *, page_size: int = 500) -> AsyncIterator[Session]:
        """See Presence.iter_sessions."""
        cursor = None
        while True:
            page = await self.list_sessions(limit=page_size, cursor=cursor)
            for session in page.items:
                yield session
            cursor = page.next_cursor
            if cursor is None:
                return

    async def counts(self) -> Counts:
        """See Presence.counts."""
        return await self._run(reading.counts(self._ctx))

    # -- staff --------------------------------------------------------------------------------------------------------

    async def kick(
        self,
        uid: str,
        session_id: str | None = None,
        *,
        by: str,
        reason: str,
        message: str | None = None,
        ticket: str | None = None,
        keep: Iterable[str] = (),
    ) -> KickResult:
        """See Presence.kick."""
        return await self._run(ending.kick(self._ctx, uid, session_id, by, reason, message, ticket, keep))

    # -- upkeep -------------------------------------------------------------------------------------------------------

    async def sweep(self, *, limit: int | None = None) -> SweepReport:
        """See Presence.sweep."""
        return await self._run(upkeep.sweep(self._ctx, limit))

    async def repair(self) -> SweepReport:
        """See Presence.repair."""
        return await self._run(upkeep.repair(self._ctx))

    async def events(self, *, after: str | None = None, limit: int = 100) -> list[Event]:
        """See Presence.events."""
        return await self._run(events.events(self._ctx, after, limit))

    async def watch(self, *, after: str | None = None) -> AsyncIterator[Event]:
        """See Presence.watch: ``async for event in presence.watch()``. "Now" is when the loop begins."""
        cursor = await self._run(events.latest(self._ctx)) if after is None else after
        while True:
            batch = await self.events(after=cursor, limit=1000)
            for event in batch:
                cursor = event.cursor
                yield event
            if not batch:
                await asyncio.sleep(WATCH_INTERVAL)
