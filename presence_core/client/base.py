"""How a client connects, runs operations, and closes."""

from __future__ import annotations

import os
import random
import secrets
from binascii import b2a_base64
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from presence_core.operations import upkeep
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


def new_id() -> str:
    """128 random bits, less one in 64 of all values, as 22 URL-safe characters; a dash in front would read as an option
    on a command line."""
    made = b2a_base64(secrets.token_bytes(16), newline=False)[:22].translate(_URL_SAFE).decode()
    return new_id() if made.startswith("-") else made


def _context(settings: Settings, is_cluster: bool) -> Context:
    return Context(
        settings,
        is_cluster,
        new_id=new_id,
        new_secret=lambda: secrets.token_bytes(32),
        random=lambda: random.getrandbits(31),
    )


class Client:
    """The part of Presence that knows a connection."""

    def __init__(self, client: Redis | RedisCluster, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self._transport = SyncTransport(client, self.settings.timeout)
        self._ctx = _context(self.settings, self._transport.is_cluster)
        self._on_close: list[Any] = []

    @classmethod
    def from_url(cls, url: str, settings: Settings | None = None) -> Self:
        """Connect by URL: redis://, rediss://, unix://, redis+sentinel://h1,h2,h3/name/db or redis+cluster://.

        The first call connects, not this one (a cluster's layout is fetched here).
        """
        settings = settings or Settings()
        client = connect(url, settings.timeout, use_asyncio=False)
        presence = cls(client, settings)
        presence._on_close += closers(client)
        return presence

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Self:
        """``PRESENCE_REDIS_URL`` and ``PRESENCE_<SETTING>``; the embedded server when no URL is set."""
        environ = os.environ if environ is None else environ
        settings = Settings.from_env(environ)
        url = environ.get("PRESENCE_REDIS_URL", "").strip()
        return cls.from_url(url, settings) if url else cls.embedded(settings=settings)

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

    def close(self) -> None:
        """Close the connections; stop an embedded server that nobody else uses. May be called twice."""
        self._transport.close()
        while self._on_close:
            self._on_close.pop(0)()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _run(self, op: Op[T]) -> T:
        if self._ctx.keyspace is None or self._ctx.is_guess:
            self._transport.run(upkeep.handshake(self._ctx))
        return self._transport.run(op)


class AsyncClient:
    """The same for asyncio."""

    def __init__(self, client: AsyncRedis | AsyncRedisCluster, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self._transport = AsyncTransport(client, self.settings.timeout)
        self._ctx = _context(self.settings, self._transport.is_cluster)
        self._on_close: list[Any] = []

    @classmethod
    def from_url(cls, url: str, settings: Settings | None = None) -> Self:
        """See Presence.from_url."""
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
        return cls.from_url(url, settings) if url else cls.embedded(settings=settings)

    @classmethod
    def embedded(cls, data_dir: str | os.PathLike[str] | None = None, settings: Settings | None = None) -> Self:
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

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    async def _run(self, op: Op[T]) -> T:
        if self._ctx.keyspace is None or self._ctx.is_guess:
            await self._transport.run(upkeep.handshake(self._ctx))
        return await self._transport.run(op)
