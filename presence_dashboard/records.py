"""What the History page is asked, and how the library answers: ends, blocks, bulk kicks and staff actions.

A page's script is run anew for every event, and classes in it would be others each time; this stands outside of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Literal, get_args

from presence_core import AuditEntry, Block, Ended, Job, Page, SessionFilter
from presence_core.models import plain
from presence_dashboard.ledger import Ask, scan
from presence_dashboard.roles import HIDDEN, Actor, Right
from presence_dashboard.store import Store

View = Literal["ended", "blocks", "jobs", "staff"]

VIEWS: Final[tuple[View, ...]] = get_args(View)

FIELDS: Final[Mapping[View, tuple[str, ...]]] = {
    "ended": ("person", "by", "how", "words"),
    "blocks": ("person", "by", "words"),
    "jobs": ("by", "words"),
    "staff": ("person", "by", "act", "words"),
}
"""What each view may be searched by, beside a time."""

EXPORT: Final[Mapping[View, Right]] = {
    "ended": "export",
    "blocks": "export",
    "jobs": "export",
    "staff": "audit_export",
}
"""What one must be allowed to take with them."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a view."""

    person: str | None = None
    by: str | None = None
    how: str | None = None  #: reason of an end
    act: str | None = None  #: what staff did
    words: str | None = None  #: in the reason or the ticket
    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_everything(self) -> bool:
        return self == Question()

    def says(self, *said: str | None) -> bool:
        """Whether one of these texts holds the words, whatever their capitals."""
        wanted = (self.words or "").casefold()
        return any(wanted in (text or "").casefold() for text in said)

    def covers(self, at: datetime) -> bool:
        return (self.since is None or self.since <= at) and (self.until is None or at < self.until)

    def is_by(self, by: str | None) -> bool:
        return self.by is None or self.by == by


_SEARCHED: Final = ("text", "name_prefix", "name_contains", "ip")
_NAMES_A_PLACE: Final = re.compile(r"(?<=, from ).+")


def searched(asked: SessionFilter, actor: Actor) -> dict[str, Any]:
    """Field and value of a filter. What a colleague looked for may be a name or an address: HIDDEN for who must not see
    those."""
    known = plain(asked)
    return {field: HIDDEN if actor.masked and field in _SEARCHED else known[field] for field in asked.given}


def outcome(entry: AuditEntry, actor: Actor) -> str:
    """What came of it; for who is masked without what an export was searched by."""
    head, exported, _ = entry.outcome.partition(" exported")
    return f"{head}{exported}" if actor.masked and entry.action == "export" else entry.outcome


def reason(entry: AuditEntry, actor: Actor) -> str | None:
    """Why; for who is masked without the address that a refused sign-in came from."""
    hides = "ip" in actor.masked and entry.action == "denied" and entry.reason is not None
    return _NAMES_A_PLACE.sub(HIDDEN, entry.reason or "") if hides else entry.reason


def asker(view: View, store: Store, question: Question, actor: Actor | None = None) -> Ask[Any]:
    """What reads a page of the answer. actor: who must not find out by searching what they may not see."""
    if view == "staff":
        return partial(_staff, store, question, actor)
    return partial(_ASKED[view], store, question)


def _ended(store: Store, asked: Question, limit: int, cursor: str | None) -> Page[Ended]:
    def ask(limit: int, cursor: str | None) -> Page[Ended]:
        return store.presence.ended(
            asked.person,
            reason=asked.how,
            by=asked.by,
            since=asked.since,
            until=asked.until,
            limit=limit,
            cursor=cursor,
        )

    return _kept(ask, lambda one: asked.says(one.note, one.ticket), asked.words is not None, limit, cursor)


def _blocks(store: Store, asked: Question, limit: int, cursor: str | None) -> Page[Block]:
    def ask(limit: int, cursor: str | None) -> Page[Block]:
        return store.presence.blocks(limit=limit, cursor=cursor)

    def keep(one: Block) -> bool:
        return asked.is_by(one.by) and asked.covers(one.at) and asked.says(one.reason, one.ticket)

    if asked.person is not None:
        one = store.presence.blocked(asked.person)
        found = [one] if one is not None and keep(one) else []
        return Page(found, None, len(found), True, len(found), datetime.now(UTC))
    return _kept(ask, keep, not asked.is_everything, limit, cursor)


def _jobs(store: Store, asked: Question, limit: int, cursor: str | None) -> Page[Job]:
    def ask(limit: int, cursor: str | None) -> Page[Job]:
        return store.presence.jobs(limit=limit, cursor=cursor)

    def keep(one: Job) -> bool:
        return asked.is_by(one.by) and asked.covers(one.created) and asked.says(one.reason, one.ticket)

    return _kept(ask, keep, not asked.is_everything, limit, cursor)


def _staff(store: Store, asked: Question, actor: Actor | None, limit: int, cursor: str | None) -> Page[AuditEntry]:
    def ask(limit: int, cursor: str | None) -> Page[AuditEntry]:
        return store.presence.audit(
            uid=asked.person, by=asked.by, since=asked.since, until=asked.until, limit=limit, cursor=cursor
        )

    def keep(one: AuditEntry) -> bool:
        # A bulk kick that begins, pauses and ends is written down as kick_where_start, kick_where_pause, …
        act = "kick_where" if one.action.startswith("kick_where") else one.action
        why, came = (reason(one, actor), outcome(one, actor)) if actor else (one.reason, one.outcome)
        return asked.act in (None, act) and asked.says(why, one.ticket, came)

    return _kept(ask, keep, asked.words is not None or asked.act is not None, limit, cursor)


def _kept(ask: Ask[Any], keep: Callable[[Any], bool], is_needed: bool, limit: int, cursor: str | None) -> Page[Any]:
    """The library's own pages where it can answer all of the question."""
    return scan(ask, keep, limit, cursor) if is_needed else ask(limit, cursor)


_ASKED: Final[Mapping[View, Callable[[Store, Question, int, str | None], Page[Any]]]] = {
    "ended": _ended,
    "blocks": _blocks,
    "jobs": _jobs,
}
