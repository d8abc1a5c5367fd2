"""The logins and ends of a span of time, and how the logins split. Kept in the session state of the tab that asked."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final

import streamlit as st

from presence_core import Ended, Presence, PresenceError, Sample, Session, SessionFilter, Unavailable
from presence_dashboard.components import session_facts
from presence_dashboard.data.shared_reads import now
from presence_dashboard.data.store import KEEP_FAILURE, Reading, Store

MOST: Final = 1_000
"""Live sessions that are read, and ended sessions of each of two lists: the ends in the span, and those after it."""

KEEP: Final = 29.5
KEEP_RUNNING: Final = 9.5
"""Seconds after which a span is read again, and one that has not ended."""

SHORTEST: Final = 60

_STATE: Final = "live-span"

Record = Session | Ended


@dataclass(frozen=True, slots=True)
class Span:
    """From ``since`` to before ``until``."""

    since: datetime
    until: datetime


def span_at(samples: Sequence[Sample], picked: datetime) -> Span:
    """The step of the chart at a picked time, at least a whole minute."""
    seconds = max(samples[-1].step if samples else 0, SHORTEST)
    since = datetime.fromtimestamp(picked.timestamp() // seconds * seconds, UTC)
    return Span(since, since + timedelta(seconds=seconds))


def logins_counted(samples: Iterable[Sample], span: Span) -> int:
    """The logins of the span, as far as the samples have counted them."""
    return sum(sample.logins for sample in samples if span.since <= sample.at < span.until)


@dataclass(frozen=True, slots=True)
class SpanActivity:
    """What is stored of the logins and ends of a span, newest first."""

    logins: tuple[Record, ...]
    ends: tuple[Ended, ...]
    is_whole: bool  #: False: there are more than were read


def read(presence: Presence, span: Span) -> SpanActivity:
    """Read the sessions that began or ended in the span. Up to three calls for any number."""
    began = SessionFilter(logged_in_after=span.since, logged_in_before=span.until)
    live = presence.list_sessions(began, limit=MOST)
    pages = [presence.ended(since=span.since, until=span.until, limit=MOST)]
    ends = tuple(pages[0].items)
    if span.until < live.as_of:
        pages.append(presence.ended(since=span.until, limit=MOST))
    logins: dict[str, Record] = {session.ref: session for session in live.items}
    logins |= {end.ref: end for page in pages for end in page.items if span.since <= end.login_at < span.until}
    newest_first = sorted(logins.values(), key=lambda record: record.login_at, reverse=True)
    is_whole = live.next_cursor is None and all(page.next_cursor is None for page in pages)
    return SpanActivity(tuple(newest_first), ends, is_whole)


@dataclass(slots=True)
class SpanState:
    """The span that a tab shows, and the values to which the reader has narrowed it."""

    span: Span
    narrowed: dict[str, str] = field(default_factory=dict)  #: field of SPLITS → value
    reading: Reading[SpanActivity] = field(default_factory=Reading)

    @property
    def key(self) -> tuple[Span, tuple[tuple[str, str], ...]]:
        """What the reader has chosen. Another choice has another key."""
        return self.span, tuple(self.narrowed.items())

    def load(self, store: Store) -> None:
        """Read the span if it is not fresh. Redis is not asked while the counts cannot be read."""
        if self.reading.is_fresh(KEEP_RUNNING if now() < self.span.until else KEEP, KEEP_FAILURE):
            return
        counts = store.counts()
        error = counts.error
        try:
            if error is None:
                value = read(store.presence, self.span)
                self.reading = Reading(value, read=time.monotonic(), asked=time.monotonic())
                return
        except PresenceError as failed:
            error = failed
            if isinstance(failed, Unavailable):
                store.counts(fresh=True)  # the next part of the page then does not ask
        self.reading = replace(self.reading, error=error, asked=time.monotonic())


def shown_span() -> SpanState | None:
    """The part of the chart that the page shows, if any: its list of logins and ends is that of this time."""
    return st.session_state.get(_STATE)


def show_span(span: Span | None) -> SpanState | None:
    """Show this part. Another one begins without a narrowing."""
    state = shown_span()
    if span is None:
        st.session_state.pop(_STATE, None)
        return None
    if state is None or state.span != span:
        state = st.session_state[_STATE] = SpanState(span)
    return state


# -- Split -------------------------------------------------------------------------------------------------------------


def _one(value: str | None) -> Sequence[str]:
    return (value,) if value else ()


SPLITS: Final[Mapping[str, Callable[[Record], Sequence[str]]]] = {
    "country": lambda record: _one(record.place.country if record.place else None),
    "network": lambda record: _one(record.place.network_id if record.place else None),
    "app": lambda record: _one(record.app),
    "device": lambda record: _one(record.device),
    "flag": session_facts.flag_names,
}
"""Field, named as in the address of the Sessions page → the values of a session."""


def matches(record: Record, narrowed: Mapping[str, str]) -> bool:
    return all(value in SPLITS[name](record) for name, value in narrowed.items())


def split(records: Iterable[Record], name: str) -> tuple[list[tuple[str, int]], int]:
    """The values of a field with their counts, the largest first; and how many sessions have none."""
    counts: Counter[str] = Counter()
    without = 0
    for record in records:
        values = SPLITS[name](record)
        counts.update(values)
        without += not values
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])), without
