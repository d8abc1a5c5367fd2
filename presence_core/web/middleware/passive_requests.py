"""Requests that are no activity of the visitor: their session is validated, and does not count as seen."""

from __future__ import annotations

from collections.abc import Iterable

from presence_core.web.middleware.request_data import RequestData, read_header
from presence_core.web.rules import longest_prefix


class PassiveRequests:
    """What ``Rules.passive`` names."""

    def __init__(self, passive: Iterable[str]) -> None:
        items = tuple(passive)
        self._paths = [item for item in items if item.startswith("/")]
        pairs = (item.partition(":") for item in items if not item.startswith("/"))
        self._headers = [(name, value.strip().casefold()) for name, _, value in pairs]
        self.is_empty = not items

    def match(self, request: RequestData) -> bool:
        """Whether a request is one of them."""
        return longest_prefix(request.path, self._paths) is not None or any(
            _has_value(read_header(request, name), value) for name, value in self._headers
        )


def _has_value(header: str, value: str) -> bool:
    """Whether a header has this value among those that commas separate, without parameters; any, if none is given."""
    if not value:
        return bool(header.strip())
    return header.strip().casefold() == value or any(
        part.partition(";")[0].strip().casefold() == value for part in header.split(",")
    )
