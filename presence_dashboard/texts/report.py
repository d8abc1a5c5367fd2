"""The Report page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from presence_dashboard.texts.sessions import FACET_LABELS

REPORT_PAGE: Final = "Report"
REPORT_TITLE: Final = "Shift report"

# -- Period ------------------------------------------------------------------------------------------------------------

REPORT_WRONG_RANGE: Final = "The period is wrong: choose a start, and an end that is later or no end."
REPORT_PRINT: Final = "Print"
REPORT_EXPORT: Final = "Export CSV"


def report_period(since: str, until: str, zone: str) -> str:
    return f"{since} – {until} ({zone})"


# -- Figures -----------------------------------------------------------------------------------------------------------


def report_incomplete(since: str) -> str:
    return f"Complete since {since}: there are too many earlier actions to show. Choose a shorter period."


def report_figures(sessions: int, people: int, people_are_all: bool) -> str:
    """``12 sessions of 7 people ended``"""
    if not sessions:
        return "no sessions ended"
    of = f"{people:,} {'person' if people == 1 and people_are_all else 'people'}"
    least = "" if people_are_all else "at least "
    return f"{_count(sessions, 'session')} of {least}{of} ended"


def report_summary(figures: str, members: int, as_of: str) -> str:
    return f"{_count(members, 'colleague')} · {figures} · data as of {as_of}"


def report_member(figures: str, kicks: int, bulk_kicks: int, blocks: int) -> str:
    counts = ((kicks, "kick"), (bulk_kicks, "bulk kick"), (blocks, "block"))
    return " · ".join((*(_count(number, noun) for number, noun in counts if number), figures))


def report_tickets(tickets: Iterable[str]) -> str:
    return "Tickets: " + ", ".join(tickets)


REPORT_YOU: Final = "you"
REPORT_NO_NAME: Final = "unknown"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


# -- Table -------------------------------------------------------------------------------------------------------------

REPORT_WHEN: Final = "When"
REPORT_SESSIONS: Final = "Sessions"


def report_bulk_outcome(kicked: str, total: str, state: str | None) -> str:
    """state: None if it is done."""
    return f"{kicked} of {total} sessions ended{f', {state}' if state else ''}"


def report_bulk_people(people: int, are_all: bool) -> str:
    if not people:
        return "no one" if are_all else "not known any more"
    return f"{'' if are_all else 'at least '}{people:,} {'person' if people == 1 and are_all else 'people'}"


_FILTER_WORDS: Final = {
    "text": "search “{}”",
    "uid": "user ID is {}",
    "name_prefix": "name starts with “{}”",
    "name_contains": "name contains “{}”",
    "ip": "address {}",
    "logged_in_after": "signed in since {}",
    "logged_in_before": "signed in before {}",
    "idle_for": "not active for {} s",
    "new_device": "on a new device",
    "distant": "far from the last login",
    "on_behalf": "support sessions",
    "sign_in_required": "must sign in again",
}


def filter_words(values: Mapping[str, Any]) -> str:
    """The filter of a bulk kick in words."""
    parts = []
    for field, value in values.items():
        if field == "attributes" and isinstance(value, Mapping):
            parts += [f"{name} is {wanted}" for name, wanted in value.items()]
        elif field in _FILTER_WORDS:
            parts.append(_FILTER_WORDS[field].format(value))
        else:
            parts.append(f"{FACET_LABELS.get(field, field).lower()} is {value}")
    return ", ".join(parts)


# -- Empty -------------------------------------------------------------------------------------------------------------

REPORT_EMPTY_TITLE: Final = "No staff actions in this period"
REPORT_EMPTY: Final = "Kicks, blocks, exports and denied attempts of all colleagues appear here."
