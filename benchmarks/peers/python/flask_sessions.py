"""Flask-Session with its Redis interface, called as Flask calls it around a request."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from importlib import import_module
from importlib.metadata import version
from time import time
from typing import Any, Final

import flask
import redis
from werkzeug.test import EnvironBuilder

from benchmarks.peers.python.serve import serve

TTL: Final = int(os.environ.get("PEER_TTL", "21600"))


class FlaskSessions:
    """Finds sessions only by their id: it has no list, no count, and no sessions of a user."""

    def __init__(self, url: str) -> None:
        app = flask.Flask("peer")
        app.config.update(
            SESSION_TYPE="redis",
            SESSION_REDIS=redis.Redis.from_url(url),
            PERMANENT_SESSION_LIFETIME=timedelta(seconds=TTL),
        )
        import_module("flask_session").Session(app)
        self.app, self.interface = app, app.session_interface
        self.environ = EnvironBuilder().get_environ()
        app.config["SESSION_REDIS"].ping()

    def _open(self, token: str | None = None) -> Any:
        cookie = {"HTTP_COOKIE": f"{self.app.config['SESSION_COOKIE_NAME']}={token}"} if token else {}
        return self.interface.open_session(self.app, flask.Request(self.environ | cookie))

    def load(self, rows: list[dict[str, Any]]) -> list[str]:
        return [self.login(row) for row in rows]

    def login(self, row: dict[str, Any]) -> str:
        """open_session, save_session: SET"""
        session = self._open()
        session.update({"login_at": time()} | row)
        self.interface.save_session(self.app, session, flask.Response())
        return str(session.sid)

    def read(self, token: str) -> str:
        """open_session, save_session: GET, SET (SESSION_REFRESH_EACH_REQUEST is Flask's default)"""
        session = self._open(token)
        uid = session["uid"]
        self.interface.save_session(self.app, session, flask.Response())
        return str(uid)


if __name__ == "__main__":
    serve(f"Flask-Session {version('flask-session')}, Flask {version('flask')}", FlaskSessions(sys.argv[1]))
