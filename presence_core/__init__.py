"""Who is online, on what, since when: multi-device sessions in Redis, searched, counted and ended."""

from presence_core.buffer import HeartbeatBuffer
from presence_core.client import AsyncPresence, Presence
from presence_core.errors import (
    CorruptData,
    InvalidArgument,
    LoginRefused,
    OutcomeUnknown,
    PresenceError,
    Unavailable,
)
from presence_core.models import (
    Counts,
    Ended,
    Event,
    KickResult,
    Login,
    Page,
    Session,
    SweepReport,
    Validation,
)
from presence_core.settings import Settings
from presence_core.worker import Worker

__version__ = "0.1.0"

__all__ = [
    "AsyncPresence",
    "CorruptData",
    "Counts",
    "Ended",
    "Event",
    "HeartbeatBuffer",
    "InvalidArgument",
    "KickResult",
    "Login",
    "LoginRefused",
    "OutcomeUnknown",
    "Page",
    "Presence",
    "PresenceError",
    "Session",
    "Settings",
    "SweepReport",
    "Unavailable",
    "Validation",
    "Worker",
]
