"""The same site with Flask: a WSGI application ``app`` for gunicorn, of the kind and with the server of BUSY_SESSIONS
and BUSY_REDIS_URL."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from flask import Flask, request, session

COOKIE: Final = "session"


def none(url: str) -> Flask:
    app = Flask(__name__)

    @app.post("/sign-in")
    def sign_in() -> Any:
        response = app.make_response(("", 204))
        response.set_cookie(COOKIE, request.args["uid"])
        return response

    @app.get("/me")
    def me() -> dict[str, str]:
        return {"uid": request.cookies[COOKIE]}

    return app


def ours(url: str) -> Flask:
    from presence_core import Presence
    from presence_core.web.cookies import set_cookie_header
    from presence_core.web.rules import Rules
    from presence_core.web.wsgi import PresenceMiddleware

    app, presence = Flask(__name__), Presence.from_url(url)
    app.wsgi_app = PresenceMiddleware(app.wsgi_app, presence, rules=Rules(public=("/sign-in",)))  # type: ignore[method-assign]

    @app.post("/sign-in")
    def sign_in() -> Any:
        return "", 204, {"Set-Cookie": set_cookie_header(presence.login(request.args["uid"]).token)}

    @app.get("/me")
    def me() -> dict[str, str]:
        return {"uid": request.environ["presence.session"].uid}

    return app


def flask_session(url: str) -> Flask:
    import redis

    app = Flask(__name__)
    app.config.update(SESSION_TYPE="redis", SESSION_REDIS=redis.Redis.from_url(url, max_connections=1000))
    import_module("flask_session").Session(app)

    @app.post("/sign-in")
    def sign_in() -> Any:
        session["uid"] = request.args["uid"]
        return "", 204

    @app.get("/me")
    def me() -> dict[str, str]:
        return {"uid": session["uid"]}

    return app


KINDS: Final[dict[str, Callable[[str], Flask]]] = {kind.__name__: kind for kind in (none, ours, flask_session)}

logging.disable()
app = KINDS[os.environ["BUSY_SESSIONS"]](os.environ["BUSY_REDIS_URL"])
