"""A folder that keeps logouts while Redis is away: what verified tokens say. It keeps no token."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
from pathlib import Path
from typing import Any, Final

from presence_core.errors import InvalidArgument

_log = logging.getLogger(__name__)

MAX_FILES: Final = 100_000


class Spool:
    """One file for each logout, written whole and flushed to the disk before ``add`` returns.

    ``waiting``: how many there are, of this process and of those that ran before it.
    """

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise InvalidArgument("spool", f"must be a folder that can be written: {error.strerror}") from None
        if not self._folder.is_dir() or not os.access(self._folder, os.W_OK | os.X_OK):
            raise InvalidArgument("spool", "must be a folder that can be written")
        self._lock = threading.Lock()
        self.waiting = len(self.read())

    def add(self, digest: str, logout: dict[str, Any]) -> bool:
        """Keep a logout. False where that is not possible."""
        path = self._folder / f"{digest}.json"
        new = path.with_suffix(f".{os.getpid()}.new")
        try:
            if self.waiting >= MAX_FILES:
                raise OSError("it is full")
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with open(descriptor, "w", encoding="utf-8") as out:
                json.dump(logout, out)
                out.flush()
                os.fsync(out.fileno())
            with self._lock:
                self.waiting += not path.exists()
                new.replace(path)
            folder = os.open(self._folder, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            _log.error("The spool of logouts cannot be written: %s", error)
            return False
        return True

    def read(self) -> list[tuple[str, dict[str, Any]]]:
        """Name and content of each, the first written first; also sets ``waiting``. A file without JSON stays."""
        found = []
        for path in self._folder.glob("*.json"):
            with contextlib.suppress(OSError, ValueError):
                found.append((path.stat().st_mtime, path.name, json.loads(path.read_bytes())))
        with self._lock:
            self.waiting = len(found)
        return [(name, logout) for _, name, logout in sorted(found, key=lambda item: item[:2])]

    def remove(self, name: str) -> None:
        (self._folder / name).unlink(missing_ok=True)
        self._count_down()

    def set_aside(self, name: str) -> None:
        """For the operator to look at: it is not read again."""
        with contextlib.suppress(OSError):
            (self._folder / name).rename(self._folder / f"{name}.failed")
        self._count_down()

    def _count_down(self) -> None:
        with self._lock:
            self.waiting -= 1
