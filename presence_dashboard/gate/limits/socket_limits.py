"""What websockets without a sign-in may cost. Those of signed-in members have no limit here.

With OIDC, Streamlit runs the sign-in in a page: anyone gets a websocket, and each of its messages runs a script. In the
modes "password" and "proxy", ``SignedInOnly`` lets no one in without a sign-in, so these limits are for pages whose
sign-in has ended. In mode "open", everyone on this machine is the operator.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

import anyio
from anyio import to_thread
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from presence_core import PresenceError
from presence_dashboard.gate.limits.read_ahead import ReadAhead
from presence_dashboard.gate.limits.sign_in_limits import network_of, wide_network_of
from presence_dashboard.gate.oidc.claims import claims_of, is_live
from presence_dashboard.gate.sign_in_forms import client_of
from presence_dashboard.gate.staff_sessions import COOKIE, KEEP, StaffSessions
from presence_dashboard.roles import SignedOut


class Rate(NamedTuple):
    per_second: float
    at_once: int  #: after a pause


LARGEST_MESSAGE: Final = 65_536
LARGEST_OF_MEMBERS: Final = 1_000_000
"""Bytes of a message, without a sign-in and with one. A longer one closes the socket. Pages send far less: a list of
1,000 rows with all ticks some 300,000."""

OPEN_BY_ADDRESS: Final = 50
OPEN_IN_ALL: Final = 250
"""Open sockets. One more closes the oldest: of its address, or of the address that has the most."""

NEW_BY_ADDRESS: Final = Rate(5, 60)
"""New sockets. More are refused."""

MESSAGES_BY_SOCKET: Final = Rate(5, 10)
MESSAGES_BY_ADDRESS: Final = Rate(10, 60)
MESSAGES_IN_ALL: Final = Rate(20, 120)
"""Messages. More wait, and the client with them. Each runs the script of a page, for some 10 ms of a core."""

READ_AHEAD: Final = 10
"""Messages of a socket that are read while one waits. Behind them, a client that leaves is not noticed."""

_TRY_LATER: Final = 1013
_TOO_BIG: Final = 1009
_MOST_ADDRESSES: Final = 20_000  # remembered; those without a new socket for the longest time are forgotten first
_CLOSING: Final = 1.0  # seconds to send the reason to a client that may not read


class Pace:
    """Passes what keeps to a rate."""

    def __init__(self, rate: Rate) -> None:
        self._step = 1 / rate.per_second
        self._ahead = self._step * (rate.at_once - 1)
        self._next = 0.0

    def delay(self) -> float:
        """The seconds until the next turn."""
        return max(0.0, self._next - time.monotonic())

    def take(self) -> None:
        """Count one more."""
        self._next = max(self._next, time.monotonic() - self._ahead) + self._step

    def passes(self) -> bool:
        """Count one more if it need not wait; otherwise return False."""
        if self.delay() > 0:
            return False
        self.take()
        return True


@dataclass(eq=False)
class _Network:
    is_next: anyio.Lock = field(default_factory=anyio.Lock)  #: held by its message that waits next to other networks


@dataclass
class _Address:
    wide: _Network
    new: Pace = field(default_factory=lambda: Pace(NEW_BY_ADDRESS))
    messages: Pace = field(default_factory=lambda: Pace(MESSAGES_BY_ADDRESS))
    is_next: anyio.Lock = field(default_factory=anyio.Lock)  #: the same, next to others of its wide network


@dataclass(eq=False)
class _Socket:
    network: str
    address: _Address
    check: Callable[[], bool] | None  #: whether its sign-in is live; None: it has none
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    messages: Pace = field(default_factory=lambda: Pace(MESSAGES_BY_SOCKET))
    is_signed_in: bool = False
    checked_at: float = -KEEP
    close_code: int = _TRY_LATER

    def close(self, code: int) -> None:
        self.close_code = code
        self.scope.cancel()


class SocketLimits:
    """ASGI middleware of the modes with a sign-in. Used on one event loop, so it needs no lock."""

    def __init__(self, app: ASGIApp, staff: StaffSessions) -> None:
        self.app = app
        self._staff = staff
        self._messages = Pace(MESSAGES_IN_ALL)
        self._is_next = anyio.Lock()
        self._addresses: OrderedDict[str, _Address] = OrderedDict()
        self._networks: WeakValueDictionary[str, _Network] = WeakValueDictionary()  # those of the addresses
        self._open: dict[_Socket, None] = {}  # without a sign-in, the oldest first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            await self.app(scope, receive, send)
            return
        socket = self._socket(HTTPConnection(scope))
        await self._check(socket)
        if not socket.is_signed_in and not socket.address.new.passes():
            await WebSocketClose(_TRY_LATER)(scope, receive, send)
            return
        self._count(socket)
        messages = ReadAhead(receive, READ_AHEAD)
        try:
            with socket.scope:
                await self.app(scope, self._limited(socket, messages), send)
        finally:
            self._open.pop(socket, None)
            messages.close()
        if socket.scope.cancelled_caught:
            with anyio.move_on_after(_CLOSING):
                await send({"type": "websocket.close", "code": socket.close_code})

    def _limited(self, socket: _Socket, messages: ReadAhead) -> Receive:
        async def limited() -> Message:
            message = await messages.next()
            if message["type"] != "websocket.receive":
                return message
            await self._check(socket)
            self._count(socket)
            if socket.is_signed_in:
                return message
            if len(message.get("bytes") or message.get("text") or "") > LARGEST_MESSAGE:
                socket.close(_TOO_BIG)
            return await self._disconnect_before_turn(socket, messages) or message

        return limited

    # -- Whose turn it is ---------------------------------------------------------------------------------------------

    async def _disconnect_before_turn(self, socket: _Socket, messages: ReadAhead) -> Message | None:
        """Wait for the turn of a message. If the client leaves before, no turn is taken."""
        turn, left = (asyncio.ensure_future(wait) for wait in (self._turn(socket), messages.disconnect()))
        try:
            await asyncio.wait((turn, left), return_when=asyncio.FIRST_COMPLETED)
            return left.result() if left.done() else None
        finally:
            turn.cancel()
            left.cancel()

    async def _turn(self, socket: _Socket) -> None:
        """Wait until socket, address and all have a turn, then take it.

        Locks are first come, first served, and each wide network has one message that waits for the lock of all: wide
        networks take turns, and in each its addresses.
        """
        address = socket.address
        await anyio.sleep(socket.messages.delay())
        async with address.is_next:
            await anyio.sleep(address.messages.delay())
            async with address.wide.is_next, self._is_next:
                await anyio.sleep(self._messages.delay())
                for pace in (socket.messages, address.messages, self._messages):
                    pace.take()

    # -- Who is signed in ---------------------------------------------------------------------------------------------

    def _socket(self, connection: HTTPConnection) -> _Socket:
        ip = client_of(self._staff, connection)
        network, wide = network_of(ip), self._networks.setdefault(wide_network_of(ip), _Network())
        address = self._addresses.setdefault(network, _Address(wide))
        self._addresses.move_to_end(network)
        if len(self._addresses) > _MOST_ADDRESSES:
            self._addresses.popitem(last=False)
        return _Socket(network, address, self._sign_in_check(connection))

    def _sign_in_check(self, connection: HTTPConnection) -> Callable[[], bool] | None:
        staff = self._staff
        if staff.config.mode == "oidc":
            claims = claims_of(connection.cookies)
            return None if claims is None else lambda: is_live(claims, staff)
        token = connection.cookies.get(COOKIE)

        def has_session() -> bool:
            try:
                return bool(staff.by_token(token))
            except SignedOut:
                return False

        return has_session if token else None

    async def _check(self, socket: _Socket) -> None:
        """Look whether its sign-in is live, at most once a second. While that is not known, it is as before."""
        if socket.check is None or time.monotonic() - socket.checked_at < KEEP:
            return
        socket.checked_at = time.monotonic()
        try:
            socket.is_signed_in = await to_thread.run_sync(socket.check)
        except PresenceError:
            return

    # -- How many are open --------------------------------------------------------------------------------------------

    def _count(self, socket: _Socket) -> None:
        """Count the socket while it has no sign-in. If they are too many, close the oldest."""
        if socket.is_signed_in:
            self._open.pop(socket, None)
        elif socket not in self._open and not socket.scope.cancel_called:
            if (oldest := self._too_many(socket.network)) is not None:
                del self._open[oldest]
                oldest.close(_TRY_LATER)
            self._open[socket] = None

    def _too_many(self, network: str) -> _Socket | None:
        """The socket that one more of this address closes."""
        by_address = Counter(socket.network for socket in self._open)
        if by_address[network] < OPEN_BY_ADDRESS:
            if len(self._open) < OPEN_IN_ALL:
                return None
            network, _ = by_address.most_common(1)[0]
        return next(socket for socket in self._open if socket.network == network)
