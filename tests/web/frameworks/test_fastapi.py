"""FastAPI: sessions as dependencies, problems for refusals, the lifespan, and other middleware next to ours."""

from __future__ import annotations

import gc
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI, Request, WebSocket
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from presence_core import AsyncPresence, InvalidArgument, Login, Presence, Session, Settings
from presence_core.web.fastapi import (
    CurrentSession,
    LoginDetails,
    OptionalSession,
    add_presence,
    fresh_session,
    lifespan,
)
from presence_core.web.rules import Rules
from tests.support.fair_clock import PATIENT
from tests.support.servers import Server, missing, redis_binary, valkey_binary

PROBLEM = "application/problem+json"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with Server.start(binary, tmp_path_factory.mktemp("fastapi")) as running:
        yield running


@pytest.fixture
def staff(server: Server) -> Iterator[Presence]:
    """The sessions of the site, as staff see them."""
    server.command("FLUSHALL")
    with Presence.from_url(server.url, Settings(timeout=PATIENT)) as client:
        yield client


def make_site(presence: AsyncPresence | Presence, inner: Any = None, **rules: Any) -> FastAPI:
    """A site where the routes decide who needs a session."""
    app = FastAPI(lifespan=lifespan(presence, inner))
    add_presence(app, presence, rules=Rules(**{"anonymous": "pass"} | rules))

    @app.post("/sign-in")
    async def sign_in(who: str, details: LoginDetails) -> dict[str, str]:
        if isinstance(presence, Presence):
            return {"token": presence.login(who, **details).token}
        return {"token": (await presence.login(who, **details)).token}

    @app.get("/mine")
    async def mine(session: CurrentSession) -> dict[str, Any]:
        return {"uid": session.uid, "ip": session.last_ip}

    @app.get("/open")
    async def everyone(session: OptionalSession) -> dict[str, str | None]:
        return {"uid": session.uid if session else None}

    @app.get("/pay")
    async def pay(session: Annotated[Session, Depends(fresh_session(60))]) -> dict[str, Any]:
        return {"uid": session.uid}

    @app.get("/state")
    async def state(request: Request) -> dict[str, Any]:
        return {"own": request.state.presence is presence, "inner": getattr(request.state, "inner", None)}

    @app.websocket("/socket")
    async def socket(websocket: WebSocket, session: CurrentSession) -> None:
        await websocket.accept()
        await websocket.send_text(session.uid)
        await websocket.close()

    return app


@pytest.fixture
def app(server: Server) -> FastAPI:
    return make_site(AsyncPresence.from_url(server.url, Settings(timeout=PATIENT)))


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app) as client:
        yield client


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_a_route_gets_the_session_that_it_needs_or_may_have(client: TestClient, staff: Presence) -> None:
    headers = bearer(staff.login("ada", ip="192.0.2.7").token)
    assert client.get("/mine", headers=headers).json() == {"uid": "ada", "ip": "192.0.2.7"}
    assert client.get("/open", headers=headers).json() == {"uid": "ada"}
    assert client.get("/open").json() == {"uid": None}
    refused = client.get("/mine")
    assert (refused.status_code, refused.headers["Content-Type"]) == (401, PROBLEM)
    assert (refused.json()["code"], refused.headers["WWW-Authenticate"]) == ("missing", "Bearer")
    assert client.head("/mine").status_code == 405


