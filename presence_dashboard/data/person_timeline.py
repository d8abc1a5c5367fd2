"""The timeline of a person: logins, ends and staff actions in one list. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from itertools import groupby
from typing import Final, Literal

from presence_core import AuditEntry, Ended, FailedLogin, Session, SignIn

Kind = Literal["login", "moved", "end", "failed", "staff"]

_RANK: Final[dict[Kind, int]] = {"failed": 0, "login": 1, "moved": 2, "end": 3, "staff": 4}
"""Order of events with the same time: failures come before a login, and that before its end."""


_ENDING_ACTS: Final = ("kick", "idp_logout", "deny_login")
"""Actions of the audit that say which session they ended."""


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    at: datetime
    kind: Kind
    records: tuple[Session | Ended, ...] = ()  #: its sessions; several if one kick ended them
    entry: AuditEntry | None = None  #: the audit entry of a staff action
    failure: FailedLogin | None = None  #: sign-ins that failed
    sign_in: SignIn | None = None  #: a login whose session is not known any more

    @property
    def kinds(self) -> frozenset[Kind]:
        """The kinds by which it can be filtered: a kick is an end and a staff action, a move stands among logins."""
        if self.kind == "moved":
            return frozenset(("login",))
        kicked = any(isinstance(record, Ended) and record.reason == "kicked" for record in self.records)
        return frozenset((self.kind, "staff")) if self.kind == "end" and kicked else frozenset((self.kind,))


def merge(
    live: Iterable[Session],
    ended: Iterable[Ended],
    entries: Iterable[AuditEntry],
    failures: Iterable[FailedLogin] = (),
    sign_ins: Iterable[SignIn] = (),
) -> list[TimelineEvent]:
    """All events, newest first. A kick, or a logout by the identity provider, that is in the audit and in the ended
    sessions appears once, and so does a login that is also in the sign-in history."""
    ended = list(ended)
    records: list[Session | Ended] = [*live, *ended]
    timeline = [TimelineEvent(record.login_at, "login", (record,)) for record in records]
    timeline += (TimelineEvent(record.move.at, "moved", (record,)) for record in records if record.move is not None)
    timeline += (TimelineEvent(failure.at, "failed", failure=failure) for failure in failures)
    known_logins = {record.login_at for record in records}
    timeline += [
        TimelineEvent(sign_in.at, "login", sign_in=sign_in) for sign_in in sign_ins if sign_in.at not in known_logins
    ]
    acts = list(entries)
    ends: dict[int, list[Ended]] = {}  # by position in `acts`
    known = {
        (act.at, act.by, act.session_id): position for position, act in enumerate(acts) if act.action in _ENDING_ACTS
    }
    for record in ended:
        position = known.get((record.at, record.by, record.session_id), known.get((record.at, record.by, None)))
        if (record.reason == "kicked" or record.cause == "idp_logout") and position is not None:
            ends.setdefault(position, []).append(record)
        else:
            timeline.append(TimelineEvent(record.at, "end", (record,)))
    for position, act in enumerate(acts):
        kicked = tuple(ends.get(position, ()))
        timeline.append(TimelineEvent(act.at, "end" if kicked else "staff", kicked, act))
    return sorted(timeline, key=lambda event: (event.at, _RANK[event.kind]), reverse=True)


def by_day(events: Sequence[TimelineEvent], zone: tzinfo) -> list[tuple[date, list[TimelineEvent]]]:
    days = groupby(events, lambda event: event.at.astimezone(zone).date())
    return [(day, list(events_of_day)) for day, events_of_day in days]
