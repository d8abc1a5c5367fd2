"""The closed sets of texts that records and arguments may have, so that a type checker catches a misspelt value."""

from __future__ import annotations

from typing import Final, Literal, get_args

EndReason = Literal["logout", "expired", "kicked", "replaced"]

EndCause = Literal["user", "self", "idle", "absolute", "lost", "staff", "revoked", "limit", "device_limit"]
"""``user``: a logout of this session. ``self``: the same user ended it from another session. ``lost``: the record
vanished. ``revoked``: ``revoke_before``. ``limit``, ``device_limit``: a login replaced it."""

EventKind = Literal[
    "login",
    "logout",
    "expired",
    "kicked",
    "replaced",
    "sign_in_required",
    "reauthenticated",
    "new_device",
    "distant",
    "gap",
]
"""``sign_in_required``: staff refuse the session until its visitor signs in again. ``reauthenticated``: they have.
``new_device``: a login on a device that is new to the user. ``distant``: a login far from the
last one. ``gap``: events before this point were dropped by the cap.
"""

FailureCode = Literal["unknown", "ended", "sign_in_required", "authentication_too_old"]
"""Why a Validation is falsy."""

OddLogin = Literal["new_device", "distant"]
"""What may be odd about a login; each is an EventKind too."""

JobState = Literal["running", "paused", "cancelled", "done", "failed"]

BlockRuleKind = Literal["network", "app_version", "country"]

StaffRole = Literal["stats", "viewer", "support", "admin"]

SavedKind = Literal["view", "phrase", "watch"]
"""``view``: a filter of the session list. ``phrase``: a text for kicks. ``watch``: a person; the name is the uid."""

FindingLevel = Literal["ok", "note", "warning", "error"]
"""``note``: worth knowing. ``warning``: will cause trouble one day. ``error``: causes trouble now."""

WayName = Literal["uid", "text", "name", "ip", "login", "list", "none"]
"""``list``: the list of sessions is scanned. ``none``: the facet counters already show that nothing matches."""

ODD_LOGINS: Final[tuple[OddLogin, ...]] = get_args(OddLogin)

JOB_STATES: Final[tuple[JobState, ...]] = get_args(JobState)

STAFF_ROLES: Final[tuple[StaffRole, ...]] = get_args(StaffRole)
"""From the least to the most rights."""

LEVELS: Final[tuple[FindingLevel, ...]] = get_args(FindingLevel)
"""From the best to the worst."""
