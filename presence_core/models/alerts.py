"""Alerts for staff: a count per minute has gone above its limit, or is back below it. Notices to users about logins."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, get_args

from presence_core.models.choices import NoticeAnswer, NoticeState
from presence_core.models.places import Origin, Place
from presence_core.models.sessions import moment

AlertCount = Literal["ends", "logins", "failed"]
"""What an alert counts: sessions that ended, for any reason; logins; or sign-ins that failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One change of a count, from below its limit to above it or back."""

    type: Literal["alert", "alert_ended"]
    count: AlertCount
    per_minute: int
    limit: int  #: "alert" if per_minute is above it
    at: datetime  #: end of the minute, by Redis's clock
    namespace: str

    @property
    def sentence(self) -> str:
        """What happened, for people to read."""
        title = "Alert" if self.type == "alert" else "Alert ended"
        counted = "failed sign-ins" if self.count == "failed" else self.count
        return f"{title}: {self.per_minute:,} {counted} per minute, limit {self.limit:,} ({self.namespace})"


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonAlert:
    """A login of a person for whom staff asked for alerts."""

    type: Literal["login"] = "login"
    uid: str
    name: str | None
    session_id: str
    device: str | None
    at: datetime  #: of the login, by Redis's clock
    namespace: str

    @property
    def sentence(self) -> str:
        """What happened, for people to read."""
        called = f"{self.name} ({self.uid})" if self.name else self.uid
        return f"Login: {called}{f' on {self.device}' if self.device else ''} ({self.namespace})"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureAlert:
    """More sign-ins have failed than the limit allows: of one person since their last login, or from one network within
    an hour."""

    type: Literal["failures"] = "failures"
    uid: str | None = None
    network: str | None = None
    count: int
    limit: int
    at: datetime  #: by Redis's clock
    namespace: str

    @property
    def sentence(self) -> str:
        """What happened, for people to read."""
        whose = (
            f"of {self.uid} since their last login" if self.network is None else f"from {self.network} within an hour"
        )
        return f"Failed sign-ins: {self.count:,} {whose}, limit {self.limit:,} ({self.namespace})"


_STATES: Final = get_args(NoticeState)
_ANSWERS: Final = get_args(NoticeAnswer)
_HEX: Final = re.compile("(?:[0-9a-f]{2})+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A notice to a user about one of their logins."""

    id: str
    uid: str
    session_id: str
    at: datetime  #: when the login was, or what else the notice is about
    kinds: tuple[str, ...]  #: what was odd: "new_device", "distant", …; empty for a link of a webhook
    state: NoticeState
    answer: NoticeAnswer | None = None  #: of the user, by the link
    devices: tuple[str, ...] = ()  #: the digest of the device of this login, hex; of several, if it is not sure which

    after: Origin | None = None  #: of a move: where the session was used then, without the network; None: not known

    @classmethod
    def from_stored(cls, uid: str, notice_id: str, raw: bytes) -> Notice | None:
        """Decode a stored notice; None if it is not as we write it."""
        try:
            row = json.loads(raw)
            kinds = tuple(map(str, row.get("kinds") or ()))
            state, answer = row["state"], row.get("answer")
            if state not in _STATES or (answer is not None and answer not in _ANSWERS):
                return None
            devices = tuple(device for device in map(str, row.get("devices") or ()) if _HEX.fullmatch(device))
            return cls(
                id=notice_id, uid=uid, session_id=str(row["sid"]), at=moment(int(row["at"])), kinds=kinds, state=state,
                answer=answer, devices=devices, after=_origin(row.get("after")),
            )  # fmt: skip
        except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError):
            return None


def _origin(after: Mapping[str, object] | None) -> Origin | None:
    if after is None:
        return None
    os, browser, country, city = (str(after.get(name) or "") or None for name in ("os", "browser", "country", "city"))
    return Origin(place=Place(country=country, city=city) if country or city else None, os=os, browser=browser)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeReport:
    """How the sending of notices goes. The numbers count from the first start of a sender."""

    waiting: int  #: users with a notice in the queue
    oldest: datetime | None  #: when the first of them is due, or was
    counts: Mapping[str, int]  #: sent, limited, unsure, refused, skipped, dropped, missed, me, not_me
    turn_at: datetime | None  #: when a sender last read the queue; None: none has ever run
    failing_since: datetime | None  #: since when the mail server, or the site's sender, takes nothing
    failure: str | None  #: why
    unsure_at: datetime | None  #: when a mail was last found that may be missing
    not_me_today: int  #: users who answered "not me" today or yesterday (UTC)
    as_of: datetime  #: by the clock of Redis
