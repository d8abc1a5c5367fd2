"""A request and a response without a framework."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs, parse_qsl

from presence_core.models import Session
from presence_core.web.rules import Verdict

MAX_BODY: Final = 4096
"""Bytes."""

NO_MIDDLEWARE: Final = "The app has no PresenceMiddleware around YourDevices: see docs/use/your_devices.md."


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRequest:
    """A request to the page or the API."""

    method: str
    path: str  #: below the mount: "/", "/api"
    url_path: str  #: the whole path
    query: str
    headers: Mapping[str, str]  #: lower-case names
    session: Session | None
    verdict: Verdict
    body: bytes | None = b""  #: None: longer than MAX_BODY
    language: str | None = None  #: of the framework; before the browser's

    @property
    def is_api(self) -> bool:
        """Whether the answer is JSON."""
        return self.path.startswith("/api")

    @property
    def page_path(self) -> str:
        """The whole path of the page, also for a request to the API."""
        return self.url_path.removesuffix(self.path).rstrip("/") + "/"

    def content_type(self) -> str:
        """Without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def query_value(self, name: str) -> str:
        """The first value of this name, or ""."""
        try:
            return parse_qs(self.query, max_num_fields=20).get(name, [""])[0]
        except ValueError:
            return ""

    def form(self) -> dict[str, str] | None:
        """The fields of a form; None if the body is none."""
        if self.body is None or self.content_type() != "application/x-www-form-urlencoded":
            return None
        try:
            return dict(parse_qsl(self.body.decode(), keep_blank_values=True, max_num_fields=20, errors="strict"))
        except ValueError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceResponse:
    """The answer, for each framework."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes = field(repr=False)
    ended_this: bool = False  #: the session of the request has ended


def body_length(environ: Mapping[str, Any]) -> int | None:
    """The length of the body in a WSGI environ, in bytes; None if it is no number, or more than MAX_BODY."""
    length = environ.get("CONTENT_LENGTH") or "0"
    is_number = length.isascii() and length.isdigit() and len(length) < 10  # int raises above 4,300 digits
    return int(length) if is_number and int(length) <= MAX_BODY else None


def join_headers(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Headers by their lower-case name; the values of a repeated one are joined."""
    joined: dict[str, str] = {}
    for name, value in pairs:
        key = name.lower()
        joined[key] = f"{joined[key]}, {value}" if key in joined else value
    return joined
