"""Cursors: where a page ended, as text that a client gives back. Nothing in them is secret, and none is trusted."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import Any, Final

from presence_core.errors import InvalidArgument
from presence_core.keyspace import digest

MAX_CHARACTERS: Final = 65_536


def encode(text: str) -> str:
    """Text as URL-safe base64. Bytes that are not UTF-8 survive as surrogates."""
    return urlsafe_b64encode(text.encode("utf-8", "surrogatepass")).rstrip(b"=").decode()


def decode(cursor: object, most: int = MAX_CHARACTERS) -> str | None:
    """The text that ``encode`` was given; None for anything else."""
    if not isinstance(cursor, str) or len(cursor) > most:
        return None
    try:
        return urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("utf-8", "surrogatepass")
    except ValueError:
        return None


def decode_json(cursor: object, most: int = MAX_CHARACTERS) -> Any:
    """The value of JSON text that ``encode`` was given; None for anything else."""
    try:
        return json.loads(decode(cursor, most) or "null")
    except (ValueError, RecursionError):
        return None


def is_number(value: object) -> bool:
    """Whether a cursor of ours may have this as a time, ms, or as a count."""
    return type(value) is int and 0 <= value < 1 << 53


def make_cursor(call: str, question: object, seen: int, position: object) -> str:
    """A cursor that only ``call`` with the same question takes. ``seen``: how many the pages so far have shown, so that
    the last page knows the total."""
    return encode(json.dumps([call, _digest(question), seen, position], separators=(",", ":")))


def read_cursor(cursor: object, call: str, question: object, is_position: Callable[[Any], bool]) -> tuple[int, Any]:
    """``seen`` and ``position`` as ``make_cursor`` was given them; (0, None) without a cursor."""
    if cursor is None:
        return 0, None
    try:
        name, asked, seen, position = decode_json(cursor)
        is_ours = name == call and asked == _digest(question) and is_number(seen)
        if is_ours and is_position(position):
            return seen, position
    except (ValueError, TypeError):
        pass
    raise InvalidArgument("cursor", f"must be the next_cursor of {call}, with the same other arguments", "malformed")


def _digest(question: object) -> str:
    return digest(json.dumps(question))
