"""One person as a browser tab sees them: sessions, ends, blocks and what staff did. Kept in its session state.

Like the list of sessions it is read when somebody asks for it, never by a tick: no card moves under a pointer.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import streamlit as st

from presence_core import AuditEntry, Block, Ended, Person, Presence, PresenceError, Session
from presence_core.filters import fold
from presence_dashboard import timeline
from presence_dashboard.store import Reading, Store
from presence_dashboard.tab import this_tab
from presence_dashboard.wording import plain

MOST_FOUND: Final = 20
_ENTRIES: Final = 200
_KEY: Final = "dossier"


# -- Finding -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Found:
    """Whom a text finds."""

    uid: str | None  #: the very one: opened at once
    others: tuple[Person, ...]


def find(store: Store, wanted: str, *, by_name: bool, anew: bool = False) -> Reading[Found]:
    """Who is meant. by_name: also by what starts like a name or alias; else by the very uid alone."""
    return store.shared(("find", wanted, by_name), lambda presence: _find(presence, wanted, by_name), anew=anew)


def _find(presence: Presence, wanted: str, by_name: bool) -> Found:
    people = presence.people(wanted, limit=MOST_FOUND if by_name else 1)
    if not by_name:
        people = [one for one in people if one.uid == wanted]
    uid = _meant(people, wanted)
    if uid is None and _has_left_traces(presence, wanted, everywhere=not people):
        uid = wanted
    return Found(uid, tuple(one for one in people if one.uid != uid))


def _meant(people: list[Person], wanted: str) -> str | None:
    if people and people[0].uid == wanted:
        return wanted
    called = [one.uid for one in people if fold(wanted) in map(fold, one.aliases)]
    return called[0] if len(called) == 1 else None


def _has_left_traces(presence: Presence, uid: str, *, everywhere: bool) -> bool:
    """Whether somebody who has not been here for long is still known. everywhere: also by what staff did."""
    if presence.blocked(uid) is not None or presence.ended(uid, limit=1).items:
        return True
    return everywhere and bool(presence.audit(uid=uid, limit=1).items)


# -- What is known of one ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Facts:
    """What was read of a person, at one moment."""

    person: Person | None  #: None: not online, and not lately
    sessions: tuple[Session, ...]
    ended: tuple[Ended, ...]
    block: Block | None
    as_of: datetime  #: by the clock of Redis
    read: float  #: the same moment by this process's own clock
    complete_since: datetime | None = None  #: older ends may have gone before their time

    @property
    def age(self) -> float:
        return time.monotonic() - self.read

    @property
    def _latest(self) -> Person | Session | Ended | None:
        records: list[Session | Ended] = [*self.sessions, *self.ended]
        return self.person or next(iter(records), None)

    @property
    def name(self) -> str | None:
        return self._latest.name if self._latest else None

    @property
    def aliases(self) -> tuple[str, ...]:
        return self._latest.aliases if self._latest else ()

    @property
    def last_seen(self) -> datetime | None:
        return self._latest.last_seen if self._latest else None

    @property
    def state(self) -> State:
        return state(self.sessions, self.block)


State = tuple[tuple[str, ...], datetime | None]
"""The refs of who is live, and when the person was blocked or their block changed: what a page is compared by."""


def state(sessions: tuple[Session, ...] | list[Session], block: Block | None) -> State:
    return tuple(sorted(one.ref for one in sessions)), block.changed if block else None


@dataclass(slots=True)
class Dossier:
    """What this tab shows of a person."""

    uid: str
    facts: Facts | None = None
    entries: list[AuditEntry] = field(default_factory=list)  #: of the audit, as far as it has been looked through
    cursor: str | None = None  #: where the audit goes on
    failure: str | None = None  #: why it could not be read
    generation: int = 0
    cards: int = 0  #: pages of cards beyond the first
    rows: int = 0  #: pages of the timeline beyond the first
    acted: int = -1
    _wanted: bool = True

    def refresh(self) -> None:
        self._wanted = True

    def load(self, store: Store) -> None:
        """Read what is wanted. When that fails, what was shown stays."""
        if self.acted != this_tab().acted:
            self.acted = this_tab().acted
            self.refresh()
        if not self._wanted:
            return
        try:
            self._read(store.presence)
        except PresenceError as error:
            self.failure = plain(error)
            store.counts(anew=True)
        else:
            self.failure = None
            self.generation += 1
        self._wanted = self.facts is None

    def _read(self, presence: Presence) -> None:
        people = presence.people(self.uid, limit=1)
        sessions, block = presence.sessions(self.uid), presence.blocked(self.uid)
        ended, audit = presence.ended(self.uid, limit=100), presence.audit(uid=self.uid, limit=_ENTRIES)
        person = next((one for one in people if one.uid == self.uid), None)
        self.facts = Facts(
            person, tuple(sessions), tuple(ended), block, ended.as_of, time.monotonic(), ended.complete_since
        )  # fmt: skip
        self.entries, self.cursor = audit.items, audit.next_cursor

    def look_back(self, store: Store) -> None:
        """Look through the next part of the audit."""
        try:
            page = store.presence.audit(uid=self.uid, limit=_ENTRIES, cursor=self.cursor)
        except PresenceError as error:
            self.failure = plain(error)
            return
        self.entries = [*self.entries, *page.items]
        self.cursor = page.next_cursor

    def happenings(self) -> list[timeline.Happening]:
        return timeline.merge(self.facts.sessions, self.facts.ended, self.entries) if self.facts else []

    def has_changed(self, store: Store) -> bool:
        """Whether sessions have come or gone since, or a block."""
        reading, known = this_state(store, self.uid), self.facts
        return known is not None and reading.read > known.read and reading.value not in (None, known.state)


def this_state(store: Store, uid: str, *, anew: bool = False) -> Reading[State]:
    """How a person stands: all tabs that show them ask once a tick together."""
    return store.shared(
        ("state", uid), lambda presence: state(presence.sessions(uid), presence.blocked(uid)), anew=anew
    )


def this_dossier(uid: str) -> Dossier:
    """That of the tab which this script runs for: a new one for another person."""
    dossier: Dossier | None = st.session_state.get(_KEY)
    if dossier is None or dossier.uid != uid:
        dossier = Dossier(uid)
        st.session_state[_KEY] = dossier
    return dossier
