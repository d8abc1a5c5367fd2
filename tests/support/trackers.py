"""One interface for the sync and async trackers, so that one test body serves both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from presence_core import AsyncLastSeenTracker, AsyncMinuteSetTracker, LastSeenTracker, MinuteSetTracker
from tests.conftest import Bed
from tests.support.facade import EventLoop
from tests.support.fair_clock import PATIENT


class _Awaited:
    """An async tracker with the methods of the sync one: each call is awaited on the private loop."""

    def __init__(self, target: Any, loop: EventLoop) -> None:
        self._target = target
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        if not asyncio.iscoroutinefunction(value):
            return value
        return lambda *args, **options: self._loop.run(value(*args, **options))


@dataclass
class Trackers:
    """Makes trackers of the bed's mode on its server; closes them at the end of the test."""

    bed: Bed
    url: str = ""
    _open: list[Callable[[], Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._limit = {} if self.url else {"timeout": PATIENT}  # the bed's server answers, but the machine may be slow
        self.url = self.url or self.bed.url

    def key(self, name: str) -> str:
        """A key of this test; on a cluster all of them are on one node."""
        return f"{{{self.bed.namespace}}}:{name}"

    def last_seen(self, window: int = 600, **options: Any) -> LastSeenTracker:
        options = {"key": self.key("last.seen")} | options
        twins = LastSeenTracker, AsyncLastSeenTracker
        return cast(LastSeenTracker, self._make(twins, window=window, **options))

    def minute_sets(self, window: int = 600, **options: Any) -> MinuteSetTracker:
        options = {"prefix": self.key("seen")} | options
        twins = MinuteSetTracker, AsyncMinuteSetTracker
        return cast(MinuteSetTracker, self._make(twins, window=window, **options))

    def _make(self, twins: tuple[Any, Any], **options: Any) -> Any:
        loop, url = self.bed.loop, self.url
        if self.bed.backend.mode == "sync":
            made = twins[0].from_url(url, **self._limit | options)
        else:
            made = _Awaited(loop.call(lambda: twins[1].from_url(url, **self._limit | options)), loop)
        self._open.append(made.close)
        return made

    def close(self) -> None:
        while self._open:
            self._open.pop()()
