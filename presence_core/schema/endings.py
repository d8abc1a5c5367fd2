"""Why sessions end: one row for each end reason. Retention, totals, samples, scripts and pages follow this table.

A new reason is a member of ``EndReason`` and a row here, its words in ``presence_dashboard/texts/endings.py``, and the
operation that ends sessions with it. A unit test finds what is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, get_args

from presence_core.schema.record import SessionFlag

EndReason = Literal["logout", "expired", "kicked", "replaced"]

EndCause = Literal[
    "user", "self", "site", "idp_logout", "idle", "absolute", "idp", "lost", "staff", "revoked", "denied", "limit",
    "device_limit",
]  # fmt: skip
"""``user``: a logout of this session. ``self``: the same user ended it from another session. ``site``: the site ended a
mirrored session. ``idp_logout``: the identity provider has ended it. ``idp``: the end that the identity provider had
set at login. ``lost``: the record vanished. ``revoked``: ``revoke_before``. ``denied``: the user answered a notice of
this login with "this was not me". ``limit``, ``device_limit``: a login replaced it."""

EventKind = Literal[
    "login", EndReason, "sign_in_required", "reauthenticated", SessionFlag, "gap",
]  # fmt: skip
"""``sign_in_required``: staff refuse the session until its visitor signs in again. ``reauthenticated``: they have.
``new_device``: a login on a device that is new to the user. ``distant``: a login far from the last one.
``after_failures``: a login after five or more sign-ins that failed. ``moved``: a session is used from elsewhere
(docs/use/moves.md). ``old_token``: someone used a token after the grace of the ``rotate`` that replaced it, for the
first time in this session. ``gap``: events before this point were dropped by the cap.
"""

WebhookKind = Literal[
    "kicked", "blocked", "unblocked", "revoked", "sign_in_required", SessionFlag, "gap",
]  # fmt: skip
"""The event kinds among them are sent from the events, the others from the audit."""

EndCount = Literal["logouts", "kicked", "expired", "replaced"]
"""The fields of a sample that count ends, in the order of a stored record, also in ``maintenance/write_sample.lua``.
Records are kept for years, so a new reason is counted in one of these fields."""

Why = Literal[
    "signed_out", "other_device", "inactive", "time_limit", "newer_sign_in", "support", "account", "provider", "not_me",
    "ended",
]  # fmt: skip
"""Why a session has ended, for its user. ``other_device``: they signed it out from another device. ``support``: staff
ended it. ``account``: a change to the account did, such as a new password. ``provider``: the identity provider did.
``not_me``: the user has said that it was not them."""


class Ending(NamedTuple):
    """An end reason."""

    reason: EndReason
    causes: Mapping[EndCause, Why]  #: each with what the user is shown
    keep: str  #: the setting: how long a tombstone is kept, seconds
    counted: EndCount  #: where a sample counts it


ENDINGS: Final = (
    Ending("kicked", {"staff": "support", "revoked": "support", "denied": "not_me"}, "keep_kicked", "kicked"),
    Ending("replaced", {"limit": "newer_sign_in", "device_limit": "newer_sign_in"}, "keep_replaced", "replaced"),
    Ending("expired", {"idle": "inactive", "absolute": "time_limit", "idp": "provider", "lost": "ended"},
           "keep_expired", "expired"),
    Ending("logout", {"user": "signed_out", "self": "other_device", "site": "ended", "idp_logout": "provider"},
           "keep_logout", "logouts"),
)  # fmt: skip
"""In the order in which the policy of scripts has their retention."""

END_REASONS: Final[tuple[EndReason, ...]] = get_args(EndReason)

END_COUNTS: Final[tuple[EndCount, ...]] = get_args(EndCount)

PROVIDER_CAUSES: Final[frozenset[EndCause]] = frozenset(("idp", "idp_logout"))
"""The identity provider ended the session."""

WHY: Final = {cause: why for ending in ENDINGS for cause, why in ending.causes.items()}
"""What the user is shown, by cause."""

KEEPS: Final = tuple(dict.fromkeys(ending.keep for ending in ENDINGS))
"""The settings that say how long tombstones are kept. Reasons may share one."""


def kept(settings: object) -> dict[str, int]:
    """How long the tombstones of each reason are kept, seconds."""
    return {ending.reason: getattr(settings, ending.keep) for ending in ENDINGS}


def in_words(quote: str = "") -> str:
    """All end reasons: a, b or c."""
    *most, last = (f"{quote}{reason}{quote}" for reason in END_REASONS)
    return f"{', '.join(most)} or {last}"


def counted(totals: Mapping[str, int]) -> list[int]:
    """The ends in these totals by reason, in the order of END_COUNTS."""
    return [sum(totals[ending.reason] for ending in ENDINGS if ending.counted == count) for count in END_COUNTS]


def _lua_names() -> dict[str, str]:
    local = {keep: keep.removeprefix("keep_") for keep in KEEPS}
    return {
        "KEPT_SECONDS": ", ".join(local.values()),
        "KEPT_BY_REASON": ", ".join(f"{ending.reason} = {local[ending.keep]}" for ending in ENDINGS),
        "POLICY_FORMAT": ">" + "I4" * (len(KEEPS) + 5),
        "IS_END_REASON": ", ".join(f"{reason} = true" for reason in END_REASONS),
    }


LUA: Final = _lua_names()
"""What scripts name in capitals, and the text that takes its place."""
