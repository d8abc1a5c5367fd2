"""A proxy in front of a server, which is slow, cuts connections, loses data, or changes replies."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tests.support.facade import EventLoop
from tests.support.servers import HOST, Server


class Proxy:
    """``with Proxy(server, loop) as proxy``: clients connect to ``proxy.url``; its attributes set the faults."""

    def __init__(self, server: Server | int, loop: EventLoop) -> None:
        self.delay = 0.0  #: seconds by which each reply is delayed
        self.lost = 0  #: number of replies to swallow; their connection is cut: the server has run the calls
        self.halved = 0  #: number of requests that reach the server only in part; their connection is cut
        self.piece: Callable[[], int] | None = None  #: the number of bytes of the next piece of what the server replies
        self.rewrite: Callable[[bytes], bytes] = lambda replies: replies  #: changes what the server has replied
        self.passed: dict[int, int] = {}  #: bytes that passed in both directions, by number of the connection
        self.holds: Callable[[str], bool] = lambda source: False  #: callers, by address, whose data wait both ways
        self._forgotten = 0  #: connections up to this number
        self._accepted = 0
        self._target = server.port if isinstance(server, Server) else server
        self._loop = loop
        self._ends: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()  #: one a connection

    def __enter__(self) -> Self:
        self._server = self._loop.run(asyncio.start_server(self._serve, HOST, 0))
        self.port: int = self._server.sockets[0].getsockname()[1]
        self.address = f"{HOST}:{self.port}"
        self.url = f"redis://{self.address}/0"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        async def stop() -> None:
            self._server.close()
            for _ in range(5):  # so many turns until what was accepted last has its task
                await asyncio.sleep(0)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await asyncio.sleep(0)  # an aborted transport closes its socket one turn later

        self._loop.run(stop())

    def cut(self) -> None:
        """Cut every connection, now."""

        def abort() -> None:
            for end in list(self._ends):
                end.transport.abort()

        self._loop.call(abort)

    def forget(self) -> None:
        """Drop what is sent over the connections that are there, without closing them: as a firewall does."""
        self._forgotten = self._accepted

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = {writer}
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._accepted += 1
        number = self._accepted
        self.passed[number] = 0
        try:
            upstream, server = await asyncio.open_connection(HOST, self._target)
            ends.add(server)
            self._ends |= ends
            source = writer.get_extra_info("peername")[0]
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._requests(reader, server, source, number))
                pumps.create_task(self._answers(upstream, writer, source, number))
        except (OSError, ExceptionGroup):
            pass
        finally:
            self._ends -= ends
            for end in ends:
                with contextlib.suppress(OSError, RuntimeError):
                    end.transport.abort()
            self._tasks.discard(task)

    async def _held(self, source: str) -> None:
        """As in a partition: no data pass, and delayed data arrive afterwards."""
        while self.holds(source):
            await asyncio.sleep(0.02)

    async def _requests(
        self, reader: asyncio.StreamReader, server: asyncio.StreamWriter, source: str, number: int
    ) -> None:
        while data := await reader.read(65_536):
            self.passed[number] += len(data)
            await self._held(source)
            if number <= self._forgotten:
                continue
            is_cut = self.halved > 0
            self.halved -= is_cut
            server.write(data[: len(data) // 4] if is_cut else data)
            await server.drain()
            if is_cut:
                break
        raise ConnectionError("the client has gone, or was cut off")

    async def _answers(
        self, upstream: asyncio.StreamReader, writer: asyncio.StreamWriter, source: str, number: int
    ) -> None:
        while data := await upstream.read(65_536):
            self.passed[number] += len(data)
            await self._held(source)
            if self.delay:
                await asyncio.sleep(self.delay)
            if self.lost > 0:
                self.lost -= 1
                break
            data = self.rewrite(data)
            while data:
                length = self.piece() if self.piece else len(data)
                writer.write(data[:length])
                data = data[length:]
                await writer.drain()
                if data:
                    await asyncio.sleep(0)
        raise ConnectionError("the server has gone, or its answer was lost")
