"""What ``presence mirror`` says about itself."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from presence_core.keyspace import digest
from presence_core.models.sessions import moment, text
from presence_core.validation import MIRROR_PREFIX

ALIVE_MS = 10_000
"""A mirror reports every second; after so long without a report it counts as stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorStatus:
    """A mirror of a site's own sessions, as it reported last. Times are by our Redis's clock."""

    name: str  #: store and prefix of the keys, or ``--name``
    store: str  #: in words: "express-session with connect-redis"
    hears: str  #: "notifications" or "scans": how it learns of changes
    at: datetime  #: its last report
    alive: bool  #: that was less than 10 seconds ago
    behind_seconds: float  #: how old what it shows may be: of the last change it heard, or of the last whole scan
    sessions: int  #: mirrored
    without_user: int  #: sessions of the site that have no user: counted, not listed
    skipped: int  #: keys that could not be read, and sessions that did not fit: see its log
    waiting: int  #: kicked here, and not yet deleted at the site
    looked_at: datetime | None  #: when it last had read all sessions; None: it has not yet
    problem: str  #: why it cannot read or delete at the moment, a sentence; "" if it can

    @property
    def id_prefix(self) -> str:
        """What the ids of its sessions begin with."""
        return id_prefix(self.name)


def ends_soon(ids: Sequence[str], mirrors: Iterable[MirrorStatus]) -> bool:
    """Whether mirrors are at work that delete these mirrored sessions at the site."""
    concerned = [mirror for mirror in mirrors if any(sid.startswith(mirror.id_prefix) for sid in ids)]
    return bool(concerned) and all(mirror.alive and not mirror.problem for mirror in concerned)


def id_prefix(name: str) -> str:
    """What the ids of the sessions of the mirror with this name begin with: those of another one have other ids."""
    return f"{MIRROR_PREFIX}{digest(name, 3)}"


def read_status(name: bytes, raw: bytes, now: int) -> MirrorStatus | None:
    """Decode a report; None if another version wrote it in another form."""
    try:
        stored: dict[str, Any] = json.loads(raw)
        at, looked_at = int(stored["at"]), stored.get("looked_at")
        return MirrorStatus(
            name=text(name),
            store=str(stored["store"]),
            hears=str(stored["hears"]),
            at=moment(at),
            alive=not stored.get("stopped") and now - at < ALIVE_MS,
            behind_seconds=float(stored["behind"]),
            sessions=int(stored["sessions"]),
            without_user=int(stored["without_user"]),
            skipped=int(stored["skipped"]),
            waiting=int(stored["waiting"]),
            looked_at=None if looked_at is None else moment(int(looked_at)),
            problem=str(stored["problem"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
