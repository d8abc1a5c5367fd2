"""Alerts: a count per minute has gone above its limit, or is back below it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

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
    """More sign-ins of one person, or from one network, have failed within about an hour than the limit allows."""

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
        whose = f"of {self.uid}" if self.network is None else f"from {self.network}"
        return f"Failed sign-ins: {self.count:,} {whose} within an hour, limit {self.limit:,} ({self.namespace})"
