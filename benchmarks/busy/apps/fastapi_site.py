"""A FastAPI site on uvicorn: ``POST /sign-in?uid=…`` sets a cookie, ``GET /me`` says whose it is.

``python -m benchmarks.busy.apps.fastapi_site SESSIONS REDIS_URL`` prints its address as JSON. SESSIONS is a function
below.
"""

from __future__ import annotations

import json
import logging
import secrets
import socket
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

import uvicorn
from fastapi import FastAPI, Request, Response

from presence_core import AsyncPresence
from presence_core.web.cookies import set_cookie_header
from presence_core.web.fastapi import CurrentSession, add_presence, lifespan
from presence_core.web.rules import Rules

COOKIE: Final = "session"


def none(url: str) -> FastAPI:
    app = FastAPI()

    @app.post("/sign-in")
    async def sign_in(uid: str, response: Response) -> None:
        response.set_cookie(COOKIE, uid)

    @app.get("/me")
    async def me(request: Request) -> dict[str, str]:
        return {"uid": request.cookies[COOKIE]}

    return app


def ours(url: str) -> FastAPI:
    presence = AsyncPresence.from_url(url)
    app = FastAPI(lifespan=lifespan(presence))
    add_presence(app, presence, rules=Rules(public=("/sign-in",)))

    @app.post("/sign-in")
    async def sign_in(uid: str, response: Response) -> None:
        login = await presence.login(uid)
        response.headers.append("Set-Cookie", set_cookie_header(login.token))

    @app.get("/me")
    async def me(session: CurrentSession) -> dict[str, str]:
        return {"uid": session.uid}

    return app


def hgetall(url: str) -> FastAPI:
    """The least that a site can do: one HGETALL. It has no timeout, no last seen, no list and no kick."""
    import redis.asyncio

    client: Any = redis.asyncio.Redis.from_url(url, max_connections=1000, decode_responses=True)
    app = FastAPI()

    @app.post("/sign-in")
    async def sign_in(uid: str, response: Response) -> None:
        token = secrets.token_urlsafe(32)
        await client.hset(f"plain:{token}", mapping={"uid": uid, "device": "phone"})
        response.set_cookie(COOKIE, token)

    @app.get("/me")
    async def me(request: Request) -> dict[str, str]:
        session = await client.hgetall(f"plain:{request.cookies[COOKIE]}")
        return {"uid": session["uid"]}

    return app


def starsessions(url: str) -> FastAPI:
    """With its Redis store, loaded for each request by its own middleware."""
    import redis.asyncio

    package = import_module("starsessions")
    client: Any = redis.asyncio.Redis.from_url(url, max_connections=1000)
    store = import_module("starsessions.stores.redis").RedisStore(connection=client)
    app = FastAPI()
    app.add_middleware(package.SessionAutoloadMiddleware)
    app.add_middleware(package.SessionMiddleware, store=store, lifetime=86_400, rolling=True, cookie_https_only=False)

    @app.post("/sign-in")
    async def sign_in(uid: str, request: Request) -> None:
        request.session["uid"] = uid

    @app.get("/me")
    async def me(request: Request) -> dict[str, str]:
        return {"uid": request.session["uid"]}

    return app


KINDS: Final[dict[str, Callable[[str], FastAPI]]] = {
    kind.__name__: kind for kind in (none, ours, hgetall, starsessions)
}


def main(kind: str, url: str) -> None:
    logging.disable()
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listening:
        port = listening.getsockname()[1]
        config = uvicorn.Config(KINDS[kind](url), log_level="critical", access_log=False, backlog=2048)
        print(json.dumps({"url": f"http://127.0.0.1:{port}"}), flush=True)
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main(*sys.argv[1:])
