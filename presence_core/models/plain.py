"""Make records ready for JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

_ATOMS = frozenset((str, int, float, bool, type(None)))


@lru_cache(maxsize=256)
def _names(kind: type) -> tuple[str, ...] | None:
    """The fields of a record; None for any other type."""
    return tuple(item.name for item in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else None


def plain(value: Any) -> Any:
    """A record, or anything that contains records, as dicts, lists, texts and numbers; times in ISO 8601."""
    kind: type = type(value)
    if kind in _ATOMS:
        return value
    if kind is datetime:
        return value.isoformat()
    if names := _names(kind):
        fields = ((name, getattr(value, name)) for name in names)
        return {name: field if type(field) in _ATOMS else plain(field) for name, field in fields}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
