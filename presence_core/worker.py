"""The upkeep loop: one thread that sweeps, and goes on when Redis was away."""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime
from types import TracebackType

from presence_core.client import Presence
from presence_core.errors import InvalidArgument, PresenceError
from presence_core.models import SweepReport

log = logging.getLogger("presence_core")


class Worker:
    """Sweeps every ``interval`` seconds. Any number may run, in any process: each end is counted once.

    ``with Worker(presence): …`` runs it in a daemon thread; ``run()`` runs it in the caller's until ``stop()``.
    """

    def __init__(self, presence: Presence, *, interval: float = 5.0) -> None:
        if not isinstance(interval, int | float) or not 0.05 <= interval <= 3600:
            raise InvalidArgument("interval", "must be 0.05 to 3600 seconds")
        self._presence = presence
        self._interval = float(interval)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.last_run: datetime | None = None  #: when a sweep last ended well
        self.last_report: SweepReport | None = None
        self.last_error: PresenceError | None = None  #: what the last sweep failed of; None when it ended well

    def run(self) -> None:
        """Sweep until ``stop()``."""
        while True:
            try:
                self.last_report = self._presence.sweep()
                self.last_run = datetime.now(UTC)
                self.last_error = None
            except PresenceError as error:
                if self.last_error is None:
                    log.warning("the sweep waits: %s", error)
                self.last_error = error
            if self._stop.wait(self._interval):
                return

    def start(self) -> None:
        """Run in a daemon thread."""
        if self._thread is None or not self._thread.is_alive():
            self._stop.clear()
            self._thread = threading.Thread(target=self.run, name="presence-upkeep", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the loop, and the thread if there is one; a sweep under way ends first."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> Worker:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
