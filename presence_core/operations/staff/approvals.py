"""Requests that a second person approves: a bulk kick, a block rule or both, or a bulk change of timeouts. On the first
shard.

The states: ``open``, then ``refused``, ``withdrawn``, ``lapsed`` or ``approved``. The process of the person who
approves does what was asked, and then writes ``done`` or ``failed``. So a request that stays ``approved`` tells that
the process died, or lost the server, in between.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from itertools import islice
from typing import Final

from presence_core import validation as check
from presence_core.errors import CorruptData, InvalidArgument, Unavailable
from presence_core.filters import SessionFilter
from presence_core.models import (
    ApprovalAnswer,
    ApprovalRequest,
    ApprovedAct,
    AuditFact,
    RuleMatch,
    moment,
    text,
    write_facts,
)
from presence_core.operations.context import Context
from presence_core.operations.staff.timeouts import check_timeouts
from presence_core.scripts import staff as scripts
from presence_core.scripts.calls import CHECKED, Call, Op, call_of, checked_first
from presence_core.settings import DAY

MAX_OPEN: Final = 50
"""Open requests of a namespace."""

MAX_OWN: Final = 10
"""Open requests of one person."""

MAX_ANSWERED: Final = 50

MAX_EXCLUDED: Final = 200

MAX_BYTES: Final = 16_384
"""Of what is asked, and of what is approved instead: a script reads all requests."""

KEEP_ANSWERED: Final = 7 * DAY

KEEP: Final = 30 * DAY
"""Seconds after the last change until all requests are deleted."""

LAPSES: Final = (60, 7 * DAY)
"""Seconds after which a request may lapse, at least and at most."""

KICK_ALL: Final = "use revoke_before to sign out everyone"


@checked_first
def ask(
    ctx: Context, *, by: object, reason: object, filter: object, exclude: object, sessions: object, network: object,
    app: object, app_version: object, country: object, duration: object, message: object, ticket: object,
    lapse_after: object, idle_timeout: object, absolute_timeout: object,
) -> Op[ApprovalRequest]:  # fmt: skip
    actor, note = check.actor(by), check.prose("reason", reason)
    asked = _check_filter(filter)
    has_rule = any(value is not None for value in (network, app, app_version, country))
    if asked is None and not has_rule:
        raise InvalidArgument("filter", "must be given, or what a block rule refuses, or both", "required")
    match = RuleMatch.of(network, app, app_version, country) if has_rule else None
    lasts = None if duration is None else check.seconds("duration", duration)
    if lasts is not None and match is None:
        raise InvalidArgument("duration", "must not be given without a block rule", "conflicts")
    refs = _check_excluded(exclude)
    times = _check_times(idle_timeout, absolute_timeout, asked, match, refs)
    number = check.whole("sessions", sessions, 0, 1_000_000_000)
    public = check.optional_prose("message", message)
    case = check.short("ticket", ticket, 64) or ""
    lapse = check.whole("lapse_after", lapse_after, *LAPSES)
    fields = {"sessions": str(number)}
    if asked is not None and times:
        # Under a name of its own: a process that does not know such requests finds nothing to kick.
        fields |= {"timeouts_filter": asked.to_json()} | times
    elif asked is not None:
        fields |= {"filter": asked.to_json(), "exclude": json.dumps(refs, ensure_ascii=False)}
    if match is not None:
        given = {"network": match.network, "app": match.app, "app_version": match.app_version, "country": match.country}
        fields |= {name: value for name, value in given.items() if value}
        fields |= {"duration": str(lasts)} if lasts else {}
    _check_size(*fields.values(), note, public)
    yield CHECKED
    shard, request_id = ctx.keys.shards[0], ctx.new_id()
    words = [word for pair in fields.items() for word in pair]
    [reply] = yield [
        call_of(scripts.ASK_APPROVAL, (shard.approvals, shard.audit), *words, given_now=ctx.now,
                audit_cap=ctx.audit_cap, id=request_id, by=actor, reason=note, message=public, ticket=case,
                uid=(asked.uid if asked else None) or "", lapse=lapse * 1000, most_open=MAX_OPEN, most_own=MAX_OWN,
                most_answered=MAX_ANSWERED, keep_answered=KEEP_ANSWERED * 1000, keep=KEEP,
                facts=_facts(request_id, actor, asked, number, match, times))
    ]  # fmt: skip
    change = scripts.ASK_APPROVAL.reply(reply)
    if change.code == scripts.TOO_MANY_OPEN:
        raise InvalidArgument("by", f"cannot ask: the limit of {MAX_OPEN} open requests is reached", "requests_full")
    if change.code == scripts.TOO_MANY_OWN:
        raise InvalidArgument(
            "by", f"cannot ask: the limit of {MAX_OWN} open requests of one person is reached", "requests_full"
        )
    return _decoded(request_id, change.record)


def _check_times(
    idle: object, absolute: object, asked: SessionFilter | None, match: RuleMatch | None, refs: list[str]
) -> dict[str, str]:
    """The fields of a change of timeouts; empty: it is none."""
    if idle is None and absolute is None:
        return {}
    values = dict(zip(("idle_timeout", "absolute_timeout"), check_timeouts(idle, absolute), strict=True))
    field = next(name for name, value in values.items() if value)
    if match is not None or asked is None or refs:
        raise InvalidArgument(field, "must come with a filter, without a block rule and exclude", "conflicts")
    return {name: str(value) for name, value in values.items() if value}


def _check_size(*words: str) -> None:
    if sum(len(word.encode()) for word in words) > MAX_BYTES:
        raise InvalidArgument("exclude", f"makes a request of more than {MAX_BYTES:,} bytes: give fewer", "too_many")


def _check_filter(value: object) -> SessionFilter | None:
    if value is not None and not isinstance(value, SessionFilter):
        raise InvalidArgument("filter", "must be a SessionFilter", "wrong_type")
    if value is not None and not value.given:
        raise InvalidArgument("filter", f"must have at least one field: {KICK_ALL}", "required")
    return value


def _check_excluded(value: object) -> list[str]:
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise InvalidArgument("exclude", "must be a list of refs", "wrong_type")
    refs = list(islice(value, MAX_EXCLUDED + 1))
    if len(refs) > MAX_EXCLUDED:
        raise InvalidArgument("exclude", f"must be at most {MAX_EXCLUDED} refs", "too_many")
    return [":".join(check.ref(ref)) for ref in refs]


def _facts(
    request_id: str, by: str, asked: SessionFilter | None, sessions: int, match: RuleMatch | None, times: dict[str, str]
) -> str:
    """What is asked, for the audit of each step."""
    facts = [AuditFact("request_of", {"request": request_id, "name": by})]
    facts += [AuditFact("to_change" if times else "to_kick", {"count": sessions})] if asked else []
    facts += [AuditFact(name, {"seconds": int(value)}) for name, value in times.items()]
    facts += [AuditFact("to_block", {"match": match.words})] if match else []
    return write_facts(*facts)


def requests(ctx: Context) -> Op[list[ApprovalRequest]]:
    """All that are stored, the latest first. Those that lapsed are written as such, which the audit shows."""
    shard = ctx.keys.shards[0]
    [reply] = yield [call_of(scripts.READ_REQUESTS, (shard.approvals,), ctx.now)]
    read = scripts.READ_REQUESTS.reply(reply)
    found = (ApprovalRequest.from_stored(text(name), raw) for name, raw in read.rows)
    stored = sorted((request for request in found if request), key=lambda request: request.at, reverse=True)
    known = [request.as_of(moment(read.now)) for request in stored]
    lapsed = [now for before, now in zip(stored, known, strict=True) if now.state != before.state]
    if lapsed and ctx.settings.heal:
        with contextlib.suppress(Unavailable, CorruptData):
            yield [_answer_call(ctx, request.id, "lapse", request.by) for request in lapsed]
    return known


@checked_first
def answer(
    ctx: Context, request_id: object, reply_with: object, by: object, word: object, approved: object
) -> Op[ApprovalRequest]:
    known_id, actor = check.session_id(request_id, "request_id"), check.actor(by)
    check.choice("answer", reply_with, ApprovalAnswer)
    said = check.prose("word", word) if word is not None or reply_with == "refuse" else ""
    if approved is not None and not (isinstance(approved, ApprovedAct) and reply_with == "approve"):
        raise InvalidArgument("approved", 'must be an ApprovedAct, with the answer "approve"', "wrong_type")
    act = None if approved is None else _checked_act(approved)
    yield CHECKED
    if act is None:
        return (yield from _change(ctx, known_id, str(reply_with), actor, said, ""))
    [reply] = yield [call_of(scripts.READ_REQUESTS, (ctx.keys.shards[0].approvals,), ctx.now)]
    raw = dict(scripts.READ_REQUESTS.reply(reply).rows).get(known_id.encode())
    asked = ApprovalRequest.from_stored(known_id, raw) if raw else None
    if asked is not None:  # what is asked never changes, so no other process can come in between
        _check_narrower(asked, act)
    return (yield from _change(ctx, known_id, "approve", actor, said, "", act))


def _checked_act(act: ApprovedAct) -> ApprovedAct:
    lasts = None if act.duration is None else check.seconds("duration", act.duration)
    number = check.whole("sessions", act.sessions, 0, 1_000_000_000)
    refs = tuple(_check_excluded(act.exclude))
    checked = ApprovedAct(
        sessions=number, reason=check.prose("reason", act.reason), filter=_check_filter(act.filter), exclude=refs,
        duration=lasts,
    )  # fmt: skip
    _check_size(*_stored_act(checked).values())
    return checked


def _stored_act(act: ApprovedAct) -> dict[str, str]:
    fields = {"approved_sessions": str(act.sessions), "approved_reason": act.reason}
    if act.filter is not None:
        fields |= {"approved_filter": act.filter.to_json()}
        fields |= {"approved_exclude": json.dumps(act.exclude, ensure_ascii=False)}
    return fields | ({"approved_duration": str(act.duration)} if act.duration else {})


def _check_narrower(asked: ApprovalRequest, act: ApprovedAct) -> None:
    """No one approves a kick of a session that the request does not reach: that would be a request of their own."""
    if (asked.filter is None) != (act.filter is None) or not _has_conditions(asked.filter, act.filter):
        raise InvalidArgument("filter", "must have each condition of the request, unchanged: add others", "conflicts")
    if not set(asked.exclude) <= set(act.exclude):
        raise InvalidArgument("exclude", "must have each ref of the request: add others", "conflicts")
    if act.duration is not None and asked.blocks is None:
        raise InvalidArgument("duration", "must not be given without a block rule", "conflicts")


def _has_conditions(asked: SessionFilter | None, approved: SessionFilter | None) -> bool:
    if asked is None or approved is None:
        return True
    before, after = json.loads(asked.to_json()), json.loads(approved.to_json())
    attributes, found = before.pop("attributes", {}), after.pop("attributes", {})
    return attributes.items() <= found.items() and all(after.get(name) == value for name, value in before.items())


@checked_first
def finish(ctx: Context, request_id: object, by: object, outcome: object, failed: object) -> Op[ApprovalRequest]:
    known_id, actor = check.session_id(request_id, "request_id"), check.actor(by)
    result = check.prose("outcome", outcome)
    if not isinstance(failed, bool):
        raise InvalidArgument("failed", "must be True or False", "wrong_type")
    yield CHECKED
    return (yield from _change(ctx, known_id, "failed" if failed else "done", actor, "", result))


def _change(
    ctx: Context, request_id: str, change: str, by: str, word: str, outcome: str, act: ApprovedAct | None = None
) -> Op[ApprovalRequest]:
    [reply] = yield [_answer_call(ctx, request_id, change, by, word, outcome, act)]
    answered = scripts.ANSWER_REQUEST.reply(reply)
    if answered.code == scripts.UNKNOWN:
        raise InvalidArgument("request_id", "must be of a known request: answered ones are kept for 7 days", "unknown")
    request = _decoded(request_id, answered.record)
    if answered.code == scripts.OWN:
        raise InvalidArgument("by", "must not be the person who asks: a second person answers", "own_request")
    if answered.code == scripts.NOT_OWN:
        raise InvalidArgument("by", "must be the person who asked, or who approved", "own_request")
    if answered.code != 1:
        raise InvalidArgument("request_id", f"must be of an open request: this one is {request.state}", "answered")
    return request


def _answer_call(
    ctx: Context, request_id: str, change: str, by: str, word: str = "", outcome: str = "",
    act: ApprovedAct | None = None,
) -> Call:  # fmt: skip
    shard = ctx.keys.shards[0]
    pairs = [word for pair in _stored_act(act).items() for word in pair] if act else []
    facts = [AuditFact("narrowed", {"count": act.sessions})] if act and act.filter else []
    return call_of(scripts.ANSWER_REQUEST, (shard.approvals, shard.audit), *pairs, given_now=ctx.now,
                   audit_cap=ctx.audit_cap, id=request_id, answer=change, by=by, word=word, outcome=outcome, keep=KEEP,
                   more_facts=write_facts(*facts) if facts else "")  # fmt: skip


def _decoded(request_id: str, record: bytes) -> ApprovalRequest:
    request = ApprovalRequest.from_stored(request_id, record)
    if request is None:
        raise CorruptData(f"Request {request_id} cannot be read: another program wrote to it.")
    return request
