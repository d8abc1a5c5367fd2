"""Back-channel logout for WSGI applications: Flask and others. It imports none of them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final

from presence_core.client import Presence
from presence_core.drive_generators import drive
from presence_core.errors import InvalidArgument
from presence_core.web.backchannel_logout.receiver import MAX_BODY, LogoutReceiver, LogoutResponse
from presence_core.web.wsgi import Environ

RETRY_SECONDS: Final = 5.0

_log = logging.getLogger(__name__)


class BackchannelLogout:
    """``BackchannelLogout(presence, LogoutReceiver([…]))``, a WSGI application: mount it, for example with werkzeug's
    ``DispatcherMiddleware``."""

    def __init__(self, presence: Presence, receiver: LogoutReceiver) -> None:
        if not isinstance(presence, Presence):
            raise InvalidArgument(
                "presence", "must be a Presence: WSGI has no event loop for an AsyncPresence", "wrong_type"
            )
        self._presence, self._receiver = presence, receiver
        self._lock = threading.Lock()
        self._retrying: threading.Thread | None = None
        self.watch_spool()

    def __call__(self, environ: Environ, start_response: Any) -> Iterable[bytes]:
        length = environ.get("CONTENT_LENGTH") or "0"
        fits = length.isascii() and length.isdigit() and len(length) < 10 and int(length) <= MAX_BODY
        body = environ["wsgi.input"].read(int(length)) if fits and environ["REQUEST_METHOD"] == "POST" else None
        response = self.respond(environ["REQUEST_METHOD"], environ.get("CONTENT_TYPE", ""), body)
        headers = [*response.headers, ("Content-Length", str(len(response.body)))]
        start_response(f"{response.status} {HTTPStatus(response.status).phrase}", headers)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [response.body]

    def respond(self, method: str, content_type: str, body: bytes | None) -> LogoutResponse:
        """The answer to a request. ``body``: None if it is longer than MAX_BODY."""
        response = drive(self._receiver.answer(method, content_type, body), lambda step: step(self._presence))
        self.watch_spool()
        return response

    def watch_spool(self) -> None:
        """Try what waits again, in a thread, until nothing does."""
        if not self._receiver.waits:
            return
        with self._lock:
            if self._retrying is None or not self._retrying.is_alive():
                self._retrying = threading.Thread(target=self._retry, name="presence-logouts", daemon=True)
                self._retrying.start()

    def _retry(self) -> None:
        while self._receiver.waits:
            try:
                drive(self._receiver.retry(), lambda step: step(self._presence))
            except Exception:
                _log.exception("Logouts that wait could not be tried again")
            time.sleep(RETRY_SECONDS)
