"""What the page shows: the visitor's devices, this one first, and those that were signed out recently."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypedDict

from presence_core.models import Ended, EndReason, Session, SignIn
from presence_core.models.sessions import Record
from presence_core.schema.endings import WHY, Why

MAX_SHOWN: Final = 100
"""Devices on a page. "Sign out all other devices" ends also those that are not shown."""

MAX_ENDED: Final = 10
"""Ended sessions on a page."""

SIGN_INS_OF: Final = timedelta(days=30)
"""How far back the sign-ins on a page go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A device on which the visitor is signed in."""

    handle: str  #: names it in forms and JSON, for this visitor only; never the session id
    is_this: bool  #: the request comes from it
    is_support: bool  #: staff began it on behalf of the user; name, browser, os and place are None
    name: str | None  #: as the site named it at login: "iPhone"
    browser: str | None  #: family, such as "Firefox"
    os: str | None  #: family, such as "Windows"
    place: str | None  #: city and country of the sign-in, if known: "Lyon, FR"
    last_active: datetime  #: when the session was last seen
    signed_in: datetime  #: when it began


@dataclass(frozen=True, slots=True, kw_only=True)
class PastDevice:
    """A device that was signed out."""

    is_support: bool  #: staff began it on behalf of the user; name, browser, os and place are None
    name: str | None  #: as the site named it at login
    browser: str | None  #: family
    os: str | None  #: family
    place: str | None  #: city and country of the sign-in, if known
    reason: EndReason  #: end reason
    why: Why  #: the same in more detail, for a sentence
    message: str | None  #: what staff wrote for the visitor
    ended: datetime  #: when


@dataclass(frozen=True, slots=True, kw_only=True)
class PastSignIn:
    """A sign-in whose session is not shown any more."""

    name: str | None  #: of the device, as the site named it at login
    browser: str | None  #: family
    os: str | None  #: family
    place: str | None  #: city and country, if known
    signed_in: datetime  #: when


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceList:
    """All that the page shows of a visitor."""

    devices: tuple[Device, ...]  #: this device first, then the others, the latest active first
    more: int  #: other devices that are not shown
    ended: tuple[PastDevice, ...]  #: the latest first
    now: datetime  #: by the clock of Redis
    sign_ins: tuple[PastSignIn, ...] = ()  #: of the last 30 days, if the site keeps them; the latest first

    @property
    def others(self) -> int:
        """The number of other devices."""
        return len(self.devices) - 1 + self.more


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicesPage:
    """A page to be shown, for ``DeviceOptions.template``."""

    title: str  #: text, not HTML
    body: str  #: safe HTML: the content, without html, head and body
    style: str  #: CSS for the body; a policy of your own must allow it
    language: str  #: of the page: "de", "zh-Hans"
    status: int  #: of the response
    csrf: str  #: the hidden field ``csrf`` of a form; empty if no one is signed in
    devices: DeviceList | None = None  #: None on a page that shows no list


def list_devices(
    this: Session,
    sessions: Sequence[Session],
    ended: Sequence[Ended],
    now: datetime,
    handle_of: Callable[[str], str],
    sign_ins: Sequence[SignIn] = (),
) -> DeviceList:
    """The list of the user of ``this`` session. ``handle_of`` makes the handle of a session id."""
    others = [session for session in sessions if session.session_id != this.session_id]
    others.sort(key=lambda session: session.last_seen, reverse=True)
    here = next((session for session in sessions if session.session_id == this.session_id), this)
    shown = [here, *others[: MAX_SHOWN - 1]]
    return DeviceList(
        devices=tuple(device_of(session, handle_of(session.session_id), is_this=session is here) for session in shown),
        more=len(others) + 1 - len(shown),
        ended=tuple(_past(end) for end in ended),
        now=now,
        sign_ins=_other_sign_ins(sign_ins, [*sessions, *ended], now),
    )


def _other_sign_ins(sign_ins: Sequence[SignIn], shown: Sequence[Record], now: datetime) -> tuple[PastSignIn, ...]:
    known = {record.login_at for record in shown}
    return tuple(
        PastSignIn(
            name=sign_in.device,
            browser=sign_in.browser,
            os=sign_in.os,
            place=(sign_in.place.words if sign_in.place else "") or None,
            signed_in=sign_in.at,
        )
        for sign_in in sign_ins
        if sign_in.at not in known and now - sign_in.at < SIGN_INS_OF
    )


def device_of(record: Record, handle: str, *, is_this: bool = False) -> Device:
    """The device of a session, as the page shows it."""
    return Device(
        handle=handle,
        is_this=is_this,
        last_active=record.last_seen,
        signed_in=record.login_at,
        **_client(record),
    )


def _past(end: Ended) -> PastDevice:
    public = end.public
    return PastDevice(reason=public.code, why=_why(end), message=public.message, ended=public.at, **_client(end))


def is_support(record: Record) -> bool:
    """Whether staff began this session on behalf of the user."""
    return record.on_behalf_by is not None


class _Client(TypedDict):
    is_support: bool
    name: str | None
    browser: str | None
    os: str | None
    place: str | None


def _client(record: Record) -> _Client:
    """What describes the device. That of a member of staff is not shown to the user."""
    if is_support(record):
        return {"is_support": True, "name": None, "browser": None, "os": None, "place": None}
    place = (record.place.words if record.place else "") or None
    return {"is_support": False, "name": record.device, "browser": record.browser, "os": record.os, "place": place}


def _why(end: Ended) -> Why:
    why = WHY.get(end.cause, "ended")
    return "account" if why == "support" and end.by == end.uid else why
