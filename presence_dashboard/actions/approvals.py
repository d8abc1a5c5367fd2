"""A bulk kick with a block rule in one act; and requests: ask an admin, approve, refuse, withdraw.

A request is approved first, by a script that lets one answer win. Then this process starts what was asked, and records
that. So nothing starts twice, and a request that stays "approved" shows that a process died in between.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from presence_core import (
    ApprovalRequest,
    ApprovedAct,
    BlockRule,
    InvalidArgument,
    Job,
    KickPreview,
    OutcomeUnknown,
    Presence,
    PresenceError,
    TimeoutsPreview,
)
from presence_dashboard import access, texts
from presence_dashboard.actions import block_rules, bulk_kick
from presence_dashboard.actions.block_rules import RuleConditions, RuleDetails
from presence_dashboard.actions.kick_and_block import ActionDetails, require_within_limit
from presence_dashboard.data import history_query
from presence_dashboard.data.browser_tab import zone
from presence_dashboard.data.shared_reads import now
from presence_dashboard.data.store import Reading, Store
from presence_dashboard.error_sentences import plain
from presence_dashboard.format import cut, literal, name, number, span
from presence_dashboard.language import in_language
from presence_dashboard.roles import Actor, Denied, Right, role_may

# Names in the audit of denials.
ASK: Final = "ask_approval"
APPROVE: Final = "approve_request"
REFUSE: Final = "refuse_request"
WITHDRAW: Final = "withdraw_request"

SHOWN_FOR: Final = timedelta(hours=12)
"""How long one's own answered requests are shown, unless one hides them: a shift."""

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RulePart:
    """The block rule of a request, or of a bulk kick."""

    match: RuleConditions
    most: int  #: sessions that may match when it is added
    seconds: int | None  #: None: until removed
    wide: str | None = None  #: a wide network or country, typed again, or to be approved; None for others

    def details(self, given: ActionDetails) -> RuleDetails:
        return RuleDetails(given.reason, given.message, given.ticket, self.seconds, self.wide)


@dataclass(frozen=True, slots=True)
class KickPart:
    """The bulk kick of a request, or of one act with a block rule."""

    preview: KickPreview
    spared: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TimesPart:
    """The change of timeouts of a request."""

    preview: TimeoutsPreview
    idle: int | None  #: seconds; None: each session keeps its own
    absolute: int | None


@dataclass(frozen=True, slots=True)
class Started:
    """What was started: the rule first, then the bulk kick."""

    rule: BlockRule | None = None
    job: Job | None = None
    failure: PresenceError | None = None  #: why the bulk kick did not start, although the rule is in force


def start(store: Store, kick: KickPart, rule: RulePart, details: ActionDetails) -> Started:
    """Block, then kick. Nothing is blocked if the actor may not kick. Raises as ``block_rules.add``."""
    access.require_fresh("bulk", action="kick_where")
    actor = require_within_limit(store.presence, kick.preview.total, action="kick_where")
    added = block_rules.add(store.presence, rule.match, rule.most, rule.details(details))
    return _kick_after(store, actor.name, added, kick, details)


def _kick_after(store: Store, by: str, rule: BlockRule, kick: KickPart, details: ActionDetails) -> Started:
    try:
        return Started(rule, bulk_kick.start_as(store, by, kick.preview, kick.spared, details))
    except PresenceError as error:
        return Started(rule, failure=error)


# -- requests ----------------------------------------------------------------------------------------------------------


def requests(store: Store, *, fresh: bool = False) -> Reading[list[ApprovalRequest]]:
    """All requests, the latest first, read once for all tabs."""
    return store.shared("approval-requests", lambda presence: presence.approval_requests(), fresh=fresh)


def waiting_for(actor: Actor, found: list[ApprovalRequest]) -> list[ApprovalRequest]:
    """The open requests that the actor can answer: those of other people."""
    if not actor.may("approve"):
        return []
    return [request for request in found if request.state == "open" and request.by.lower() != actor.name.lower()]


