"""``presence serve``: run the app under uvicorn, with limits that uvicorn lacks: slow clients, long heads."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import httptools
import uvicorn
from uvicorn.protocols.http.flow_control import service_unavailable
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from presence_core.client import AsyncPresence
from presence_core.prometheus import export_metrics
from presence_core.text.user_agents import is_crawler
from presence_core.trackers import AsyncLastSeenTracker, AsyncMinuteSetTracker
from presence_core.web.proxies import Proxies
from presence_core.web.service.api_keys import StoredKeys
from presence_core.web.service.app import create_app
from presence_core.web.service.problems import FULL, MEDIA_TYPE, RETRY_AFTER, problem
from presence_core.web.service.site_pages.options import NO_PROXIES, Pages
from presence_core.worker import Worker

if TYPE_CHECKING:
    from presence_core.otel import Telemetry
    from presence_core.web.backchannel_logout import LogoutReceiver

HEAD_SECONDS: Final = 10.0
"""How long the head of a request may take to arrive."""

MAX_HEAD: Final = 32_768
"""Bytes of the request line and headers."""

WRITE_SECONDS: Final = 30.0
"""How long a client may leave a response unread."""

MAX_CONNECTIONS: Final = 10_000
"""Connections of one process. Requests on further connections are answered with 503."""

WINDOW: Final = 600
"""Seconds for which /counter and /online count a visitor."""


class Protocol(HttpToolsProtocol):
    """HTTP/1.1 with time limits for heads and unread responses, and without trailers and upgrades."""

    _head_timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None
    _head = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head_timer = self.loop.call_later(HEAD_SECONDS, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._head_timer, self._write_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        timer = self._head_timer
        try:
            self._parse(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):  # the second: CONNECT
            self.send_400_response("Invalid HTTP request received.")
        # A head that begins in this packet, after another request, has another timer. It counts from the next packet.
        if timer is not None and timer is self._head_timer and not self.transport.is_closing():
            self._head += len(data)
            if self._head > MAX_HEAD:
                self.send_400_response("The head of the request is too long.")

    def _parse(self, data: bytes) -> None:
        """A parser ends at a head with Upgrade. The server ignores this header: another parser gets the head without
        it, and then the rest."""
        rest = memoryview(data)
        while rest:
            try:
                self.parser.feed_data(rest)
                return
            except httptools.HttpParserUpgrade as upgrade:
                if super()._should_upgrade():  # an application with websockets
                    self.handle_websocket_upgrade()
                    return
                rest = rest[upgrade.args[0] :]
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
                self.parser.feed_data(self._head_without_upgrade())

    def _head_without_upgrade(self) -> bytes:
        lines = [name + b": " + value for name, value in self.headers if name != b"upgrade"]
        first = f"{self.scope['method']} ".encode() + self.url + f" HTTP/{self.scope['http_version']}".encode()
        return b"\r\n".join([first, *lines, b"", b""])

    def _should_upgrade(self) -> bool:
        """Start no request at a head with Upgrade: ``_parse`` decides about it."""
        return True

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head = 0
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._head_timer is not None:  # trailers, which come after a body, are dropped: proxies do not check them
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > MAX_HEAD:
            raise ValueError("the head is too long")  # the parser stops, and the response is 400
        super().on_headers_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        if app is service_unavailable:  # more than MAX_CONNECTIONS: uvicorn would answer plain text
            app = problem(503, FULL, RETRY_AFTER)
        super()._start_asgi_task(cycle, app)

    def send_400_response(self, msg: str) -> None:
        body = json.dumps({"type": "about:blank", "title": "Bad Request", "status": 400, "detail": msg}).encode()
        head = f"HTTP/1.1 400 Bad Request\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: {len(body)}\r\n"
        self.transport.write(f"{head}Cache-Control: no-store\r\nConnection: close\r\n\r\n".encode() + body)
        self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self.loop.call_later(WRITE_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None
        super().resume_writing()


class Server(uvicorn.Server):
    """Disconnects the readers of events at shutdown. Otherwise it would wait for them."""

    def __init__(self, config: uvicorn.Config, terminated: threading.Event) -> None:
        super().__init__(config)
        self._terminated = terminated

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn.Server. From here on it handles the signals itself."""
        self.should_exit = self.should_exit or self._terminated.is_set()
        await super().startup(sockets)
        gc.collect()
        gc.freeze()  # else each full collection looks at all modules again, 30 ms in which no request is answered

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn.Server."""
        app: Any = self.config.app
        app.state.event_poller.close()
        await super().shutdown(sockets)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Options of ``serve``."""

    with_keys: bool  #: False: serve only this machine
    with_pages: bool
    origins: tuple[str, ...] = ()
    friends_key: str = ""
    cookie: str = "presence"
    public: bool = False
    proxies: Proxies = NO_PROXIES
    with_telemetry: bool = False  #: spans and measurements by OpenTelemetry
    logouts: LogoutReceiver | None = None  #: of identity providers


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises OSError."""
    return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=2048)


def await_sigterm() -> threading.Event:
    """From now on SIGTERM does not kill the process, but sets this event. uvicorn raises the signal once more after it
    has stopped."""
    terminated = threading.Event()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: terminated.set())
    return terminated


def serve(
    make: Callable[[], AsyncPresence],
    offer: Offer,
    listening: socket.socket,
    terminated: threading.Event,
    worker: Worker | None = None,
) -> None:
    """Serve until Ctrl-C or SIGTERM. make: creates the client, on the event loop that it belongs to. terminated: see
    ``await_sigterm``. worker: of this process, for its metrics."""
    config = uvicorn.Config(
        _no_app, http=Protocol, ws="none", lifespan="off", log_config=None, log_level="warning", access_log=False,
        proxy_headers=False, server_header=False, timeout_keep_alive=30, timeout_graceful_shutdown=5,
        limit_concurrency=MAX_CONNECTIONS,
    )  # fmt: skip

    async def run() -> None:
        async with contextlib.AsyncExitStack() as stack:
            presence = await stack.enter_async_context(make())
            pages = await _pages(presence, offer, stack) if offer.with_pages else None
            telemetry = _telemetry(presence) if offer.with_telemetry else None
            keys = StoredKeys(presence) if offer.with_keys else None
            config.app = app = create_app(presence, keys=keys, serves=pages, telemetry=telemetry, logouts=offer.logouts)
            if offer.logouts is not None:
                app.state.logouts.watch_spool()
            if worker is not None:
                export_metrics(worker=worker, registry=app.state.meters.registry)
            await Server(config, terminated).serve([listening])

    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(run())


def _telemetry(presence: AsyncPresence) -> Telemetry:
    from presence_core.otel import add_telemetry

    return add_telemetry(presence)


async def _no_app(*_: object) -> None:
    raise RuntimeError("the app is created on the event loop")


async def _pages(presence: AsyncPresence, offer: Offer, stack: contextlib.AsyncExitStack) -> Pages:
    await presence.counts()  # reads the layout
    is_crawler("")  # half a second, once: not while visitors wait
    common, client = presence.internal.context.keys.common, presence.internal.redis_client
    counter = await stack.enter_async_context(AsyncLastSeenTracker(client, common.visitors, WINDOW))
    visits = await stack.enter_async_context(AsyncMinuteSetTracker(client, common.visits, WINDOW))
    return Pages(counter=counter, visits=visits, origins=offer.origins, friends_key=offer.friends_key,
                 cookie=offer.cookie, public=offer.public, proxies=offer.proxies)  # fmt: skip
