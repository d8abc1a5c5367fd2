"""FastAPI: the visitor's session as a dependency, responses to refusals, and the lifespan of an AsyncPresence."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Response, Security, WebSocket
from fastapi.openapi.models import HTTPBearer as HTTPBearerModel
from fastapi.security.base import SecurityBase
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection

from presence_core import validation as check
from presence_core.client import AsyncPresence, Presence
from presence_core.errors import LoginRefused
from presence_core.models import Session
from presence_core.web.asgi import WEBSOCKET_REFUSED, WEBSOCKET_TRY_LATER, OnEnded, PresenceMiddleware, UserOf
from presence_core.web.asgi import sign_in as sign_in  # for sites
from presence_core.web.asgi import sign_in_failed as sign_in_failed
from presence_core.web.asgi import sign_out as sign_out
from presence_core.web.middleware.refusals import code_of, login_refusal, problem, stale
from presence_core.web.rules import Rules, State, Verdict

Lifespan = Callable[[Any], AbstractAsyncContextManager[Mapping[str, Any]]]


def add_presence(
    app: FastAPI,
    presence: AsyncPresence | Presence,
    *,
    rules: Rules | None = None,
    user_of: UserOf | None = None,
    on_ended: OnEnded | None = None,
    tally: MutableMapping[str, int] | None = None,
) -> None:
    """Add the middleware and both exception handlers. The arguments are those of ``PresenceMiddleware``.

    A middleware that the app adds later is outside of this one: add ``CORSMiddleware`` after this call.
    """
    app.add_middleware(
        PresenceMiddleware, presence=presence, rules=rules, user_of=user_of, on_ended=on_ended, tally=tally
    )
    app.add_exception_handler(LoginRefused, login_refused)
    app.add_exception_handler(SessionRequired, session_required)


def lifespan(presence: AsyncPresence | Presence, inner: Lifespan | None = None) -> Lifespan:
    """``FastAPI(lifespan=lifespan(presence))``: close ``presence`` when the app shuts down.

    Startup makes no call, so the app also starts while Redis is away. ``inner`` is a lifespan of your own, entered
    within this one. What it yields is kept, and ``request.state.presence`` is the client.
    """

    @asynccontextmanager
    async def run(app: Any) -> AsyncIterator[Mapping[str, Any]]:
        async with AsyncExitStack() as stack:
            if isinstance(presence, AsyncPresence):
                await stack.enter_async_context(presence)
            else:
                stack.enter_context(presence)
            state = {} if inner is None else await stack.enter_async_context(inner(app))
            yield {"presence": presence, **(state or {})}

    return run


class SessionRequired(HTTPException):
    """A route needs a session, and the request has none. Without our handler it is answered as any HTTPException."""

    def __init__(self, verdict: Verdict) -> None:
        states: Mapping[State, State] = {"open": "unavailable", "preflight": "anonymous"}
        self.verdict = replace(verdict, state=states.get(verdict.state, verdict.state))
        status, headers, _ = problem(self.verdict)
        kept = {name: value for name, value in headers if not name.startswith("Content-")}
        super().__init__(status, headers=kept)


class _SessionScheme(SecurityBase):
    """A dependency and a security scheme in one: FastAPI solves each dependency for each request, which takes time."""

    def __init__(self, *, required: bool) -> None:
        self.scheme_name = "Session token"
        self.model = HTTPBearerModel(description="The token of a login, also sent in the site's cookie.")
        self._required = required

    async def __call__(self, connection: HTTPConnection) -> Session | None:
        verdict = _verdict(connection)
        if self._required and verdict.session is None:
            raise SessionRequired(verdict)
        return verdict.session


# FastAPI before 0.123.10 reads no annotation that is text of an object with ``__call__``.
_SessionScheme.__call__.__annotations__["connection"] = HTTPConnection


async def _login_details(connection: HTTPConnection) -> dict[str, Any]:
    return {"ip": _verdict(connection).ip, "user_agent": connection.headers.get("user-agent")}


CurrentSession = Annotated[Session, Security(_SessionScheme(required=True))]
"""The visitor's session. Without one, the request gets a 401 problem, or a 503 while Redis is away; a websocket is
closed with 4401 or 1013. Routes with it have a lock at /docs."""

OptionalSession = Annotated[Session | None, Security(_SessionScheme(required=False))]
"""The visitor's session, or None. For routes that ``Rules`` let pass without one."""

LoginDetails = Annotated[dict[str, Any], Depends(_login_details)]
"""What the request says of its sender, as arguments of ``login``: ``ip`` (None if unknown) and ``user_agent``."""


def fresh_session(max_age: int) -> Callable[..., Awaitable[Session]]:
    """A dependency: the visitor's session, if they authenticated at most ``max_age`` seconds ago by the clock of Redis.

    ``session: Annotated[Session, Depends(fresh_session(300))]``. Otherwise the request gets a 401 problem with the code
    "authentication_too_old"; without a session, as with ``CurrentSession``. Cost: none.
    """
    limit = check.seconds("max_age", max_age)

    async def dependency(connection: HTTPConnection, session: CurrentSession) -> Session:
        refused = stale(_verdict(connection), limit)
        if refused is not None:
            raise SessionRequired(refused)
        return session

    return dependency


# Any, because FastAPI has one type for handlers of requests and one for websockets, and these are both.
async def login_refused(connection: Any, refused: Exception) -> Any:
    """Exception handler for LoginRefused, a block or a limit: a 403 problem."""
    assert isinstance(refused, LoginRefused)
    return await _refuse(connection, login_refusal(refused))


async def session_required(connection: Any, required: Exception) -> Any:
    """Exception handler for SessionRequired: a 401 or 503 problem, as the middleware sends it."""
    assert isinstance(required, SessionRequired)
    return await _refuse(connection, required.verdict)


async def _refuse(connection: HTTPConnection, verdict: Verdict) -> Response | None:
    if isinstance(connection, WebSocket):
        await connection.accept()  # browsers hide the reason of a websocket that was never accepted
        away = verdict.state == "unavailable"
        await connection.close(WEBSOCKET_TRY_LATER if away else WEBSOCKET_REFUSED, code_of(verdict))
        return None
    status, headers, body = problem(verdict)
    return Response(body, status, dict(headers))


def _verdict(connection: HTTPConnection) -> Verdict:
    verdict = connection.scope.get("presence.verdict")
    if not isinstance(verdict, Verdict):
        raise RuntimeError("The app has no PresenceMiddleware: call add_presence(app, presence).")
    return verdict
