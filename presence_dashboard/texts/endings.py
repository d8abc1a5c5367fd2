"""How sessions end, in the words of each page. Most tables here have a text for every end reason, or for every cause:
``presence_core/schema/endings.py`` lists them, and a unit test compares."""

from __future__ import annotations

from typing import Final

from presence_core.schema.endings import PROVIDER_CAUSES
from presence_dashboard.language import Sentence
from presence_dashboard.language import gettext as _

# -- By reason ---------------------------------------------------------------------------------------------------------

HISTORY_HOWS: Final = {
    "": "Any reason",
    "kicked": "Kicked",
    "replaced": "Replaced",
    "expired": "Expired",
    "logout": "Signed out",
    "idp_logout": "Signed out by identity provider",
    "denied": "Denied by the user",
}
"""What the filter of ends offers: the reasons, then the causes that staff look for."""
LIVE_ENDED: Final = {
    "logout": "signed out",
    "expired": "expired",
    "replaced": "replaced by a newer login",
    "kicked": "kicked",
}
LIVE_ICONS_CODE: Final = {
    "login": ":material/login:",
    "logout": ":material/logout:",
    "expired": ":material/schedule:",
    "kicked": ":material/block:",
    "replaced": ":material/swap_horiz:",
}
ENDED_ROW: Final = "Ended"
ENDED_ROWS: Final = {
    "kicked": "Kicked by {by}, {at}",
    "logout": "Signed out, {at}",
    "expired": "Expired, {at}",
    "replaced": "Replaced by a newer login, {at}",
}
ENDED_BY_PROVIDER_ROW: Final = "Ended by the identity provider ({by}), {at}"
ENDED_BY_PROVIDER_BEFORE: Final = "ended by the identity provider ({by}) at {clock}, {ago} ago"
ENDED_BY_DENIAL_ROW: Final = "Denied by the user, {at}"
ENDED_BY_DENIAL_BEFORE: Final = "denied by the user at {clock}, {ago} ago"
ENDED_BEFORE: Final = {
    "kicked": "kicked by {by} at {clock}, {ago} ago",
    "logout": "signed out at {clock}, {ago} ago",
    "expired": "expired at {clock}, {ago} ago",
    "replaced": "replaced by a newer login at {clock}, {ago} ago",
}


def ended_row(reason: str, cause: str, by: str, at: str) -> str:
    """In the list of sessions. by: staff, or the identity provider."""
    row = ENDED_BY_PROVIDER_ROW if cause in PROVIDER_CAUSES else ENDED_ROWS.get(reason, ENDED_ROW)
    if cause == "denied":
        row = ENDED_BY_DENIAL_ROW
    return _(row).format(by=by, at=at)


def ended_before(reason: str, cause: str, by: str, clock: str, ago: str) -> str:
    """In a notification, about a session that staff wanted to kick."""
    if cause == "denied":
        return _(ENDED_BY_DENIAL_BEFORE).format(clock=clock, ago=ago)
    if cause in PROVIDER_CAUSES:
        return _(ENDED_BY_PROVIDER_BEFORE).format(by=by, clock=clock, ago=ago)
    return _(ENDED_BEFORE[reason]).format(by=by, clock=clock, ago=ago) if reason in ENDED_BEFORE else _(ENDED_ROW)


# -- By cause ----------------------------------------------------------------------------------------------------------

HISTORY_CAUSES: Final = {
    "user": "the user signed out",
    "self": "the user signed it out from another device",
    "idp": "the identity provider ended it",
    "idp_logout": "the identity provider ended it",
    "site": "ended by the site",
    "idle": "no activity for too long",
    "absolute": "maximum session length reached",
    "lost": "its record was lost",
    "staff": "kicked by staff",
    "revoked": "everyone was signed out",
    "denied": "the user said that it was not them",
    "limit": "replaced by a newer login",
    "device_limit": "replaced by a newer login on the same device",
}
LIVE_CAUSES: Final = {
    "self": "from another device",
    "idp": "by the identity provider",
    "idp_logout": "by the identity provider",
    "site": "ended by the site",
    "idle": "no activity",
    "absolute": "maximum length reached",
    "lost": "its record was lost",
    "revoked": "everyone was signed out",
    "denied": "denied by the user",
    "device_limit": "same device",
}
"""Where the cause says more than the reason."""
HAPPENED_ENDS: Final = {
    "user": ":gray[:material/logout:] Signed out: {device}",
    "self": ":gray[:material/logout:] Signed out from another device: {device}",
    "idp": ":gray[:material/logout:] Ended by the identity provider ({by}): {device}",
    "idp_logout": ":gray[:material/logout:] Ended by the identity provider ({by}): {device}",
    "site": ":gray[:material/logout:] Ended by the site: {device}",
    "idle": ":gray[:material/schedule:] Expired after {idle} without activity: {device}",
    "absolute": ":gray[:material/schedule:] Expired {absolute} after login: {device}",
    "lost": ":gray[:material/help:] Ended, because its record was lost: {device}",
    "staff": ":orange[:material/person_remove:] Kicked by {by}: {devices}",
    "revoked": ":orange[:material/person_remove:] Everyone signed out by {by}: {device}",
    "denied": ":orange[:material/gpp_bad:] The user said “This was not me”: {device}",
    "limit": ":gray[:material/swap_horiz:] Replaced by {newer}: {device}",
    "device_limit": ":gray[:material/swap_horiz:] Replaced by {newer}: {device}",
}
NEWER_LOGIN: Final = "a newer login"
NEWER_LOGIN_ON_DEVICE: Final = "a newer login on the same device"
newer_login_at: Final = Sentence("the login on {device} at {exact}")


def happened_end(cause: str, **values: str) -> str:
    """On the timeline of a person. values: device, devices (of a kick), by, newer (login), idle, absolute (timeout)."""
    return _(HAPPENED_ENDS[cause]).format(**values) if cause in HAPPENED_ENDS else f"{_(ENDED_ROW)}: {values['device']}"


# -- By count and by setting -------------------------------------------------------------------------------------------

LIVE_REASONS: Final = {
    "logouts": "Signed out",
    "expired": "Expired",
    "replaced": "Replaced by a newer login",
    "kicked": "Kicked",
}
LIVE_ENDS_LISTED: Final = {
    "logouts": "signed out",
    "expired": "expired",
    "replaced": "replaced by a newer login",
    "kicked": "kicked",
}
"""In the middle of a sentence."""
RETENTION_ENDED: Final = {
    "keep_kicked": "Ended session: kicked",
    "keep_replaced": "Ended session: replaced",
    "keep_expired": "Ended session: expired",
    "keep_logout": "Ended session: signed out",
}
