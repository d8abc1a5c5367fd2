"""YourDevices for WSGI applications: Flask and others. It imports none of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Any

from presence_core.client import Presence
from presence_core.drive_generators import drive
from presence_core.errors import InvalidArgument
from presence_core.web.middleware.request_data import read_environ
from presence_core.web.rules import Verdict
from presence_core.web.wsgi import Environ
from presence_core.web.your_devices.answers import DeviceAnswers
from presence_core.web.your_devices.exchange import NO_MIDDLEWARE, DeviceRequest, body_length, join_headers
from presence_core.web.your_devices.options import DeviceOptions


class YourDevices:
    """``YourDevices(presence, DeviceOptions(key=KEY))``, a WSGI application: visitors see and end their sessions.

    Mount it, for example with werkzeug's ``DispatcherMiddleware``, and put the ``PresenceMiddleware`` of
    ``presence_core.web.wsgi`` around both. Cost: two round trips to Redis for the list, up to four for a change.
    """

    def __init__(self, presence: Presence, options: DeviceOptions) -> None:
        if not isinstance(presence, Presence):
            raise InvalidArgument(
                "presence", "must be a Presence: WSGI has no event loop for an AsyncPresence", "wrong_type"
            )
        self._presence = presence
        self._answers = DeviceAnswers(options)

    def __call__(self, environ: Environ, start_response: Any) -> Iterable[bytes]:
        response = drive(self._answers.answer(read_request(environ)), lambda call: call(self._presence))
        headers = [*response.headers, ("Content-Length", str(len(response.body)))]
        start_response(f"{response.status} {HTTPStatus(response.status).phrase}", headers)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [response.body]


def read_request(environ: Environ) -> DeviceRequest:
    """The request of a WSGI environ that has passed the middleware."""
    verdict = environ.get("presence.verdict")
    if not isinstance(verdict, Verdict):
        raise RuntimeError(NO_MIDDLEWARE)
    return DeviceRequest(
        method=environ["REQUEST_METHOD"],
        path=environ.get("PATH_INFO", ""),
        url_path=read_environ(environ).path,
        query=environ.get("QUERY_STRING", ""),
        headers=join_headers(_headers(environ)),
        session=verdict.session,
        verdict=verdict,
        body=_body(environ) if environ["REQUEST_METHOD"] == "POST" else b"",
    )


def _headers(environ: Environ) -> Iterator[tuple[str, str]]:
    for name, value in environ.items():
        if name.startswith("HTTP_"):
            yield name[5:].replace("_", "-"), value
    yield "content-type", environ.get("CONTENT_TYPE", "")


def _body(environ: Environ) -> bytes | None:
    length = body_length(environ)
    body: bytes | None = None if length is None else environ["wsgi.input"].read(length)
    return body