def shown_to(actor: Actor, found: list[ApprovalRequest]) -> list[ApprovalRequest]:
    """What the page lists: the requests that wait for the actor, then their own, with recent answers; and for those who
    approve the approved ones without a result, because someone must look whether they have started."""
    recent = [request for request in found if request.answered_at is None or now() - request.answered_at < SHOWN_FOR]
    own = [request for request in recent if request.by.lower() == actor.name.lower()]
    begun = [request for request in recent if request.state == "approved" and request not in own]
    return [*waiting_for(actor, found), *own, *(begun if actor.may("approve") else ())]


def states_of(shown: list[ApprovalRequest]) -> tuple[tuple[str, str], ...]:
    """What makes the page draw its list again."""
    return tuple((request.id, request.state) for request in shown)


def acts_in_words(request: ApprovalRequest, actor: Actor) -> str:
    """What it asks for. No Markdown or HTML."""
    parts = []
    if request.filter is not None:
        which = history_query.filter_in_words(request.filter, request.at, actor, zone())
        found = literal(cut(which, 200)) if which else texts.BULK_EVERYONE
        sessions = texts.number_of_sessions(request.sessions, number(request.sessions))
        if request.changes_timeouts:
            parts.append(texts.request_timeouts(sessions, found, _times_in_words(request)))
        else:
            parts.append(texts.request_kick(sessions, found))
    if request.blocks is not None:
        match, lasts = literal(cut(request.blocks, 140)), request.duration
        parts.append(texts.request_block(match, span(lasts)) if lasts else texts.request_block_open(match))
    return " · ".join(parts)


def _times_in_words(request: ApprovalRequest) -> str:
    given = ((texts.request_idle, request.idle_timeout), (texts.request_absolute, request.absolute_timeout))
    return ", ".join(sentence(span(seconds)) for sentence, seconds in given if seconds is not None)


def changes_in_words(request: ApprovalRequest, actor: Actor) -> str:
    """What was approved instead of what was asked. Empty: nothing else. No Markdown or HTML."""
    act = request.approved
    if act is None:
        return ""
    acts = acts_in_words(replace(request, sessions=act.sessions, filter=act.filter, duration=act.duration), actor)
    return " ".join((texts.request_changed(acts), literal(act.reason) if act.reason != request.reason else "")).strip()


def ask(presence: Presence, kick: KickPart | None, rule: RulePart | None, details: ActionDetails) -> ApprovalRequest:
    """Ask an admin. Kicks and blocks nothing, so it needs no fresh authentication. Raises as ``Presence.ask_approval``,
    and Denied."""
    actor = access.require("bulk" if rule is None else "block_rules", action=ASK)
    return presence.ask_approval(
        by=actor.name,
        reason=details.reason,
        sessions=kick.preview.total if kick else rule.most if rule else 0,
        filter=kick.preview.filter if kick else None,
        exclude=kick.spared if kick else (),
        duration=rule.seconds if rule else None,
        message=details.message,
        ticket=details.ticket,
        lapse_after=access.request_lapse(),
        **(rule.match if rule else {}),
    )


def ask_timeouts(presence: Presence, times: TimesPart, reason: str, ticket: str | None) -> ApprovalRequest:
    """Ask an admin for a change of timeouts. As ``ask``."""
    actor = access.require("bulk", action=ASK)
    return presence.ask_approval(
        by=actor.name,
        reason=reason,
        sessions=times.preview.total,
        filter=times.preview.filter,
        idle_timeout=times.idle,
        absolute_timeout=times.absolute,
        ticket=ticket,
        lapse_after=access.request_lapse(),
    )


def may_still_ask(presence: Presence, request: ApprovalRequest) -> bool:
    """Whether the person who asked still has the right that the request needs."""
    member = presence.staff_member(request.by)
    needed: Right = "block_rules" if request.blocks else "bulk"
    return member is not None and member.role is not None and role_may(member.role, needed)


