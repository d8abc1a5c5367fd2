"""Who is online, on what, since when: multi-device sessions in Redis, searched, counted and ended."""

from presence_core.activity import (
    AsyncLastSeenTracker,
    AsyncMinuteSetTracker,
    LastSeenTracker,
    MinuteSetTracker,
)
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
from presence_core.filters import SessionFilter
from presence_core.models import (
    AuditEntry,
    Block,
    Counts,
    Ended,
    Event,
    Finding,
    ForgetReport,
    Health,
    Job,
    KickPreview,
    KickResult,
    Login,
    Migration,
    NodeHealth,
    Page,
    Person,
    Plan,
    PublicBlock,
    Sample,
    Session,
    StaffMember,
    SweepReport,
    Validation,
    WorkerStatus,
)
from presence_core.settings import Settings
from presence_core.worker import Worker

__version__ = "0.1.0"

__all__ = [
    "AsyncLastSeenTracker",
    "AsyncMinuteSetTracker",
    "AsyncPresence",
    "AuditEntry",
    "Block",
    "CorruptData",
    "Counts",
    "Ended",
    "Event",
    "Finding",
    "ForgetReport",
    "Health",
    "HeartbeatBuffer",
    "InvalidArgument",
    "Job",
    "KickPreview",
    "KickResult",
    "LastSeenTracker",
    "Login",
    "LoginRefused",
    "Migration",
    "MinuteSetTracker",
    "NodeHealth",
    "OutcomeUnknown",
    "Page",
    "Person",
    "Plan",
    "Presence",
    "PresenceError",
    "PublicBlock",
    "Sample",
    "Session",
    "SessionFilter",
    "Settings",
    "StaffMember",
    "SweepReport",
    "Unavailable",
    "Validation",
    "Worker",
    "WorkerStatus",
]
