"""The position of one URL: what its receiver has been sent. A locked file keeps it over restarts."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

SLACK: Final = 60.0
"""Seconds by which audit entries may be out of order, because shards have clocks of their own. The ids of entries that
were sent within this time are remembered."""

SAVE_INTERVAL: Final = 5.0
"""Seconds between two saves of a position that only passed events without a delivery."""

_SENT: Final = "told"  # name of the field ``sent`` in the files that exist


@dataclass(frozen=True, slots=True)
class Delivery:
    """A webhook to send, and the position after it. Without a body only the position moves."""

    body: dict[str, Any] | None
    cursor: str | None = None  #: position in the events
    audited: float | None = None  #: position in the audit: Unix seconds of the entry
    audit_id: str | None = None


class Position:
    """How far one URL has been served. Only the process that holds the file's lock may use it."""

    def __init__(self, directory: Path, url: str) -> None:
        self._path = directory / f"{sha256(url.encode()).hexdigest()[:24]}.json"
        self._lock: int | None = None
        self.cursor: str | None = None  #: position in the events
        self.audited = 0.0  #: position in the audit, Unix seconds
        self.sent: dict[str, float] = {}  #: audit entries that were sent within the slack: id → Unix seconds
        self.ahead: set[str] = set()  #: ids of deliveries that have arrived behind one that has not
        self.is_new = True
        self._saved_at = float("-inf")

    @property
    def is_ours(self) -> bool:
        """Whether this process holds the lock."""
        return self._lock is not None

    def take(self) -> bool:
        """Lock and read the file. False: another process holds it. The lock ends with the process, even after a kill.

        Raises OSError, and RuntimeError if the file holds something else.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _lock(handle)
        except BlockingIOError:
            os.close(handle)
            return False
        except BaseException:
            os.close(handle)
            raise
        self._lock = handle
        try:
            self._load()
        except FileNotFoundError:
            pass
        except (ValueError, KeyError, TypeError, AttributeError):
            self.release()
            raise RuntimeError(f"{self._path.name} is not a position of webhooks: delete it to begin now") from None
        return True

    def _load(self) -> None:
        saved = json.loads(self._path.read_text("utf-8"))
        self.cursor, self.audited = str(saved["cursor"]), float(saved["audited"])
        self.sent = {str(audit_id): float(at) for audit_id, at in saved[_SENT].items()}
        self.ahead = {str(name) for name in saved.get("ahead", ())}
        self.is_new = False

    def release(self) -> None:
        """Let another process continue from here. In a forked child only the child's own hold ends."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def move(self, deliveries: Iterable[Delivery], ahead: Iterable[Delivery] = ()) -> None:
        """Move past deliveries that were sent. ``ahead``: those that were sent behind one that was not yet."""
        passed = list(deliveries)
        for delivery in passed:
            self._move(delivery)
        self.ahead |= {delivery.body["id"] for delivery in ahead if delivery.body}
        # A position that only passed events without a delivery may be lost: no disk write for every login.
        has_sent = any(delivery.body is not None for delivery in passed) or bool(self.ahead)
        if has_sent or time.monotonic() - self._saved_at > SAVE_INTERVAL:
            self.save()

    def end_batch(self) -> None:
        """All deliveries of a batch have arrived: none is ahead of another."""
        if self.ahead:
            self.ahead.clear()
            self.save()

    def _move(self, delivery: Delivery) -> None:
        if delivery.cursor is not None:
            self.cursor = delivery.cursor
        if delivery.audited is not None and delivery.audit_id is not None:
            self.audited = max(self.audited, delivery.audited)
            self.sent[delivery.audit_id] = delivery.audited
            self.sent = {audit_id: at for audit_id, at in self.sent.items() if at >= self.audited - 2 * SLACK}

    def save(self) -> None:
        """Replace the file in one step: after a crash there is the old file or the new one."""
        handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=self._path.stem)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                saved = {"cursor": self.cursor, "audited": self.audited, _SENT: self.sent, "ahead": sorted(self.ahead)}
                json.dump(saved, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, self._path)
        except BaseException:
            os.unlink(name)
            raise
        self.is_new = False
        self._saved_at = time.monotonic()


def _lock(handle: int) -> None:
    try:
        import fcntl
    except ImportError:  # Windows: other processes are not looked for
        return
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
