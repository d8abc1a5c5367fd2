"""Answer errors as problem+json (RFC 9457): one sentence, and the field if there is one. Never request data."""

from __future__ import annotations

import json
import re
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from presence_core.errors import (
    CorruptData,
    InvalidArgument,
    LoginRefused,
    OutcomeUnknown,
    PresenceError,
    Unavailable,
)
from presence_core.models import PublicBlock, plain

MEDIA_TYPE: Final = "application/problem+json"

AWAY: Final = "The session store does not answer: try again shortly."
UNKNOWN: Final = "The session store did not reply in time. This change may be done: check before you send it again."
FULL: Final = "Too many open connections: try again in a few seconds."
BROKEN: Final = "The service failed: its log has the details."

NOT_JSON: Final = "The body must be sent as Content-Type: application/json."

RETRY_AFTER: Final = {"Retry-After": "1"}

_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")
"""Names of request fields that an error may repeat. A secret in the wrong place is longer."""

_DETAILS: Final = {  # in place of the framework's
    "Not Found": "There is no such address.",
    "Method Not Allowed": "This address does not support this method.",
    "There was an error parsing the body": "The body must be JSON.",
}


class Problem(BaseModel):
    """The body of every error response."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    field: str | None = None
    code: str | None = None
    block: PublicBlock | None = None


_CONTENT: Final = {MEDIA_TYPE: {"schema": Problem.model_json_schema()}}

RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    "4XX": {"description": "A problem with the request", "content": _CONTENT},
    "503": {"description": "Redis is away", "content": _CONTENT},
}


def problem(status: int, detail: str, headers: dict[str, str] | None = None, **members: Any) -> Response:
    """An error response. members: ``field``, ``code`` or ``block``, if there is one."""
    body = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    body |= {name: value for name, value in members.items() if value}
    return Response(json.dumps(body, ensure_ascii=False), status, headers, MEDIA_TYPE)


def code_of(error: PresenceError) -> str:
    """The code of an error that is not about an argument."""
    if isinstance(error, CorruptData):
        return "corrupt"
    return "outcome_unknown" if isinstance(error, OutcomeUnknown) else "unavailable"


def not_found(detail: str) -> HTTPException:
    """A 404 error, with a sentence without its period."""
    return HTTPException(404, f"{detail}.")


def is_json(request: Request) -> bool:
    """Whether the Content-Type is JSON. Browsers send that to another origin only after a preflight."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


def _methods(request: Request) -> set[str]:
    """All methods of this address. The framework lists only those of its first route."""
    paths: dict[str, Any] = request.app.openapi()["paths"]
    return {name.upper() for name in paths.get(getattr(request.scope.get("route"), "path_format", ""), ())}


def _validation_problem(request: Request, error: RequestValidationError) -> Response:
    """The first mistake in a request, without its value: it may be a secret."""
    first: dict[str, Any] = next(iter(error.errors()), {})
    if first.get("type") == "json_invalid":
        return problem(400, "The body must be JSON.")
    if isinstance(error.body, bytes) and not is_json(request):
        return problem(415, NOT_JSON)
    part, *path = first.get("loc") or ("request",)
    names = [str(name) for name in path if _NAME.fullmatch(str(name)) and name not in ("str", "float")]
    field = ".".join(names) or str(part)
    if first.get("type") == "extra_forbidden":
        return problem(422, f"The {part} has no such field.", field=field, code="unknown")
    if first.get("type") == "missing":
        return problem(422, f"{field} is required.", field=field, code="required")
    rule = str(first.get("msg") or "cannot be read").removeprefix("Value error, ")
    return problem(422, f"{field}: {rule[:1].lower()}{rule[1:]}.", field=field, code="invalid")


def add_problems(app: FastAPI) -> None:
    @app.exception_handler(InvalidArgument)
    async def invalid(request: Request, error: InvalidArgument) -> Response:
        return problem(422, str(error), field=error.field, code=error.code)

    @app.exception_handler(RequestValidationError)
    async def unreadable(request: Request, error: RequestValidationError) -> Response:
        return _validation_problem(request, error)

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        detail, headers = _DETAILS.get(error.detail, error.detail), dict(error.headers or {})
        if error.status_code == 405 and (methods := _methods(request)):
            headers["Allow"] = ", ".join(sorted(methods))
        return problem(error.status_code, detail, headers)

    @app.exception_handler(LoginRefused)
    async def login_refused(request: Request, error: LoginRefused) -> Response:
        is_block = error.code in ("blocked", "block_rule")
        block = plain(PublicBlock(error.message, error.until)) if is_block else None
        return problem(409, error.sentence, code=error.code, block=block)

    @app.exception_handler(Unavailable)
    async def unavailable(request: Request, error: Unavailable) -> Response:
        detail = UNKNOWN if isinstance(error, OutcomeUnknown) else AWAY
        return problem(503, detail, RETRY_AFTER, code=code_of(error))

    @app.exception_handler(CorruptData)
    async def corrupt(request: Request, error: CorruptData) -> Response:
        return problem(500, "The session store holds unexpected data: run presence repair.", code=code_of(error))
