"""One person's days as one list: logins, ends, and what staff did. Nothing is read or drawn here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from itertools import groupby
from typing import Final, Literal

from presence_core import AuditEntry, Ended, Session

Kind = Literal["login", "end", "staff"]

_RANK: Final[dict[Kind, int]] = {"login": 0, "end": 1, "staff": 2}
"""Of what has the same moment: nothing ends before it began."""


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that happened at one moment."""

    at: datetime
    kind: Kind
    records: tuple[Session | Ended, ...] = ()  #: the sessions that it is about; several where one kick ended them
    entry: AuditEntry | None = None  #: what staff did, as the audit has it

    @property
    def kinds(self) -> frozenset[Kind]:
        """What it counts as: a kick is an end, and something that staff did."""
        kicked = any(isinstance(one, Ended) and one.reason == "kicked" for one in self.records)
        return frozenset((self.kind, "staff")) if self.kind == "end" and kicked else frozenset((self.kind,))


def merge(live: Iterable[Session], ended: Iterable[Ended], entries: Iterable[AuditEntry]) -> list[Happening]:
    """Everything, newest first. A kick that the audit and the ended sessions both tell of is there once."""
    ended = list(ended)
    records: list[Session | Ended] = [*live, *ended]
    out = [Happening(one.login_at, "login", (one,)) for one in records]
    acts = list(entries)
    ends: dict[int, list[Ended]] = {}  # by place in `acts`
    known = {(act.at, act.by, act.session_id): place for place, act in enumerate(acts) if act.action == "kick"}
    for one in ended:
        place = known.get((one.at, one.by, one.session_id), known.get((one.at, one.by, None)))
        if one.reason == "kicked" and place is not None:
            ends.setdefault(place, []).append(one)
        else:
            out.append(Happening(one.at, "end", (one,)))
    for place, act in enumerate(acts):
        hit = tuple(ends.get(place, ()))
        out.append(Happening(act.at, "end" if hit else "staff", hit, act))
    return sorted(out, key=lambda one: (one.at, _RANK[one.kind]), reverse=True)


def by_day(happenings: Sequence[Happening], zone: tzinfo) -> list[tuple[date, list[Happening]]]:
    """The same by the days of a time zone."""
    days = groupby(happenings, lambda one: one.at.astimezone(zone).date())
    return [(day, list(some)) for day, some in days]
