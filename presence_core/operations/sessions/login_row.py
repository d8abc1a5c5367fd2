"""The arguments of a login, checked: what a site may give, and how it is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from presence_core import validation as check
from presence_core.errors import InvalidArgument
from presence_core.filters import facet_members
from presence_core.models import attributes_of
from presence_core.operations.visitor_fields import VisitorFields
from presence_core.schema.record import GIVEN
from presence_core.settings import LIMITS, Settings

_ARGUMENTS: Final = frozenset(
    ("uid", "name", "aliases", "device", "app", "app_version", "ip", "user_agent", "attributes", "session_id",
     "idle_timeout", "absolute_timeout", "methods", "mfa", "device_id", "on_behalf_by", "reason",
     "max_sessions", "expires_at", "idp")
)  # fmt: skip
_IMPORT_ARGUMENTS: Final = _ARGUMENTS | {"login_at", "last_seen"}


@dataclass(slots=True)
class LoginRow:
    """A login whose arguments have been checked, ready to send."""

    uid: str
    session_id: str
    idle: int
    absolute: int
    name: str
    aliases: str
    ip: bytes  #: in full, for block rules and the place
    recorded_ip: bytes
    attributes: bytes
    device: str
    app: str
    app_version: str
    user_agent: str  #: whole, for os and browser
    recorded_agent: str
    facets: str
    authentication: str
    max_sessions: int
    device_id: str | None = None
    on_behalf_by: str | None = None
    reason: str = ""
    login_at: int | str = ""
    last_seen: int | str = ""
    place: bytes = b""
    idp: str = ""
    idp_end: int | str = ""

    def given(self) -> dict[str, bytes]:
        """The fields of the record that are sent as they are, by name."""
        values = ((field.name, getattr(self, field.name)) for field in GIVEN)
        return {name: value.encode() if isinstance(value, str) else value for name, value in values if value}

    def given_words(self) -> list[str | bytes]:
        """Their letters and values, as HSET takes them."""
        pairs = ((field.letter, getattr(self, field.name)) for field in GIVEN)
        return [word for pair in pairs if pair[1] for word in pair]


def check_row(
    settings: Settings, visitor: VisitorFields, given: Mapping[str, Any], new_id: str, imported: bool = False
) -> LoginRow:
    """Read every argument of one login. Only an imported one may have the id of a mirrored session."""
    idle, absolute = settings.timeouts(given.get("idle_timeout"), given.get("absolute_timeout"))
    session_id = given.get("session_id")
    session_id = new_id if session_id is None else check.session_id(session_id)
    staff, reason = check_on_behalf(given)
    if staff is not None:
        if not check.is_on_behalf(session_id):
            session_id = f"{check.ON_BEHALF_PREFIX}{new_id}"
        absolute = min(absolute, settings.on_behalf_timeout)
    elif check.is_on_behalf(session_id):
        raise InvalidArgument(
            "session_id", f"must not begin with {check.ON_BEHALF_PREFIX} without on_behalf_by", "on_behalf"
        )
    elif check.is_mirrored(session_id) and not imported:
        raise InvalidArgument(
            "session_id", f"must not begin with {check.MIRROR_PREFIX}: presence mirror makes such ids", "mirrored"
        )
    attributes = check.attributes(given.get("attributes"))
    return LoginRow(
        uid=check.uid(given.get("uid")),
        session_id=session_id,
        idle=min(idle, absolute),
        absolute=absolute,
        name=visitor.name(given.get("name")),
        aliases=visitor.aliases(given.get("aliases", ())),
        ip=(ip := visitor.address(given.get("ip"))),
        recorded_ip=visitor.recorded(ip),
        attributes=attributes,
        device=visitor.label("device", given.get("device")),
        app=visitor.label("app", given.get("app")),
        app_version=visitor.label("app_version", given.get("app_version")),
        user_agent=(agent := visitor.user_agent(given.get("user_agent"))),
        recorded_agent=agent if settings.record_user_agent else "",
        facets=facet_members(settings.facets, attributes_of(attributes)) if settings.facets else "",
        authentication=check.authentication(given.get("methods", ()), given.get("mfa")),
        max_sessions=_limit(settings, given.get("max_sessions")),
        device_id=check.device_id(given.get("device_id")),
        on_behalf_by=staff,
        reason=reason,
        idp=check.idp_link(given.get("idp")),
        idp_end="" if given.get("expires_at") is None else check.time_ms("expires_at", given["expires_at"]),
    )


def _limit(settings: Settings, most: object) -> int:
    """How many sessions the user may have at this login."""
    return settings.max_sessions if most is None else check.whole("max_sessions", most, *LIMITS["max_sessions"])


def check_on_behalf(given: Mapping[str, Any]) -> tuple[str | None, str]:
    """By whom a login on behalf of the user is, and why; None of the user's own login."""
    staff, reason, own_id = given.get("on_behalf_by"), given.get("reason"), given.get("session_id")
    if staff is None:
        if reason is not None:
            raise InvalidArgument("reason", "must come with on_behalf_by", "required")
        return None, ""
    actor = check.plain_text("on_behalf_by", staff, 256, "must be text of 1 to 256 bytes that says who does this")
    for name in ("device_id", "login_at", "max_sessions", "idp"):
        if given.get(name) is not None:
            raise InvalidArgument(name, "must not be given with on_behalf_by", "conflicts")
    if own_id is not None and not check.is_on_behalf(str(own_id)):
        raise InvalidArgument(
            "session_id", f"must begin with {check.ON_BEHALF_PREFIX}, as on_behalf_by is given", "on_behalf"
        )
    return actor, check.prose("reason", reason)


def check_many_row(
    settings: Settings, visitor: VisitorFields, given: Mapping[str, Any], new_id: str, imported: bool
) -> LoginRow:
    """Check a row of login_many."""
    if not isinstance(given, Mapping):
        raise InvalidArgument("rows", "must be dicts of login's arguments", "wrong_type")
    unknown = given.keys() - (_IMPORT_ARGUMENTS if imported else _ARGUMENTS)
    if unknown:
        raise InvalidArgument(sorted(map(str, unknown))[0], "is not an argument of login", "unknown")
    row = check_row(settings, visitor, given, new_id, imported)
    if imported and given.get("login_at") is not None:
        row.login_at = check.time_ms("login_at", given["login_at"])
        seen = given.get("last_seen")
        row.last_seen = row.login_at if seen is None else check.time_ms("last_seen", seen)
    elif given.get("last_seen") is not None:
        raise InvalidArgument("last_seen", "must come with login_at", "required")
    return row
