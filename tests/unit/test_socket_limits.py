"""What a websocket without a sign-in may cost: the limits of the gate, without a server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

import pytest
from starlette.types import Message, Receive, Scope, Send

from presence_core import Presence
from presence_dashboard.gate.limits import socket_limits
from presence_dashboard.gate.limits.socket_limits import (
    LARGEST_MESSAGE,
    MESSAGES_BY_SOCKET,
    MESSAGES_IN_ALL,
    NEW_BY_ADDRESS,
    OPEN_BY_ADDRESS,
    OPEN_IN_ALL,
    Rate,
    SocketLimits,
)
from presence_dashboard.gate.staff_sessions import COOKIE, KEEP, SignedInMember, StaffSessions
from presence_dashboard.gate_settings import Config
from presence_dashboard.roles import SignedOut

STRANGER = "203.0.113.7"


def nowhere() -> NoReturn:
    raise AssertionError("Redis is not needed")


class Staff(StaffSessions):
    """Members whose sign-ins are live, by their cookies."""

    def __init__(self) -> None:
        connect: Callable[[], Presence] = nowhere
        super().__init__(Config(mode="password"), connect, connect)
        self.live = {"dana"}

    def by_token(self, token: str | None, *, touch: bool = False, fresh: bool = False) -> SignedInMember:
        if token not in self.live:
            raise SignedOut("no")
        return SignedInMember(token, "support")


class Client:
    """One websocket. The page that it opens reads all of its messages."""

    def __init__(self, gate: SocketLimits, address: str = STRANGER, token: str = "") -> None:
        self._messages: asyncio.Queue[Message] = asyncio.Queue()
        self._sent: list[Message] = []
        headers = [(b"cookie", f"{COOKIE}={token}".encode())]
        scope: dict[str, Any] = {"type": "websocket", "client": (address, 5000), "headers": headers, "client_of": self}
        self.read: list[bytes] = []
        self._run = asyncio.create_task(gate(scope, self._messages.get, self._note))

    async def _note(self, message: Message) -> None:
        self._sent.append(message)

    def send(self, *messages: bytes) -> None:
        for message in messages:
            self._messages.put_nowait({"type": "websocket.receive", "bytes": message})

    @property
    def close_code(self) -> int | None:
        return self._sent[-1]["code"] if self._sent else None

    async def end(self) -> None:
        self._messages.put_nowait({"type": "websocket.disconnect"})
        await self._run


async def page(scope: Scope, receive: Receive, _send: Send) -> None:
    while (message := await receive())["type"] == "websocket.receive":
        scope["client_of"].read.append(message["bytes"])


def run(test: Callable[[SocketLimits, Staff], Awaitable[None]]) -> None:
    staff = Staff()

    async def main() -> None:
        await asyncio.wait_for(test(SocketLimits(page, staff), staff), 60)

    asyncio.run(main())


async def settled() -> None:
    """Until all that needs no time has been done, in threads too."""
    await asyncio.sleep(0.3)


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0)


def closed(clients: list[Client]) -> list[int]:
    return [place for place, client in enumerate(clients) if client.close_code is not None]


def test_one_more_socket_of_an_address_closes_its_oldest() -> None:
    async def test(gate: SocketLimits, _staff: Staff) -> None:
        other, member = Client(gate, "203.0.113.8"), Client(gate, token="dana")
        strangers = [Client(gate) for _ in range(OPEN_BY_ADDRESS)]
        await settled()
        assert closed(strangers) == []
        strangers += [Client(gate), Client(gate)]
        await settled()
        assert closed(strangers) == [0, 1]
        assert strangers[0].close_code == 1013
        await strangers[5].end()
        strangers.append(Client(gate))
        await settled()
        assert closed(strangers) == [0, 1], "a socket that ended leaves its place to another"
        assert closed([other, member]) == []

    run(test)


def test_one_more_socket_in_all_closes_one_of_the_address_that_has_the_most() -> None:
    async def test(gate: SocketLimits, _staff: Staff) -> None:
        visitors = [Client(gate, f"198.51.100.{number}") for number in range(OPEN_IN_ALL - OPEN_BY_ADDRESS)]
        flood = [Client(gate, f"2001:db8::{number:x}") for number in range(OPEN_BY_ADDRESS)]  # one customer's network
        await settled()
        assert closed(visitors) == closed(flood) == []
        visitors.append(Client(gate, "192.0.2.7"))
        await settled()
        assert (closed(visitors), closed(flood)) == ([], [0])

    run(test)


def test_an_address_that_opens_sockets_too_fast_is_refused_for_seconds() -> None:
    async def test(gate: SocketLimits, _staff: Staff) -> None:
        for _ in range(NEW_BY_ADDRESS.at_once):
            await Client(gate).end()
        refused, other, member = Client(gate), Client(gate, "203.0.113.8"), Client(gate, token="dana")
        await settled()
        assert (refused.close_code, other.close_code, member.close_code) == (1013, None, None)
        await asyncio.sleep(2 / NEW_BY_ADDRESS.per_second)
        later = Client(gate)
        await settled()
        assert later.close_code is None

    run(test)


def test_a_long_message_closes_the_socket() -> None:
    async def test(gate: SocketLimits, _staff: Staff) -> None:
        stranger, member = Client(gate), Client(gate, token="dana")
        for client in (stranger, member):
            client.send(b"x" * LARGEST_MESSAGE, b"x" * (LARGEST_MESSAGE + 1))
        await settled()
        assert [len(message) for message in stranger.read] == [LARGEST_MESSAGE]
        assert stranger.close_code == 1009
        assert [len(message) for message in member.read] == [LARGEST_MESSAGE, LARGEST_MESSAGE + 1]

    run(test)


def test_messages_wait_for_their_turn_and_none_is_lost() -> None:
    async def test(gate: SocketLimits, _staff: Staff) -> None:
        stranger, member = Client(gate), Client(gate, token="dana")
        messages, began = [bytes([number]) for number in range(MESSAGES_BY_SOCKET.at_once + 5)], time.monotonic()
        for client in (member, stranger):
            client.send(*messages)
        await member.end()
        assert member.read == messages
        assert len(stranger.read) <= MESSAGES_BY_SOCKET.at_once + 1
        await until(lambda: stranger.read == messages)
        assert time.monotonic() - began >= 5 / MESSAGES_BY_SOCKET.per_second

    run(test)


def test_messages_of_many_addresses_wait_too_and_those_of_members_do_not() -> None:
    async def test(gate: SocketLimits, _staff: Staff) -> None:
        member = Client(gate, token="dana")
        each, more = MESSAGES_BY_SOCKET.at_once, 3
        addresses = [f"198.51.100.{number}" for number in range(MESSAGES_IN_ALL.at_once // each + more)]
        strangers, began = [Client(gate, address) for address in addresses], time.monotonic()
        for client in strangers:
            client.send(*[b"x"] * each)
        await settled()
        member.send(*[b"x"] * 100)
        await member.end()
        assert len(member.read) == 100
        assert sum(len(client.read) for client in strangers) < each * len(strangers)
        await until(lambda: all(len(client.read) == each for client in strangers))
        assert time.monotonic() - began >= more * each / MESSAGES_IN_ALL.per_second

    run(test)


@pytest.mark.parametrize(
    ("flood_of", "colleague_of", "turns"),
    [
        ("203.0.113.{}", "203.0.113.8", 4),
        ("203.0.113.{}", "198.51.100.8", 1),
        ("203.0.{}.7", "203.0.8.7", 4),
        ("2001:db8:0:{}::7", "2001:db8:0:8::7", 4),
        ("2001:db8:0:{}::7", "2001:db8:1::7", 1),
    ],
)
def test_networks_take_turns_and_in_each_its_addresses(
    monkeypatch: pytest.MonkeyPatch, flood_of: str, colleague_of: str, turns: int
) -> None:
    monkeypatch.setattr(socket_limits, "MESSAGES_IN_ALL", Rate(50, 1))

    async def test(gate: SocketLimits, _staff: Staff) -> None:
        flood = [Client(gate, flood_of.format(number % 4)) for number in range(40)]
        for client in flood:
            client.send(*[b"x"] * 10)
        await until(lambda: len(flood[0].read) > 0)
        colleague, before = Client(gate, colleague_of), sum(len(client.read) for client in flood)
        colleague.send(b"x")
        await until(lambda: len(colleague.read) > 0)
        assert sum(len(client.read) for client in flood) - before <= turns + 1  # one may have begun

    run(test)


@pytest.mark.parametrize("how", ["they leave", "they are closed"])
def test_strangers_that_are_gone_delay_no_one(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    monkeypatch.setattr(socket_limits, "MESSAGES_IN_ALL", Rate(1, 1))
    monkeypatch.setattr(socket_limits, "OPEN_IN_ALL", 80)

    async def test(gate: SocketLimits, _staff: Staff) -> None:
        strangers = [Client(gate, f"198.51.100.{number}") for number in range(80)]
        for client in strangers:
            client.send(b"x", b"y")
        await settled()
        if how == "they leave":
            await asyncio.gather(*[client.end() for client in strangers])
        else:
            _others = [Client(gate, f"203.0.113.{number}") for number in range(80)]
            await until(lambda: len(closed(strangers)) == 80)
        colleague = Client(gate, "192.0.2.7")
        colleague.send(b"x")
        await asyncio.wait_for(until(lambda: len(colleague.read) > 0), 20)  # 80 turns take 80 seconds
        assert sum(len(client.read) for client in strangers) < 20

    run(test)


def test_a_message_that_waits_for_its_own_address_takes_no_turn_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_limits, "MESSAGES_BY_ADDRESS", Rate(0.01, 1))
    monkeypatch.setattr(socket_limits, "MESSAGES_IN_ALL", Rate(0.01, 2))

    async def test(gate: SocketLimits, _staff: Staff) -> None:
        flood = [Client(gate) for _ in range(10)]
        for client in flood:
            client.send(b"x")
        await settled()
        colleague = Client(gate, "203.0.113.8")
        colleague.send(b"x")
        await asyncio.wait_for(until(lambda: len(colleague.read) > 0), 20)

    run(test)


@pytest.mark.parametrize("ends", [True, False])
def test_a_sign_in_that_ends_leaves_the_page_with_the_limits(ends: bool) -> None:
    async def test(gate: SocketLimits, staff: Staff) -> None:
        client = Client(gate, token="dana" if ends else "eve")
        await settled()
        staff.live ^= {"dana", "eve"}
        await asyncio.sleep(KEEP)
        client.send(b"x" * (LARGEST_MESSAGE + 1))
        await settled()
        assert (client.close_code == 1009) is ends

    run(test)
