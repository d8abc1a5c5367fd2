"""How a client connects, runs operations, and closes."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import secrets
import threading
import time
from binascii import b2a_base64
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from presence_core.errors import InvalidArgument, PresenceError
from presence_core.forked import renew_in_child
from presence_core.operations import confirming, holding, upkeep
from presence_core.operations.context import Context
from presence_core.scripts import Op
from presence_core.settings import Settings
from presence_core.transport import AsyncTransport, SyncTransport, closers, connect, with_files

if TYPE_CHECKING:
    from redis import Redis, RedisCluster
    from redis.asyncio import Redis as AsyncRedis
    from redis.asyncio import RedisCluster as AsyncRedisCluster

T = TypeVar("T")

log = logging.getLogger("presence_core")

CONFIRM_EVERY = 1.0
"""Seconds between rounds over what is held for the case of a failover."""

LOOK_EVERY = 0.05
"""Seconds between looks at which master Sentinels name, while something is held. No round trip."""

_URL_SAFE = bytes.maketrans(b"+/", b"-_")


def new_id() -> str:
    """128 random bits, less one in 64 of all values, as 22 URL-safe characters; a dash in front would read as an option
    on a command line."""
    made = b2a_base64(secrets.token_bytes(16), newline=False)[:22].translate(_URL_SAFE).decode()
    return new_id() if made.startswith("-") else made


def _context(settings: Settings, transport: SyncTransport | AsyncTransport) -> Context:
    return Context(
        settings,
        transport.is_cluster,
        new_id=new_id,
        new_secret=lambda: secrets.token_bytes(32),
        random=lambda: random.getrandbits(31),
        clock=time.monotonic,
        server_of=transport.server_of,
    )


def _tell(ctx: Context, rounds: int) -> None:
    """Log what replicas do not confirm: after the second round, and then every ten minutes."""
    if rounds % 600 == 1:
        waiting = holding.unconfirmed(ctx)
        if waiting:
            log.warning("%d kicks, blocks or revocations wait for a replica to confirm them", waiting)
    if ctx.not_held:
        log.warning("%d ends are not held, a failover may undo them: %d are held", ctx.not_held, len(ctx.held))
        ctx.not_held = 0


def _longest(ctx: Context, wait: float | None) -> float:
    """How many seconds ``close`` waits at most."""
    if wait is None:
        return 2.0 * ctx.settings.confirm_hold
    if isinstance(wait, bool) or not isinstance(wait, int | float) or not 0 <= wait <= 7200:
        raise InvalidArgument("wait", "must be 0 to 7200 seconds")
    return wait


def _release(ctx: Context, level: int) -> None:
    """At the end of a client: nothing is held any more."""
    if ctx.held:
        log.log(level, "%d changes were still held, %d of them not confirmed on a replica: a failover may undo them",
                len(ctx.held), holding.unconfirmed(ctx))  # fmt: skip
        ctx.held.clear()


class Client:
    """The part of Presence that knows a connection."""

    def __init__(self, client: Redis | RedisCluster, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self._transport = SyncTransport(client, self.settings.timeout)
        self._ctx = _context(self.settings, self._transport)
        self._on_close: list[Any] = []
        self._closed = threading.Event()
        self._confirming: threading.Thread | None = None
        renew_in_child(self, Client._start_anew)

    def _start_anew(self) -> None:
        """In a forked child: threads do not come along, and an Event holds a lock."""
        was_closed, self._closed, self._confirming = self._closed.is_set(), threading.Event(), None
        if was_closed:
            self._closed.set()
        self._ctx.held.clear()  # its parent holds them

    @classmethod
    def from_url(cls, url: str, settings: Settings | None = None) -> Self:
        """Connect by URL: redis://, unix://, redis+sentinel://h1,h2,h3/name/db or redis+cluster://.

        With rediss in place of redis it speaks TLS; ``?ssl_ca_certs=``, ``ssl_certfile=`` and ``ssl_keyfile=`` name
        files, and the host's name is checked unless ``ssl_check_hostname=false`` says otherwise.

        The first call connects, not this one (a cluster's layout is fetched here: Unavailable where it cannot be).
        Raises InvalidArgument for what is no such URL, without repeating it.
        """
        settings = settings or Settings()
        client = connect(url, settings.timeout, use_asyncio=False)
        presence = cls(client, settings)
        presence._on_close += closers(client)
        return presence

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Self:
        """``PRESENCE_REDIS_URL`` and ``PRESENCE_<SETTING>``; the embedded server when no URL is set.

        For rediss also ``PRESENCE_REDIS_SSL_CA_CERTS``, ``…_SSL_CERTFILE`` and ``…_SSL_KEYFILE``, which name files.
        """
        environ = os.environ if environ is None else environ
        settings = Settings.from_env(environ)
        url = environ.get("PRESENCE_REDIS_URL", "").strip()
        return cls.from_url(with_files(url, environ), settings) if url else cls.embedded(settings=settings)

    @classmethod
    def embedded(cls, data_dir: str | os.PathLike[str] | None = None, settings: Settings | None = None) -> Self:
        """A private Redis of one's own, kept in ``data_dir`` and shared by every program that names the same.

        It stops with its last user; ``close()`` (or the end of a ``with``) ends this use. Raises Unavailable when no
        server binary is found, saying what to install.
        """
        from presence_core.embedded import EmbeddedServer

        server = EmbeddedServer.start(data_dir)
        presence = cls.from_url(server.url, settings)
        presence._on_close.append(server.close)
        return presence

    def close(self, wait: float | None = None) -> None:
        """Close the connections; stop an embedded server without other users. May be called twice.

        With ``settings.confirm_replicas`` it first waits until nothing is held: ``wait`` seconds at most, by default
        twice ``settings.confirm_hold``. What is still held then is logged and given up.
        """
        end = time.monotonic() + _longest(self._ctx, wait)
        if threading.current_thread() is not self._confirming:
            while self._ctx.held and not self._closed.is_set() and (left := end - time.monotonic()) > 0:
                self._keep_confirming()
                if self._confirming is not None:
                    self._confirming.join(left)
            self._closed.set()
            if self._confirming is not None:
                self._confirming.join()
        _release(self._ctx, logging.INFO if wait == 0 else logging.WARNING)
        self._transport.close()
        while self._on_close:
            self._on_close.pop(0)()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is not None and not issubclass(kind, Exception) and self._ctx.held:
            _release(self._ctx, logging.WARNING)  # an interrupt is not kept waiting
        self.close()

    def _run(self, op: Op[T]) -> T:
        try:
            return self._transport.run(upkeep.at_home(self._ctx, op))
        finally:
            if self._ctx.held:
                self._keep_confirming()

    def _keep_confirming(self) -> None:
        """A daemon thread for as long as something is held."""
        if not self._closed.is_set() and (self._confirming is None or not self._confirming.is_alive()):
            self._confirming = threading.Thread(target=self._confirm_all, name="presence-confirming", daemon=True)
            self._confirming.start()

    def _rest(self) -> bool:
        """Until the next round is due: at once where Sentinels name another master. False once this is closed."""
        master, end = self._transport.master, time.monotonic() + CONFIRM_EVERY
        while (left := end - time.monotonic()) > 0 and self._transport.master == master:
            if self._closed.wait(left if master is None else min(LOOK_EVERY, left)):
                return False
        return True

    def _confirm_all(self) -> None:
        rounds = 0
        while self._ctx.held and self._rest():
            try:
                self._transport.run(upkeep.at_home(self._ctx, confirming.confirm(self._ctx)))
            except PresenceError:
                pass  # Redis is away, or has not chosen a master yet: the next round
            rounds += 1
            _tell(self._ctx, rounds)


class AsyncClient:
    """The same for asyncio."""

    def __init__(self, client: AsyncRedis | AsyncRedisCluster, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self._transport = AsyncTransport(client, self.settings.timeout)
        self._ctx = _context(self.settings, self._transport)
        self._on_close: list[Any] = []
        self._closed = False
        self._confirming: asyncio.Task[None] | None = None
        renew_in_child(self, AsyncClient._start_anew)

    def _start_anew(self) -> None:
        """In a forked child, which has an event loop of its own."""
        self._confirming = None
        self._ctx.held.clear()  # its parent holds them

    @classmethod
    def from_url(cls, url: str, settings: Settings | None = None) -> Self:
        """See Presence.from_url; the first call connects, to a cluster too."""
        settings = settings or Settings()
        client = connect(url, settings.timeout, use_asyncio=True)
        presence = cls(client, settings)
        presence._on_close += closers(client)
        return presence

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Self:
        """See Presence.from_env."""
        environ = os.environ if environ is None else environ
        settings = Settings.from_env(environ)
        url = environ.get("PRESENCE_REDIS_URL", "").strip()
        return cls.from_url(with_files(url, environ), settings) if url else cls.embedded(settings=settings)

    @classmethod
    def embedded(cls, data_dir: str | os.PathLike[str] | None = None, settings: Settings | None = None) -> Self:
        """See Presence.embedded. Starting the server blocks for a fifth of a second."""
        from presence_core.embedded import EmbeddedServer

        server = EmbeddedServer.start(data_dir)
        presence = cls.from_url(server.url, settings)
        presence._on_close.append(server.close)
        return presence

    async def close(self, wait: float | None = None) -> None:
        """See Presence.close."""
        end = time.monotonic() + _longest(self._ctx, wait)
        try:
            while self._ctx.held and not self._closed and (left := end - time.monotonic()) > 0:
                self._keep_confirming()
                if self._confirming is not None:
                    await asyncio.wait({self._confirming}, timeout=left)
        finally:  # also where the task that closes it is cancelled
            self._closed = True
            if self._confirming is not None:
                self._confirming.cancel()
                await asyncio.gather(self._confirming, return_exceptions=True)
                self._confirming = None
            _release(self._ctx, logging.INFO if wait == 0 else logging.WARNING)
        await self._transport.close()
        while self._on_close:
            waiting = self._on_close.pop(0)()
            if waiting is not None:
                await waiting

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if kind is not None and not issubclass(kind, Exception) and self._ctx.held:
            _release(self._ctx, logging.WARNING)  # an interrupt is not kept waiting
        await self.close()

    async def _run(self, op: Op[T]) -> T:
        try:
            return await self._transport.run(upkeep.at_home(self._ctx, op))
        finally:
            if self._ctx.held:
                self._keep_confirming()

    def _keep_confirming(self) -> None:
        """A task for as long as something is held."""
        if not self._closed and (self._confirming is None or self._confirming.done()):
            self._confirming = asyncio.create_task(self._confirm_all())

    async def _rest(self) -> None:
        """Until the next round is due: at once where Sentinels name another master."""
        master, end = self._transport.master, time.monotonic() + CONFIRM_EVERY
        while (left := end - time.monotonic()) > 0 and self._transport.master == master:
            await asyncio.sleep(left if master is None else min(LOOK_EVERY, left))

    async def _confirm_all(self) -> None:
        rounds = 0
        while self._ctx.held:
            await self._rest()
            try:
                await self._transport.run(upkeep.at_home(self._ctx, confirming.confirm(self._ctx)))
            except PresenceError:
                pass  # Redis is away, or has not chosen a master yet: the next round
            rounds += 1
            _tell(self._ctx, rounds)
