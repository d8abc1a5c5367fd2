"""A page behind the gate, for tests without a server: only the effect of the gate on an accepted connection."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from starlette.types import Message, Receive, Scope, Send

from presence_dashboard.gate.gate_mark import GateMark


@dataclass
class Connection:
    """The information that Streamlit has about a page's websocket."""

    headers: list[tuple[str, str]]
    cookies: Mapping[str, str] = field(default_factory=dict)
    remote_ip: str | None = "127.0.0.1"


def through_the_mark(kind: str, *headers: tuple[str, str]) -> list[tuple[str, str]]:
    """The headers of such a connection inside the gate."""
    inside: list[Scope] = []

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        inside.append(scope)

    async def receive() -> Message:
        return {"type": f"{kind}.connect"}

    async def send(_message: Message) -> None:
        return

    sent = [(name.encode(), value.encode()) for name, value in headers]
    asyncio.run(GateMark(app)({"type": kind, "headers": sent}, receive, send))
    return [(name.decode(), value.decode()) for name, value in inside[0]["headers"]]


def stand_behind_gate(monkeypatch: pytest.MonkeyPatch, cookies: Mapping[str, str] | None = None) -> None:
    """Every page that runs from now on has a connection that the gate accepted."""
    connection = Connection(through_the_mark("websocket"), {} if cookies is None else cookies)
    monkeypatch.setattr("streamlit.runtime.context._get_client_context", lambda: connection)