def approve(
    store: Store,
    request: ApprovalRequest,
    kick: KickPart | None,
    rule: RulePart | None,
    details: ActionDetails,
    times: TimesPart | None = None,
) -> Started:
    """Approve the request, and start it with these texts. kick, rule: counted again by the actor; the kick may leave
    out sessions of the request.

    Raises Denied and SignedOut; InvalidArgument with the field ``request_id`` if another person was faster, and with
    ``expected`` if more sessions match than the actor saw: then the request stays open.
    """
    actor = access.require_fresh("approve", action=APPROVE)
    presence = store.presence
    if not may_still_ask(presence, request):
        raise Denied(texts.review_no_right(name(request.by)))
    if rule is not None and rule.wide not in (None, request.blocks) and actor.four_eyes is not None:
        raise Denied(texts.ASK_WIDE)  # a wide rule that no one asked for would be the actor's own
    if kick is not None or times is not None:
        if kick is not None:
            seen, again = kick.preview.total, presence.preview_kick(kick.preview.filter, exclude=kick.spared).total
        elif times is not None:
            seen, again = times.preview.total, presence.count_sessions(times.preview.filter)
        if again > seen:
            raise InvalidArgument("expected", "must be the number that matches now: count again", "more_match")
    presence.answer_request(request.id, "approve", by=actor.name, approved=_changed(request, kick, rule, details))
    try:
        started = _start_as(store, actor, kick, rule, details, times)
    except OutcomeUnknown:
        raise  # it may have started, so the request stays approved, which the list explains
    except PresenceError as error:
        _record(presence, request, actor, _english(error), failed=True)
        raise
    if started.failure is not None:
        _record(presence, request, actor, f"block rule added, no bulk kick: {_english(started.failure)}", failed=True)
    else:
        parts = (("block rule added", rule), ("bulk kick started", kick), ("change of timeouts started", times))
        done = (words for words, part in parts if part)
        _record(presence, request, actor, ", ".join(done), failed=False)
    return started


def _changed(
    request: ApprovalRequest, kick: KickPart | None, rule: RulePart | None, details: ActionDetails
) -> ApprovedAct | None:
    """What is approved, if it is not what was asked."""
    act = ApprovedAct(
        sessions=kick.preview.total if kick else request.sessions,
        reason=details.reason,
        filter=kick.preview.filter if kick else request.filter,
        exclude=kick.spared if kick else (),
        duration=rule.seconds if rule and request.blocks else None,
    )
    asked = (request.reason, request.filter, request.exclude, request.duration)
    return None if asked == (act.reason, act.filter, act.exclude, act.duration) else act


def _start_as(
    store: Store,
    actor: Actor,
    kick: KickPart | None,
    rule: RulePart | None,
    details: ActionDetails,
    times: TimesPart | None,
) -> Started:
    by = actor.name
    if times is not None:
        job = bulk_kick.start_timeouts_as(
            store, actor, times.preview, times.idle, times.absolute, details.reason, details.ticket
        )
        return Started(job=job)
    if rule is None:
        assert kick is not None
        return Started(job=bulk_kick.start_as(store, by, kick.preview, kick.spared, details))
    added = block_rules.add_as(store.presence, by, rule.match, rule.most, rule.details(details))
    return Started(added) if kick is None else _kick_after(store, by, added, kick, details)


def _record(presence: Presence, request: ApprovalRequest, actor: Actor, outcome: str, *, failed: bool) -> None:
    try:
        presence.finish_request(request.id, by=actor.name, outcome=outcome[:500], failed=failed)
    except PresenceError as error:
        _log.warning("Request %s: its result was not recorded: %s", request.id, error)


def _english(error: PresenceError) -> str:
    """The error in the language of the audit."""
    with in_language("en"):
        return plain(error)


def refuse(presence: Presence, request: ApprovalRequest, word: str) -> ApprovalRequest:
    """Refuse it. word: why, for the person who asked."""
    actor = access.require("approve", action=REFUSE)
    return presence.answer_request(request.id, "refuse", by=actor.name, word=word)


def withdraw(presence: Presence, request: ApprovalRequest) -> ApprovalRequest:
    """Take back one's own request."""
    actor = access.require("bulk", action=WITHDRAW)
    return presence.answer_request(request.id, "withdraw", by=actor.name)
