"""The Report page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from presence_dashboard.language import Counted, Sentence, ngettext, number
from presence_dashboard.language import gettext as _

REPORT_PAGE: Final = "Report"
REPORT_TITLE: Final = "Shift report"

# -- Period ------------------------------------------------------------------------------------------------------------

REPORT_WRONG_RANGE: Final = "Choose a start. The end must be later than the start, or empty."
REPORT_PRINT: Final = "Print"
report_period: Final = Sentence("{since} – {until} ({zone})")

# -- Figures -----------------------------------------------------------------------------------------------------------

report_incomplete: Final = Sentence(
    "Complete since {since}: there are too many earlier actions to show. Choose a shorter period."
)


def report_figures(sessions: int, people: int, people_are_all: bool) -> str:
    """``12 sessions of 7 people ended``"""
    if not sessions:
        return _("no sessions ended")
    return ngettext("{count} session of {people} ended", "{count} sessions of {people} ended", sessions).format(
        count=number(sessions), people=_people(people, people_are_all)
    )


def report_summary(figures: str, members: int, as_of: str) -> str:
    return ngettext(
        "{count} colleague · {figures} · data as of {as_of}",
        "{count} colleagues · {figures} · data as of {as_of}",
        members,
    ).format(count=number(members), figures=figures, as_of=as_of)


def report_member(figures: str, kicks: int, bulk_kicks: int, blocks: int) -> str:
    counts = (
        (kicks, ngettext("{count} kick", "{count} kicks", kicks)),
        (bulk_kicks, ngettext("{count} bulk kick", "{count} bulk kicks", bulk_kicks)),
        (blocks, ngettext("{count} block", "{count} blocks", blocks)),
    )
    return " · ".join((*(words.format(count=number(count)) for count, words in counts if count), figures))


def report_tickets(tickets: Iterable[str]) -> str:
    return _("Tickets: {tickets}").format(tickets=", ".join(tickets))


REPORT_RANKING: Final = "Colleagues by the number of their actions"
REPORT_COLLEAGUE: Final = "Colleague"
REPORT_ACTIONS: Final = "Actions"
REPORT_TICKETS: Final = "Tickets"
REPORT_YOU: Final = "you"
REPORT_NO_NAME: Final = "unknown"


# -- Open items --------------------------------------------------------------------------------------------------------

OPEN_ITEMS: Final = "Open for the next shift"
OPEN_ITEMS_NONE: Final = "No block ends soon, no bulk kick is under way, no request waits, and there are no remarks."
jobs_under_way: Final = Counted("{count} bulk action under way", "{count} bulk actions under way")
requests_that_wait: Final = Counted("{count} request waits for an answer", "{count} requests wait for an answer")
number_of_remarks: Final = Counted("{count} remark on people", "{count} remarks on people")


def blocks_that_end(count: int, hours: int, are_all: bool) -> str:
    if are_all:
        return ngettext(
            "{count} block ends in the next {hours} hours", "{count} blocks end in the next {hours} hours", count
        ).format(count=number(count), hours=hours)
    return ngettext(
        "at least {count} block ends in the next {hours} hours",
        "at least {count} blocks end in the next {hours} hours",
        count,
    ).format(count=number(count), hours=hours)


# -- Table -------------------------------------------------------------------------------------------------------------


def report_bulk_outcome(kicked: str, total: str, state: str | None) -> str:
    """state: None if it is done."""
    if state:
        return _("{kicked} of {total} sessions ended, {state}").format(kicked=kicked, total=total, state=state)
    return _("{kicked} of {total} sessions ended").format(kicked=kicked, total=total)


def _people(people: int, are_all: bool) -> str:
    if are_all:
        return ngettext("{count} person", "{count} people", people).format(count=number(people))
    return ngettext("at least {count} people", "at least {count} people", people).format(count=number(people))


def report_bulk_people(people: int, are_all: bool) -> str:
    if not people:
        return _("no one") if are_all else _("not known any more")
    return _people(people, are_all)


_FILTER_WORDS: Final = {
    "text": "search “{}”",
    "uid": "user ID is {}",
    "name_prefix": "name starts with “{}”",
    "name_contains": "name contains “{}”",
    "ip": "address {}",
    "logged_in_after": "signed in since {}",
    "logged_in_before": "signed in before {}",
    "idle_for": "not active for {} s",
    "seen_within": "active in the last {} s",
    "device": "device is {}",
    "app": "app is {}",
    "app_version": "app version is {}",
    "app_version_below": "app version below {}",
    "browser": "browser is {}",
    "os": "system is {}",
    "country": "country is {}",
    "network": "provider is {}",
    "city": "city is {}",
    "idp_issuer": "signed in at {}",
    "idp_subject": "identity provider’s user is {}",
    "idp_session": "identity provider’s session is {}",
    "new_device": "on a new device",
    "distant": "far from the last place",
    "after_failures": "after failed sign-ins",
    "moved": "used from elsewhere",
    "old_token": "possibly copied",
    "on_behalf": "support sessions",
    "sign_in_required": "must sign in again",
    "methods": "signed in with {}",
    "mfa": "with a second factor",
    "without": "but not: {}",
}
_NO_MFA: Final = "without a second factor"


def filter_words(values: Mapping[str, Any]) -> str:
    """The filter of a bulk kick in words."""
    parts = []
    for field, value in values.items():
        if field == "attributes" and isinstance(value, Mapping):
            parts += [_("{name} is {value}").format(name=name, value=wanted) for name, wanted in value.items()]
        elif field == "without" and isinstance(value, Mapping):
            parts.append(_(_FILTER_WORDS[field]).format(filter_words(value)))
        elif field in _FILTER_WORDS:
            words = _NO_MFA if field == "mfa" and value is False else _FILTER_WORDS[field]
            parts.append(_(words).format(", ".join(value) if isinstance(value, list) else value))
        else:
            parts.append(_("{name} is {value}").format(name=field, value=value))
    return ", ".join(parts)


# -- Empty -------------------------------------------------------------------------------------------------------------

REPORT_EMPTY_TITLE: Final = "No staff actions in this period"
REPORT_EMPTY: Final = "Kicks, blocks, exports and denied attempts of all colleagues appear here."
