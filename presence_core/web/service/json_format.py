"""JSON responses, and times in queries and bodies."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from fastapi import Response

from presence_core.errors import InvalidArgument
from presence_core.filters import SessionFilter
from presence_core.models import Ended, Session

Time = str | float
"""An ISO time with its zone, or Unix seconds."""

_TIME_RULE: Final = "must be an ISO time with its zone, or Unix seconds"

_UNIX_SECONDS: Final = re.compile(r"(?![0-9]{8}$)[0-9]{1,12}(\.[0-9]{1,9})?")
"""Eight digits are refused: they may be a date."""


def json_response(value: Any, status: int = 200) -> Response:
    """A response with a record, or a list or dict of records."""
    content = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=to_plain)
    return Response(content, status, None, "application/json")


def to_plain(value: Any) -> Any:
    """What JSON has no form for, as dicts, lists and text; what is in it may need this again. A filter becomes what a
    request would send."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, SessionFilter):
        return json.loads(value.to_json())
    if isinstance(value, Mapping):
        return dict(value)
    record = {name: getattr(value, name) for name in value.__dataclass_fields__}
    return {"ref": value.ref} | record if isinstance(value, Session | Ended) else record


def parse_time(field: str, value: Time | None) -> datetime | float | None:
    """A time as the library takes it. Raises InvalidArgument."""
    if value is None or isinstance(value, int | float):
        return value
    if _UNIX_SECONDS.fullmatch(value):
        return float(value)
    try:  # in a query, the plus of a zone that was not encoded arrives as a space
        at = datetime.fromisoformat(value.replace(" ", "+") if "T" in value else value)
    except ValueError:
        raise InvalidArgument(field, _TIME_RULE, "malformed") from None
    if at.tzinfo is None:
        raise InvalidArgument(field, _TIME_RULE, "malformed")
    return at
