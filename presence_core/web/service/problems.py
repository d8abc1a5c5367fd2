"""Errors as problem+json (RFC 9457): one sentence, the field where there is one, never what was sent."""

from __future__ import annotations

import json
import re
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from presence_core.errors import CorruptData, InvalidArgument, LoginRefused, OutcomeUnknown, Unavailable
from presence_core.models import PublicBlock, plain

MEDIA_TYPE: Final = "application/problem+json"

AWAY: Final = "The session store does not answer: try again shortly."
UNKNOWN: Final = "The session store took this and did not answer: it may have been done. Look, or send it again."
FULL: Final = "This process has as many connections as it takes: try again shortly."
BROKEN: Final = "Something is wrong on this side: the log of the service says what."

NOT_JSON: Final = "The body must be sent as Content-Type: application/json."

RETRY_AFTER: Final = {"Retry-After": "1"}

_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")
"""What is said again of the names that were sent: a secret in the wrong place is longer."""


_OWN: Final = {  # what the framework says, said better
    "Not Found": "There is no such address.",
    "Method Not Allowed": "This address does not take this method.",
    "There was an error parsing the body": "The body must be JSON.",
}


class Problem(BaseModel):
    """What every error answers."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    field: str | None = None
    code: str | None = None
    block: PublicBlock | None = None


_TOLD: Final = {MEDIA_TYPE: {"schema": Problem.model_json_schema()}}

RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    "4XX": {"description": "A problem with the request", "content": _TOLD},
    "503": {"description": "Redis is away", "content": _TOLD},
}


def problem(status: int, detail: str, headers: dict[str, str] | None = None, **members: Any) -> Response:
    """An error as it is answered. members: ``field``, ``code`` or ``block``, where there is one."""
    said = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    said |= {name: value for name, value in members.items() if value}
    return Response(json.dumps(said, ensure_ascii=False), status, headers, MEDIA_TYPE)


def not_found(what: str) -> HTTPException:
    """There is no such thing."""
    return HTTPException(404, f"{what}.")


def is_json(request: Request) -> bool:
    """Whether the body is said to be JSON. A page of another origin cannot say so without being asked first."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


def _methods(request: Request) -> set[str]:
    """All that this address takes: the framework names those of its first route alone."""
    paths: dict[str, Any] = request.app.openapi()["paths"]
    return {name.upper() for name in paths.get(getattr(request.scope.get("route"), "path_format", ""), ())}


def add_problems(app: FastAPI) -> None:
    """Answer every error of this app as a problem."""

    @app.exception_handler(InvalidArgument)
    async def invalid(request: Request, error: InvalidArgument) -> Response:
        return problem(422, str(error), field=error.field)

    @app.exception_handler(RequestValidationError)
    async def unreadable(request: Request, error: RequestValidationError) -> Response:
        first: dict[str, Any] = next(iter(error.errors()), {})
        if first.get("type") == "json_invalid":
            return problem(400, "The body must be JSON.")
        if isinstance(error.body, bytes) and not is_json(request):
            return problem(415, NOT_JSON)
        place = first.get("loc") or ("request",)
        names = [str(part) for part in place[1:] if _NAME.fullmatch(str(part)) and part not in ("str", "float")]
        field = ".".join(names) or str(place[0])
        if first.get("type") == "extra_forbidden":
            return problem(422, f"There is no field of this name in the {place[0]}.", field=field)
        if first.get("type") == "missing":
            return problem(422, f"{field} must be given.", field=field)
        rule = str(first.get("msg") or "cannot be read").removeprefix("Value error, ")
        return problem(422, f"{field}: {rule[:1].lower()}{rule[1:]}.", field=field)

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        detail, headers = _OWN.get(error.detail, error.detail), dict(error.headers or {})
        if error.status_code == 405 and (methods := _methods(request)):
            headers["Allow"] = ", ".join(sorted(methods))
        return problem(error.status_code, detail, headers)

    @app.exception_handler(LoginRefused)
    async def login_refused(request: Request, error: LoginRefused) -> Response:
        block = plain(PublicBlock(error.message, error.until)) if error.code == "blocked" else None
        return problem(409, error.sentence, code=error.code, block=block)

    @app.exception_handler(Unavailable)
    async def unavailable(request: Request, error: Unavailable) -> Response:
        if isinstance(error, OutcomeUnknown):
            return problem(503, UNKNOWN, RETRY_AFTER, code="outcome_unknown")
        return problem(503, AWAY, RETRY_AFTER, code="unavailable")

    @app.exception_handler(CorruptData)
    async def corrupt(request: Request, error: CorruptData) -> Response:
        return problem(500, "The session store holds what was never written so: run presence repair.", code="corrupt")
