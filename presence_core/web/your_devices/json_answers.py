"""The bodies of the JSON API."""

from __future__ import annotations

import json
from gettext import NullTranslations
from typing import Any, Final

from presence_core.models import plain
from presence_core.web.your_devices.device_list import DeviceList
from presence_core.web.your_devices.page_html import why_sentence
from presence_core.web.your_devices.refusals import Refusal

JSON: Final = "application/json"
PROBLEM: Final = "application/problem+json"


def list_body(t: NullTranslations, shown: DeviceList, csrf: str) -> bytes:
    """The list, with the token that the other requests need."""
    ended = [plain(device) | {"sentence": why_sentence(t, device.why)} for device in shown.ended]
    return _encode(plain(shown) | {"ended": ended, "csrf": csrf})


def ended_body(count: int) -> bytes:
    """How many sessions a request has ended."""
    return _encode({"ended": count})


def problem_body(refusal: Refusal, sign_in_url: str | None) -> bytes:
    """A refusal (RFC 9457)."""
    body = {"type": "about:blank", "title": refusal.title, "status": refusal.status, "detail": refusal.sentence,
            "code": refusal.code, **refusal.members}  # fmt: skip
    return _encode(body | {"sign_in_url": sign_in_url} if refusal.way == "sign_in" and sign_in_url else body)


def read_object(body: bytes) -> dict[str, Any] | None:
    """The JSON object of a request; None if it is none."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _encode(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
