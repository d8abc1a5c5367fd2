"""The closed sets of texts that records and arguments may have, so that a type checker catches a misspelt value."""

from __future__ import annotations

from typing import Final, Literal, get_args

FailureCode = Literal["unknown", "ended", "sign_in_required", "authentication_too_old"]
"""Why a Validation is falsy."""

OddLogin = Literal["new_device", "distant", "after_failures", "moved"]
"""What may be odd about a login, or later about its session; each is an EventKind too."""

JobState = Literal["running", "paused", "cancelled", "done", "failed"]

JobKind = Literal["kick", "timeouts"]
"""What a bulk job does with the sessions that match."""
JobErrorCode = Literal["more_match", "not_ended", "unconfirmed", "damaged"]
"""``more_match``: more sessions match than were expected. ``not_ended``: another program's value is in the place
of some sessions. ``unconfirmed``: a failover may have undone some ends. ``damaged``: the job cannot be read."""

BlockRuleKind = Literal["network", "app_version", "country"]

StaffRole = Literal["stats", "viewer", "support", "admin"]

ApprovalState = Literal["open", "refused", "withdrawn", "lapsed", "approved", "done", "failed"]
"""``approved``: its act was begun, and the process has not written how it ended."""

ApprovalAnswer = Literal["approve", "refuse", "withdraw"]

SavedKind = Literal["view", "phrase", "watch"]
"""``view``: a filter of the session list. ``phrase``: a text for kicks. ``watch``: a person; the name is the uid."""

FindingLevel = Literal["ok", "note", "warning", "error"]
"""``note``: worth knowing. ``warning``: will cause trouble one day. ``error``: causes trouble now."""

NoticeState = Literal["waiting", "sending", "sent", "unsure", "refused", "skipped", "dropped", "link"]
"""Of a notice to a user about a login. ``unsure``: the sender stopped while it sent, so the mail may be missing; it is
not sent again. ``refused``: the mail server accepts no mail to this address. ``skipped``: there was no address, or
nothing to say any more. ``dropped``: it had waited for too long. ``link``: only a webhook had the link."""

NoticeAnswer = Literal["me", "not_me"]

ListOrder = Literal["login", "last_seen"]
"""Of live sessions: the newest login, or the last one seen, first."""

WayName = Literal["uid", "text", "name", "ip", "idp", "login", "list", "last_seen", "none"]
"""An index, or ``uid``: the set of one user. ``login``, ``list``: a part of the list of sessions, or all of it, is
scanned. ``last_seen``: the users are walked, last seen first. ``none``: the facet counters already show that nothing
matches."""

ODD_LOGINS: Final[tuple[OddLogin, ...]] = get_args(OddLogin)

JOB_STATES: Final[tuple[JobState, ...]] = get_args(JobState)

JOB_ERROR_CODES: Final[tuple[JobErrorCode, ...]] = get_args(JobErrorCode)

APPROVAL_STATES: Final[tuple[ApprovalState, ...]] = get_args(ApprovalState)

STAFF_ROLES: Final[tuple[StaffRole, ...]] = get_args(StaffRole)
"""From the least to the most rights."""

LEVELS: Final[tuple[FindingLevel, ...]] = get_args(FindingLevel)
"""From the best to the worst."""
