"""The lines of docs/use/open_connections.md for websockets without ASGI run as they are printed."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from presence_core import Presence, Settings
from tests.conftest import Bed, on
from tests.support.fair_clock import PATIENT
from tests.support.servers import HOST, free_port
from tests.web.framework_pages.printed import ROOT

DOCUMENT = (ROOT / "docs/use/open_connections.md").read_text("utf-8")
BLOCKS = dict(re.findall(r"^```python ([\w-]+)\n(.*?)^```", DOCUMENT, re.M | re.S))


def test_every_block_of_the_page_is_tested() -> None:
    assert set(BLOCKS) == {"websockets"}
    assert len(BLOCKS) == DOCUMENT.count("\n```python")


@on("valkey-sync")
def test_a_websocket_of_another_package_closes_with_its_session(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRESENCE_REDIS_URL", bed.url)
    monkeypatch.setenv("PRESENCE_NAMESPACE", bed.namespace)
    port = free_port()
    site: dict[str, Any] = {"PORT": port}
    exec(compile(BLOCKS["websockets"], "docs/use/open_connections.md", "exec"), site)

    async def closed(socket: Any) -> tuple[int, str]:
        with pytest.raises(ConnectionClosed) as caught:
            await asyncio.wait_for(socket.recv(), 30)
        assert caught.value.rcvd is not None
        return caught.value.rcvd.code, caught.value.rcvd.reason

    async def visit(presence: Presence) -> None:
        serving = asyncio.create_task(site["main"]())
        while not serving.done():
            try:
                await (await connect(f"ws://{HOST}:{port}", proxy=None)).close()
                break
            except OSError:
                await asyncio.sleep(0.02)
        token = (await asyncio.to_thread(presence.login, "ada")).token
        headers = {"Cookie": f"theme=dark; presence={token}"}
        async with (
            connect(f"ws://{HOST}:{port}", proxy=None) as unknown,
            connect(f"ws://{HOST}:{port}", additional_headers=headers, proxy=None) as socket,
        ):
            assert await closed(unknown) == (4401, "unknown")
            await socket.send("hello")
            assert await socket.recv() == "ada: hello"
            await asyncio.to_thread(presence.kick, "ada", by="sam", reason="test")
            assert await closed(socket) == (4401, "kicked")
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)

    with Presence.from_url(bed.url, Settings(bed.namespace, timeout=PATIENT)) as presence:
        asyncio.run(visit(presence))
