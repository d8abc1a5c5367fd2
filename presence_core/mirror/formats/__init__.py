"""What sites write, read into plain values: dict, list, text, number, bool, None and bytes. Nothing is ever run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from presence_core.mirror.formats.java import read_java
from presence_core.mirror.formats.message_pack import read_message_pack
from presence_core.mirror.formats.plain_pickle import read_pickle
from presence_core.mirror.formats.unreadable import Unreadable as Unreadable


def _read_json(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        raise Unreadable("no JSON") from None


def _or_json(read: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """django-redis and Flask-Session may be set to JSON instead."""
    return lambda raw: _read_json(raw) if raw[:1] == b"{" else read(raw)


FORMATS: Final[Mapping[str, Callable[[bytes], Any]]] = {
    "json": _read_json,
    "pickle": _or_json(read_pickle),
    "msgpack": _or_json(read_message_pack),
    "java": read_java,
    "text": lambda raw: raw.decode("utf-8", "replace"),
}
"""By the word in a map file. ``java`` and ``text`` read the fields of a hash."""
