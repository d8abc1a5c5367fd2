"""Visitors whose cookie has not come back yet, so that a client without cookies is not a new visitor at each call."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Final, NamedTuple

MOST: Final = 3
"""New visitors of one source that are counted at a time. One would be too few: people share addresses and browsers."""

SECONDS: Final = 600
"""A visitor whose cookie has not come back counts as new for so long, as the window of the trackers."""

CAPACITY: Final = 10_000
"""Sources that a process remembers, the latest ones."""

Source = tuple[str, str, str]
"""Path, network and user agent. The paths have lists of their own."""


class NewVisitor(NamedTuple):
    """A visitor who had no cookie."""

    cookie: str  #: that they got
    page: str | None  #: the name of the page that called
    at: float


class NewVisitors:
    """The new visitors of each source. Each process counts for itself."""

    def __init__(self) -> None:
        self._sources: OrderedDict[Source, list[NewVisitor]] = OrderedDict()

    def admit(self, source: Source, page: str | None, cookie: str) -> str | None:
        """The cookie of the visitor that a call without one comes from: ``cookie`` for a new one, or that of an earlier
        call of the same page. None: too many of this source have not sent theirs back, so no visitor is counted."""
        waiting = self._waiting(source)
        for visitor in waiting:
            if page is not None and page == visitor.page:
                return visitor.cookie
        if len(waiting) >= MOST:
            return None
        self._sources[source] = [*waiting, NewVisitor(cookie, page, time.monotonic())]
        if len(self._sources) > CAPACITY:
            self._sources.popitem(last=False)
        return cookie

    def came_back(self, source: Source, cookie: str) -> None:
        """This cookie was sent by a client, so it keeps cookies."""
        if source in self._sources:
            self._sources[source] = [visitor for visitor in self._waiting(source) if visitor.cookie != cookie]
            if not self._sources[source]:
                del self._sources[source]

    def _waiting(self, source: Source) -> list[NewVisitor]:
        oldest = time.monotonic() - SECONDS
        return [visitor for visitor in self._sources.get(source, ()) if visitor.at > oldest]
