"""Several deliveries to one receiver at a time. Those of one user follow each other; one about all users goes alone."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from presence_core.web.webhooks.position import Delivery

_LOOK: Final = 0.05
"""Seconds between two looks at what has arrived, each of which saves the position once."""

Arrived = Callable[[list[Delivery], list[Delivery]], None]
"""Called with the deliveries that have arrived without a gap since the last call, and those that have arrived behind a
gap."""


def parts_of(deliveries: Sequence[Delivery]) -> Iterator[list[Delivery]]:
    """The deliveries in parts that may be sent at a time: one about no user is a part of its own."""
    part: list[Delivery] = []
    for delivery in deliveries:
        if delivery.body is None or "uid" in delivery.body:
            part.append(delivery)
            continue
        if part:
            yield part
        yield [delivery]
        part = []
    if part:
        yield part


class Lanes:
    """The deliveries of one part, in a lane for each user."""

    def __init__(self, part: list[Delivery], send: Callable[[Delivery], bool]) -> None:
        """send: sends one; False if this must stop."""
        self._part = part
        self._send = send
        self._done = [delivery.body is None for delivery in part]
        self._changed = threading.Condition()
        self._running = 0
        self._stopped = False
        self._failure: BaseException | None = None
        lanes: dict[object, list[int]] = {}
        for place, delivery in enumerate(part):
            if delivery.body is not None:
                lanes.setdefault(delivery.body.get("uid"), []).append(place)
        self._lanes = deque(lanes.values())

    def run(self, width: int, arrived: Arrived) -> bool:
        """Send at most ``width`` at a time. Returns whether all have arrived; raises what a send has raised, once no
        other is under way."""
        name = threading.current_thread().name
        self._running = min(width, len(self._lanes))
        threads = [
            threading.Thread(target=self._work, name=f"{name}-{number}", daemon=True) for number in range(self._running)
        ]
        for thread in threads:
            thread.start()
        try:
            passed = self._report(arrived)
        finally:  # also where the position cannot be saved: no thread goes on behind the next batch
            self._stop()
            for thread in threads:
                thread.join()
        if self._failure is not None:
            raise self._failure
        return passed == len(self._part)

    def _report(self, arrived: Arrived) -> int:
        """Call ``arrived`` while the threads work. Returns how many deliveries have arrived without a gap."""
        passed = 0
        while True:
            with self._changed:
                is_done = self._changed.wait_for(lambda: not self._running, _LOOK)
                done = list(self._done)
            first = next((place for place in range(passed, len(done)) if not done[place]), len(done))
            ahead = [self._part[place] for place in range(first, len(done)) if done[place] and self._part[place].body]
            if first > passed or (is_done and ahead):
                arrived(self._part[passed:first], ahead)
                passed = first
            if is_done:
                return passed

    def _work(self) -> None:
        try:
            while (lane := self._next()) is not None:
                for place in lane:
                    if self._stopped or not self._send(self._part[place]):
                        self._stop()
                        return
                    with self._changed:
                        self._done[place] = True
        except BaseException as failure:
            self._failure = failure
            self._stop()
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify()

    def _next(self) -> list[int] | None:
        with self._changed:
            return self._lanes.popleft() if self._lanes else None

    def _stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._lanes.clear()
