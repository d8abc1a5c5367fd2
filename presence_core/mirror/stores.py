"""The stores of sites that ``presence mirror`` knows: an entry each, and nothing else knows one of them by name.

An entry says where the keys are, how a value is read, and where in it user, name and login time are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from presence_core.mirror.formats import FORMATS, Unreadable
from presence_core.mirror.site_session import Paths, SiteSession, paths, seconds_at, text_at, value_at
from presence_core.transport.site_store import RawSession, Words

DAY: Final = 86_400


def _nothing_more(key: bytes, raw: RawSession) -> Sequence[Words]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """How a store keeps sessions."""

    name: str  #: for ``--store``
    title: str  #: in words
    prefix: str  #: of its keys, unless the site chose another
    form: str  #: a word of FORMATS: of the value, or of the fields of a hash
    uid: Paths
    person: Paths = ()  #: the name
    email: Paths = ()
    address: Paths = ()
    agent: Paths = ()
    login: Paths = ()  #: when the user signed in, or what else differs from one sign-in to the next
    seen: Paths = ()
    lifetime: Paths = ()
    lifetime_unit: float = 1.0  #: seconds in one of ``lifetime``
    usual_lifetime: float | None = None  #: seconds, where the session says none
    fields: tuple[str, ...] = ()  #: of a hash, those that are read
    marks: Paths = ()  #: values that only a session of this store has
    id_pattern: str = ".+"  #: of what follows the prefix in the key of a session
    same_login: Literal["end", "new", ""] = "end"
    """A session under the id of a kicked one, with the same user and login. "end": a request in flight wrote it back,
    for this store never gives an id again, or ``login`` differs. "new": another sign-in. "": both happen, choose."""
    note: str = ""  #: what to know about it, a sentence
    refused: str = ""  #: why it cannot be mirrored, a sentence
    acl: str = ""  #: what else the ACL user of the site's server may do, for ``more``; {space} as in the keys
    more: Callable[[bytes, RawSession], Sequence[Words]] = _nothing_more  #: what else a kick deletes

    def is_session_key(self, key: bytes) -> bool:
        """Whether this is the name of a session: other keys may begin as sessions do."""
        text = key.decode("utf-8", "replace")
        return text.startswith(self.prefix) and re.fullmatch(self.id_pattern, text[len(self.prefix) :]) is not None

    def data(self, raw: RawSession) -> Any:
        """The plain values of a session. Raises Unreadable."""
        if raw.problem:
            raise Unreadable(raw.problem)
        read = FORMATS[self.form]
        if not self.fields:
            return read(raw.value)
        return {name: read(value) for name, value in raw.value.items() if value is not None}

    def read(self, raw: RawSession, visitor: str = "") -> SiteSession | None:
        """The session; None if it has no user. visitor: who counts as its user then. Raises Unreadable."""
        data = self.data(raw)
        if not isinstance(data, dict):
            raise Unreadable("no session")
        if self.marks and value_at(data, self.marks) is None:
            raise Unreadable("no session of this store")
        uid = text_at(data, self.uid) or visitor
        if not uid:
            return None
        login_at = seconds_at(data, self.login)
        lifetime = value_at(data, self.lifetime)
        is_number = isinstance(lifetime, int | float) and not isinstance(lifetime, bool)
        if isinstance(lifetime, str) and lifetime.isdecimal() and len(lifetime) < 16:
            lifetime, is_number = int(lifetime), True
        seconds = lifetime * self.lifetime_unit if is_number and 0 < lifetime < 1e14 else self.usual_lifetime
        return SiteSession(
            uid, text_at(data, self.login) or _number(login_at), login_at,
            text_at(data, self.person), text_at(data, self.email), text_at(data, self.address),
            text_at(data, self.agent), seconds_at(data, self.seen), seconds,
        )  # fmt: skip


def _number(seconds: float | None) -> str:
    return "" if seconds is None else repr(seconds)


# -- what a kick deletes besides the key ------------------------------------------------------------------------------


def _redis_sessions(key: bytes, raw: RawSession) -> Sequence[Words]:
    """What its own ``kill`` does: the lists that name the token, and the message that empties its caches."""
    space, app, token = key.decode("utf-8", "replace").split(":", 2)
    uid = ((raw.value or {}).get("id") or b"").decode("utf-8", "replace")
    return (
        ("ZREM", f"{space}:{app}:_sessions", f"{token}:{uid}"),
        ("SREM", f"{space}:{app}:us:{uid}", token),
        ("ZREM", f"{space}:SESSIONS", f"{app}:{token}:{uid}"),
        ("PUBLISH", f"{space}:cache", f"{app}:{token}"),
    )


_SPRING_INDEX: Final = "org.springframework.session.FindByIndexNameSessionRepository.PRINCIPAL_NAME_INDEX_NAME"
_SPRING_NAME: Final = f"sessionAttr:{_SPRING_INDEX}"


def _spring(key: bytes, raw: RawSession) -> Sequence[Words]:
    """The index of principals, and the key whose expiry Spring listens for."""
    space, _, session_id = key.decode("utf-8", "replace").rpartition(":sessions:")
    value = (raw.value or {}).get(_SPRING_NAME)
    try:
        principal = FORMATS["java"](value) if value else ""
    except Unreadable:  # the site has written another value since: its index entry leads nowhere
        principal = ""
    return (
        ("SREM", f"{space}:index:{_SPRING_INDEX}:{principal}", session_id),
        ("DEL", f"{space}:sessions:expires:{session_id}"),
    )


# -- the table --------------------------------------------------------------------------------------------------------

_USER: Final = paths("user_id", "userId", "uid", "user.id", "user._id", "user.uid", "user")
_PERSON: Final = paths("user.name", "user.displayName", "name", "username", "user.username")
_EMAIL: Final = paths("user.email", "email")
_ADDRESS: Final = paths("ip", "ipAddress", "user.ip")
_AGENT: Final = paths("userAgent", "user_agent", "user.userAgent")
_NO_LOGIN_TIME: Final = "It keeps no login time: a session counts as begun when it was first seen."

STORES: Final = (
    Store(
        name="express",
        title="express-session with connect-redis",
        prefix="sess:",
        form="json",
        uid=paths("passport.user", "passport.user.id", *map(".".join, _USER)),
        person=_PERSON,
        email=_EMAIL,
        address=_ADDRESS,
        agent=_AGENT,
        login=paths("loginAt", "login_at", "user.loginAt"),
        lifetime=paths("cookie.originalMaxAge"),
        lifetime_unit=0.001,
        usual_lifetime=DAY,
        marks=paths("cookie"),
        note=_NO_LOGIN_TIME,
    ),
    Store(
        name="django",
        title="Django, cache sessions in Redis",
        prefix=":1:django.contrib.sessions.cache",
        form="pickle",
        uid=paths("_auth_user_id"),
        person=_PERSON,
        email=_EMAIL,
        lifetime=paths("_session_expiry"),
        usual_lifetime=14 * DAY,
        id_pattern="[a-z0-9]{16,64}",
        note=_NO_LOGIN_TIME,
    ),
    Store(
        name="django-cached-db",
        title="Django, cached_db sessions",
        prefix=":1:django.contrib.sessions.cached_db",
        form="pickle",
        uid=paths("_auth_user_id"),
        id_pattern="[a-z0-9]{16,64}",
        refused="Django's cached_db cannot be mirrored: a session that is deleted from the cache comes back from the "
        "database. Use SESSION_ENGINE cache, or record logins with the Django app of presence_core",
    ),
    Store(
        name="flask",
        title="Flask-Session",
        prefix="session:",
        form="msgpack",
        uid=paths("_user_id", *map(".".join, _USER)),
        person=_PERSON,
        email=_EMAIL,
        usual_lifetime=31 * DAY,
        id_pattern="[A-Za-z0-9_-]{16,128}",
        note=_NO_LOGIN_TIME,
    ),
    Store(
        name="starsessions",
        title="starsessions",
        prefix="starsessions.",
        form="json",
        uid=_USER,
        person=_PERSON,
        email=_EMAIL,
        login=paths("__metadata__.created"),
        seen=paths("__metadata__.last_access"),
        lifetime=paths("__metadata__.lifetime"),
        marks=paths("__metadata__"),
        note="It keeps a deleted id for the next sign-in, and notes when a session was created: that is the login time "
        "shown, and distinguishes the two.",
    ),
    Store(
        name="redis-sessions",
        title="redis-sessions",
        prefix="rs:",
        form="text",
        fields=("id", "ip", "la", "ttl"),
        uid=paths("id"),
        address=paths("ip"),
        seen=paths("la"),
        lifetime=paths("ttl"),
        id_pattern=r"[A-Za-z0-9_-]{3,20}:[A-Za-z0-9]{55}Z[0-9a-z]+",
        acl="+zrem +srem +publish &{space}:cache",
        more=_redis_sessions,
        note=_NO_LOGIN_TIME,
    ),
    Store(
        name="better-auth",
        title="better-auth with secondaryStorage",
        prefix="",
        form="json",
        uid=paths("session.userId", "user.id"),
        person=paths("user.name"),
        email=paths("user.email"),
        address=paths("session.ipAddress"),
        agent=paths("session.userAgent"),
        login=paths("session.createdAt"),
        seen=paths("session.updatedAt"),
        marks=paths("session.token"),
        id_pattern="[A-Za-z0-9]{32}",
        note="With cookieCache a site goes on trusting a cookie for its maxAge (5 minutes) after a kick.",
    ),
    Store(
        name="spring",
        title="Spring Session, RedisIndexedSessionRepository",
        prefix="spring:session:sessions:",
        form="java",
        fields=("creationTime", "lastAccessedTime", "maxInactiveInterval", _SPRING_NAME),
        uid=((_SPRING_NAME,),),
        login=paths("creationTime"),
        seen=paths("lastAccessedTime"),
        lifetime=paths("maxInactiveInterval"),
        id_pattern="[A-Za-z0-9-]{8,64}",
        acl="~{space}:index:* +srem +del",
        more=_spring,
        note="The default repository has no index of principals: its sessions have no user here.",
    ),
)

BY_NAME: Final[Mapping[str, Store]] = {store.name: store for store in STORES}