def test_a_route_refuses_a_kicked_session_with_the_message_of_staff(server: Server, staff: Presence) -> None:
    presence = AsyncPresence.from_url(server.url, Settings(timeout=PATIENT))
    headers = bearer(staff.login("ada").token)
    staff.kick("ada", by="sam", reason="test", message="Please call us.")
    with TestClient(make_site(presence, mode="observe")) as client:  # the middleware lets it pass
        refused = client.get("/mine", headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (401, "kicked")
        assert refused.json()["message"] == "Please call us."
        assert client.get("/open", headers=headers).json() == {"uid": None}


def test_a_route_may_need_a_fresh_session(client: TestClient, staff: Presence) -> None:
    row = {"uid": "ada", "login_at": time.time() - 61, "last_seen": time.time()}
    [login] = staff.login_many([row], imported=True)
    assert isinstance(login, Login)
    assert client.get("/mine", headers=bearer(login.token)).status_code == 200
    refused = client.get("/pay", headers=bearer(login.token))
    assert (refused.status_code, refused.headers["Content-Type"]) == (401, PROBLEM)
    assert refused.json() == {
        "type": "urn:presence:authentication-too-old", "title": "Please sign in again to do this.", "status": 401,
        "code": "authentication_too_old", "max_age": 60,
    }  # fmt: skip
    fresh = bearer(staff.reauthenticated(login.token, methods=["pwd"]).token)
    assert client.get("/pay", headers=fresh).json() == {"uid": "ada"}
    assert client.get("/pay").json()["code"] == "missing"
    staff.require_sign_in("ada", by="sam", reason="odd login", message="Please sign in.")
    for path in ("/pay", "/mine"):
        refused = client.get(path, headers=fresh)
        assert (refused.json()["code"], refused.json()["message"]) == ("sign_in_required", "Please sign in.")
    with pytest.raises(InvalidArgument, match="max_age must be whole seconds"):
        fresh_session(0)


def test_no_session_is_fresh_while_redis_is_away(tmp_path: Path) -> None:
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with Server.start(binary, tmp_path) as server:
        with Presence.from_url(server.url, Settings(timeout=PATIENT)) as staff:
            headers = bearer(staff.login("ada").token)
        presence = AsyncPresence.from_url(server.url, Settings(timeout=PATIENT))
        with TestClient(make_site(presence, on_unavailable="grace")) as client:
            assert client.get("/pay", headers=headers).status_code == 200
            server.kill()
            assert client.get("/mine", headers=headers).status_code == 200, "grace lets it pass"
            assert client.get("/pay", headers=headers).status_code == 503


@pytest.mark.parametrize("code", ["blocked", "limit"])
def test_a_refused_login_is_a_403_problem_by_the_handler(server: Server, staff: Presence, code: str) -> None:
    settings = Settings(timeout=PATIENT, max_sessions=1, on_limit="reject")
    app = make_site(AsyncPresence.from_url(server.url, settings))
    passed: list[str] = []

    @app.middleware("http")
    async def outer(request: Request, call_next: Any) -> Any:
        response = await call_next(request)  # raises what no handler took
        passed.append(response.headers["Content-Type"])
        return response

    app.user_middleware.reverse()  # now it is between the handlers and PresenceMiddleware
    if code == "blocked":
        staff.block("ada", by="sam", reason="test", message="On hold.")
    else:
        staff.login("ada")
    with TestClient(app) as client:
        refused = client.post("/sign-in?who=ada")
        assert (refused.status_code, refused.headers["Content-Type"]) == (403, PROBLEM)
        assert refused.json()["code"] == code
        assert ("On hold." in refused.json()["message"]) == (code == "blocked")
    assert passed == [PROBLEM]


def test_a_websocket_without_a_session_is_closed_with_4401_and_the_reason(client: TestClient, staff: Presence) -> None:
    login = staff.login("ada")
    with client.websocket_connect("/socket", headers=bearer(login.token)) as socket:
        assert socket.receive_text() == "ada"
    with client.websocket_connect("/socket") as socket, pytest.raises(WebSocketDisconnect) as closed:
        socket.receive_text()
    assert (closed.value.code, closed.value.reason) == (4401, "missing")


@pytest.mark.parametrize(("on_unavailable", "path"), [("open", "/mine"), ("closed", "/mine")])
def test_a_route_that_needs_a_session_answers_503_while_redis_is_away(on_unavailable: str, path: str) -> None:
    app = make_site(AsyncPresence.from_url("redis://127.0.0.1:1"), on_unavailable=on_unavailable)
    with TestClient(app) as client:
        away = client.get(path, headers=bearer("x"))
        assert (away.status_code, away.headers["Content-Type"]) == (503, PROBLEM)
        assert (away.json()["code"], away.headers["Retry-After"]) == ("unavailable", "5")
        assert client.get("/open").json() == {"uid": None}


def test_the_documentation_shows_a_lock_on_the_routes_with_a_session(client: TestClient) -> None:
    schema = client.get("/openapi.json").json()
    assert schema["components"]["securitySchemes"]["Session token"]["scheme"] == "bearer"
    locked = {path for path, methods in schema["paths"].items() for each in methods.values() if "security" in each}
    assert locked == {"/mine", "/open", "/pay"}
    parameters = [each.get("parameters", []) for methods in schema["paths"].values() for each in methods.values()]
    assert [parameter["name"] for each in parameters for parameter in each] == ["who"]


def test_a_site_without_the_middleware_learns_what_is_missing() -> None:
    app = FastAPI()

    @app.get("/mine")
    async def mine(session: CurrentSession) -> None: ...

    with TestClient(app) as client, pytest.raises(RuntimeError, match=r"call add_presence\(app, presence\)"):
        client.get("/mine")


def test_without_our_handler_a_route_still_answers_401(server: Server) -> None:
    app = make_site(AsyncPresence.from_url(server.url, Settings(timeout=PATIENT)))
    app.exception_handlers.clear()
    with TestClient(app) as client:
        refused = client.get("/mine")
    assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, "Bearer")


