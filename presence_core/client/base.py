"""How a client is made, from a URL or the environment, and how it closes."""

from __future__ import annotations

import functools
import logging
import os
import random
import secrets
import time
from binascii import b2a_base64
from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, ParamSpec, Self, TypeVar

from presence_core.client.internal import AsyncInternal, Internal
from presence_core.client.pending import pending
from presence_core.client.replica_ack import ReplicaAckTask, ReplicaAckThread, give_up, seconds_to_wait
from presence_core.client.server_choice import EMBEDDED, choose_server
from presence_core.end_watch import EndWatchTask, EndWatchThread
from presence_core.files.place_files import open_places
from presence_core.logs import VisitorLog, WorkerLog
from presence_core.operations.context import Context
from presence_core.operations.visitor_fields import VisitorFields
from presence_core.scripts.calls import Op
from presence_core.settings import Settings
from presence_core.transport import AsyncTransport, SyncTransport, closers, connect

if TYPE_CHECKING:
    from redis import Redis, RedisCluster
    from redis.asyncio import Redis as AsyncRedis
    from redis.asyncio import RedisCluster as AsyncRedisCluster

T = TypeVar("T")
P = ParamSpec("P")

_URL_SAFE = bytes.maketrans(b"+/", b"-_")


def awaited(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """The asyncio twin of a method, with the same signature and docstring.

    ``method`` ends by returning what the client's ``_run`` returns: the result in a blocking class, in an asyncio class
    a coroutine.
    """

    @functools.wraps(method)
    async def twin(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await method(self, *args, **kwargs)  # type: ignore[misc, no-any-return]  # _run returns a coroutine here

    return pending(twin)


def copy_docstrings(sync: type, asynchronous: type) -> None:
    """Give an asyncio class the docstrings of its blocking twin for each method that has none, for ``help()``."""
    for owner in asynchronous.__mro__:
        for name, method in vars(owner).items():
            if not name.startswith("_") and callable(method) and not method.__doc__:
                method.__doc__ = getattr(sync, name).__doc__


def new_id() -> str:
    """A session id: 22 URL-safe characters, nearly 128 random bits. None begins with a dash, which would look like an
    option on a command line."""
    made = b2a_base64(secrets.token_bytes(16), newline=False)[:22].translate(_URL_SAFE).decode()
    return new_id() if made.startswith("-") else made


def _context(settings: Settings, transport: SyncTransport | AsyncTransport) -> Context:
    visitor_log = VisitorLog()
    return Context(
        settings,
        transport.is_cluster,
        new_id=new_id,
        new_secret=lambda: secrets.token_bytes(32),
        random=lambda: random.getrandbits(31),
        clock=time.monotonic,
        visitor=VisitorFields(
            refuse=settings.unfit == "refuse", unfit=visitor_log.unfit, record=settings.record_address
        ),
        server_of=transport.server_of,
        on_no_address=visitor_log.no_address,
        on_worker=WorkerLog(settings.namespace).report,
        place_of=open_places(settings.place_file),
    )


class _Constructors:
    """The ways to make a client, the same for both."""

    _USES_ASYNCIO: ClassVar[bool]
    _transport: SyncTransport | AsyncTransport

    def __init__(self, client: Any, settings: Settings | None) -> None:
        self.settings = settings or Settings()
        self._on_close: list[Callable[[], Any]] = []

    @classmethod
    def from_url(cls, url: str, settings: Settings | None = None) -> Self:
        """Connect by URL: redis://, unix://, redis+sentinel://h1,h2,h3/name/db or redis+cluster://h1,h2.

        With rediss in place of redis it uses TLS. ``?ssl_ca_certs=``, ``ssl_certfile=`` and ``ssl_keyfile=`` name
        files. The host name is checked, unless ``ssl_check_hostname=false``.

        The first call connects, not this one; but a Presence on a cluster reads the layout here, and raises Unavailable
        if it cannot. Raises InvalidArgument for any other URL, without repeating it.
        """
        settings = settings or Settings()
        client = connect(url, settings.timeout, use_asyncio=cls._USES_ASYNCIO)
        presence = cls(client, settings)
        presence._on_close += closers(client)
        return presence

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Connect to ``PRESENCE_REDIS_URL``, with settings from ``PRESENCE_<SETTING>``.

        ``PRESENCE_REDIS_URL_FILE`` may name a file with the URL instead. The URL ``embedded`` starts or joins the
        embedded server, with its data in ``PRESENCE_DATA_DIR``. With a rediss URL, ``PRESENCE_REDIS_SSL_CA_CERTS``,
        ``…_SSL_CERTFILE`` and ``…_SSL_KEYFILE`` name files.

        Without the variable, ``REDIS_URL`` is used if its server has the namespace already. This check waits for one
        round trip, and raises Unavailable if the server does not answer. Raises InvalidArgument if no server is named.
        """
        environ = os.environ if environ is None else environ
        settings = Settings.from_env(environ)
        url = choose_server(environ, settings)
        if url == EMBEDDED:
            return cls.embedded(environ.get("PRESENCE_DATA_DIR") or None, settings)
        return cls.from_url(url, settings)

    @classmethod
    def embedded(cls, data_dir: str | os.PathLike[str] | None = None, settings: Settings | None = None) -> Self:
        """A private Redis with its data in ``data_dir``, shared by all programs that name the same directory.

        ``close()``, or the end of a ``with``, detaches this program. The server stops when the last program detaches.
        Starting it blocks for a fifth of a second. Raises Unavailable if no server binary is found, and says what to
        install.
        """
        from presence_core.embedded import EmbeddedServer

        server = EmbeddedServer.start(data_dir)
        presence = cls.from_url(server.url, settings)
        presence._on_close.append(server.close)
        return presence

    @property
    def may_fail_over(self) -> bool:
        """Whether another server may take over: behind Sentinel, or on a cluster."""
        return self._transport.may_fail_over


class Client(_Constructors):
    """What the methods of Presence are built on."""

    _USES_ASYNCIO = False
    _transport: SyncTransport

    def __init__(self, client: Redis | RedisCluster, settings: Settings | None = None) -> None:
        super().__init__(client, settings)
        self._transport = SyncTransport(client, self.settings.timeout)
        self._ctx = _context(self.settings, self._transport)
        self._replica_acks = ReplicaAckThread(self._ctx, self._transport)
        ends = EndWatchThread(self._ctx, self._transport)
        self.internal = Internal(self._ctx, client, self._transport, self._replica_acks, ends)
        """For our own worker, web service and commands; may change without notice."""

    def close(self, wait: float | None = None) -> None:
        """Close the connections, and stop an embedded server that has no other users. May be called twice.

        Later calls raise Unavailable. A ``with`` opens the client again, so a site's tests may start and stop it often.

        With ``settings.confirm_replicas`` it first waits until nothing is held: at most ``wait`` seconds, by default
        twice ``settings.confirm_hold``. Changes that are still held then are logged and given up.
        """
        self.internal.ends.stop()
        self._replica_acks.stop(time.monotonic() + seconds_to_wait(self._ctx, wait))
        give_up(self._ctx, logging.INFO if wait == 0 else logging.WARNING)
        self.internal.is_closed = True
        self._transport.close()
        while self._on_close:
            self._on_close.pop(0)()

    def __enter__(self) -> Self:
        self.internal.is_closed = False
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is not None and not issubclass(kind, Exception):
            give_up(self._ctx, logging.WARNING)  # an interrupt does not wait
        self.close()

    def _run(self, op: Op[T]) -> T:
        return self.internal.run(op)


class AsyncClient(_Constructors):
    """What the methods of AsyncPresence are built on."""

    _USES_ASYNCIO = True
    _transport: AsyncTransport

    def __init__(self, client: AsyncRedis | AsyncRedisCluster, settings: Settings | None = None) -> None:
        super().__init__(client, settings)
        self._transport = AsyncTransport(client, self.settings.timeout)
        self._ctx = _context(self.settings, self._transport)
        self._replica_acks = ReplicaAckTask(self._ctx, self._transport)
        ends = EndWatchTask(self._ctx, self._transport)
        self.internal = AsyncInternal(self._ctx, client, self._transport, self._replica_acks, ends)
        """For our own worker, web service and commands; may change without notice."""

    @pending
    async def close(self, wait: float | None = None) -> None:
        until = time.monotonic() + seconds_to_wait(self._ctx, wait)
        try:
            await self.internal.ends.stop()
            await self._replica_acks.stop(until)
        finally:  # also if the task that closes it is cancelled
            give_up(self._ctx, logging.INFO if wait == 0 else logging.WARNING)
        self.internal.is_closed = True
        await self._transport.close()
        while self._on_close:
            waiting = self._on_close.pop(0)()
            if waiting is not None:
                await waiting

    async def __aenter__(self) -> Self:
        self.internal.is_closed = False
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if kind is not None and not issubclass(kind, Exception):
            give_up(self._ctx, logging.WARNING)  # an interrupt does not wait
        await self.close()

    def _run(self, op: Op[T]) -> Coroutine[Any, Any, T]:
        return self.internal.run(op)
