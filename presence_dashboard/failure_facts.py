"""What pages say of a failed sign-in: why, from where, on what, and what was typed."""

from __future__ import annotations

from datetime import datetime

from presence_core import FailedLogin
from presence_dashboard import texts
from presence_dashboard.components import session_facts
from presence_dashboard.format import isolated
from presence_dashboard.roles import HIDDEN, Actor


def address(failure: FailedLogin, actor: Actor) -> str | None:
    """The address with its place, hidden if the actor may not see it."""
    shown = session_facts.origin(failure.ip, failure.place, actor)
    if shown and shown != HIDDEN and failure.ip is None and failure.count > 1:
        return texts.failed_last_from(shown)  # of several addresses, only the place of the last is kept
    return shown


def typed(failure: FailedLogin) -> str | None:
    """What was typed, where it is no known person's ID."""
    return texts.FAILED_TYPED.get(failure.name_kind or "") if failure.uid is None else None


def rule(failure: FailedLogin, actor: Actor) -> str | None:
    """What the block rule names that refused it."""
    return HIDDEN if failure.rule and "ip" in actor.masked else failure.rule


def client(failure: FailedLogin) -> str | None:
    return texts.browser_on(failure.browser, failure.os) or None


def details(failure: FailedLogin, actor: Actor) -> str:
    """One line of plain text for the timeline."""
    was = typed(failure)
    first, last = (session_facts.time_of_day(at) for at in (failure.first_at, failure.at))
    parts = [
        address(failure, actor),
        client(failure),
        failure.app,
        rule(failure, actor),
        texts.failed_under(was) if was else None,
        texts.failed_since(first) if first != last else None,
    ]
    return " · ".join(isolated(part) for part in parts if part)


def facts(failure: FailedLogin, actor: Actor, called: str | None) -> dict[str, str | datetime | None]:
    """Labels and values of all details."""
    return {
        texts.LABEL_FAILURE_LAST: failure.at,
        texts.LABEL_FAILURE_FIRST: failure.first_at if failure.count > 1 else None,
        texts.LABEL_REASON: texts.FAILURE_WHYS.get(failure.why, failure.why),
        texts.LABEL_FAILURE_COUNT: str(failure.count),
        texts.LABEL_NAME: called,
        texts.LABEL_UID: failure.uid,
        texts.LABEL_FAILURE_TYPED: typed(failure),
        texts.LABEL_FAILURE_RULE: rule(failure, actor),
        texts.LABEL_BROWSER: client(failure),
        texts.LABEL_APP: failure.app,
        texts.LABEL_IP: address(failure, actor),
    }