# -- the lifespan -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Presence, AsyncPresence])
def test_the_lifespan_closes_the_client_after_the_sites_own(server: Server, staff: Presence, kind: Any) -> None:
    presence = kind.from_url(server.url, Settings(timeout=PATIENT))
    left: list[Any] = []

    @asynccontextmanager
    async def inner(_: Any) -> AsyncIterator[dict[str, int]]:
        yield {"inner": 7}
        counts = presence.counts()
        left.append((counts if kind is Presence else await counts).sessions)

    with TestClient(make_site(presence, inner)) as client:
        assert client.get("/state").json() == {"own": True, "inner": 7}
        token = client.post("/sign-in?who=ada").json()["token"]
        assert client.get("/mine", headers=bearer(token)).json() == {"uid": "ada", "ip": None}
        connected = server.command("CLIENT", "LIST").count("\n")
    assert left == [1]
    assert server.command("CLIENT", "LIST").count("\n") < connected


def test_a_site_starts_while_redis_is_away_and_is_started_twice(server: Server, staff: Presence) -> None:
    with TestClient(make_site(AsyncPresence.from_url("redis://127.0.0.1:1"))) as client:
        assert client.get("/open").json() == {"uid": None}
    app = make_site(AsyncPresence.from_url(server.url, Settings(timeout=PATIENT)))
    for who in ("ada", "bob"):  # as tests do, with an event loop each
        with TestClient(app) as client:
            token = client.post(f"/sign-in?who={who}").json()["token"]
            assert client.get("/mine", headers=bearer(token)).json()["uid"] == who


def test_a_test_client_without_a_lifespan_gives_each_request_an_event_loop_of_its_own(
    app: FastAPI, staff: Presence
) -> None:
    client = TestClient(app)
    for number in range(4):
        headers = bearer(client.post("/sign-in?who=ada").json()["token"])
        assert client.get("/mine", headers=headers).json()["uid"] == "ada"
        assert len(staff.sessions("ada")) == number + 1
    del client
    gc.collect()  # an unclosed connection would be reported here


# -- next to other middleware -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["inside", "outside"])
def test_the_sites_own_session_data_are_kept_next_to_ours(server: Server, staff: Presence, place: str) -> None:
    presence = AsyncPresence.from_url(server.url, Settings(timeout=PATIENT))
    app = make_site(presence)
    app.add_middleware(SessionMiddleware, secret_key="only for this test")
    if place == "inside":
        app.user_middleware.reverse()

    @app.get("/count")
    async def count(request: Request, session: CurrentSession) -> dict[str, Any]:
        request.session["visits"] = request.session.get("visits", 0) + 1
        assert request.state.session is session
        return {"uid": session.uid, "visits": request.session["visits"]}

    headers = bearer(staff.login("ada").token)
    with TestClient(app, base_url="https://testserver") as client:
        answers = [client.get("/count", headers=headers).json() for _ in range(2)]
    assert answers == [{"uid": "ada", "visits": 1}, {"uid": "ada", "visits": 2}]


def test_a_preflight_passes_and_other_origins_read_why_they_are_refused(app: FastAPI, staff: Presence) -> None:
    app.add_middleware(CORSMiddleware, allow_origins=["https://shop.example"], allow_credentials=True)
    origin = {"Origin": "https://shop.example"}
    with TestClient(app) as client:
        preflight = client.options("/mine", headers=origin | {"Access-Control-Request-Method": "GET"})
        assert preflight.status_code == 200
        refused = client.get("/mine", headers=origin)
        assert (refused.status_code, refused.headers["Access-Control-Allow-Origin"]) == (401, "https://shop.example")


@pytest.mark.parametrize(
    ("peer", "forwarded", "ip"),
    [
        ("192.0.2.1", "", "192.0.2.1"),
        ("testclient", "", None),
        ("10.0.0.9", "198.51.100.7", "198.51.100.7"),
        ("10.0.0.9", "unknown", None),
        ("192.0.2.1", "198.51.100.7", "192.0.2.1"),
    ],
)
def test_a_login_has_the_address_of_the_visitor_or_none(
    server: Server, staff: Presence, peer: str, forwarded: str, ip: str | None
) -> None:
    presence = AsyncPresence.from_url(server.url, Settings(timeout=PATIENT))
    app = make_site(presence, trusted_proxies=("10.0.0.0/8",))
    with TestClient(app, client=(peer, 4711)) as client:
        sent = {"X-Forwarded-For": forwarded, "User-Agent": "Firefox"}
        client.post("/sign-in?who=ada", headers=sent)
    [session] = staff.sessions("ada")
    assert (session.ip, session.user_agent) == (ip, "Firefox")
