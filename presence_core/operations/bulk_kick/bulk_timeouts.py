"""Timeouts of all sessions that match a filter, changed by the caller in batches.

This is no stored job: the walk lives in the process that began it. What it does to a session does not depend on what it
did before, so after a crash the same call does the rest.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from presence_core import validation as check
from presence_core.errors import InvalidArgument
from presence_core.models import AuditFact, Session, TimeoutsChange, TimeoutsPreview, login_ms, moment, write_facts
from presence_core.models.timeouts import is_changed, is_longer, predict
from presence_core.operations.bulk_kick.creation import check_expected, check_filter, count_matches, freeze
from presence_core.operations.bulk_kick.runner import BATCH
from presence_core.operations.context import LIVE, Context, FoundSession, found_rows
from presence_core.operations.durability.held_changes import check_capacity, read_confirmations, wait_calls
from presence_core.operations.permissions import BULK_TIMEOUTS_NEEDS, require
from presence_core.operations.search import list_sessions
from presence_core.operations.sessions.read import read_call
from presence_core.operations.sessions.settle import settle_stale_of_shards
from presence_core.operations.staff.timeouts import (
    TimeoutsRequest,
    check_only_shorten,
    check_timeouts,
    hold_timeouts,
)
from presence_core.scripts.calls import CHECKED, Call, Op, call_of, checked_first
from presence_core.scripts.staff import CHANGE_TIMEOUTS, WRITE_AUDIT

MAX_PREVIEWED: Final = 10_000
"""Sessions that a preview reads, at most."""

_FOR_ALL: Final = "logged_in_before with the present time matches all"

_START, _END = "change_timeouts_where_start", "change_timeouts_where"


@checked_first
def preview(ctx: Context, filter: object, idle_timeout: object, absolute_timeout: object) -> Op[TimeoutsPreview]:
    wanted = check_filter(filter, _FOR_ALL)
    idle, absolute = map(_seconds, check_timeouts(idle_timeout, absolute_timeout))
    yield CHECKED
    frozen, now = yield from freeze(ctx, wanted, writes=False)
    total = yield from count_matches(ctx, frozen, now, {})
    read = shortened = lengthened = ended = 0
    cursor = None
    while read < MAX_PREVIEWED:
        page = yield from list_sessions.list_sessions(ctx, frozen, min(1000, MAX_PREVIEWED - read), cursor)
        for before in page.items:
            after = predict(before, idle, absolute, ctx.settings.on_behalf_timeout)
            lengthened += is_longer(before, after)
            shortened += is_changed(before, after) and not is_longer(before, after)
            ended += after.expires_at <= page.as_of
        read += len(page.items)
        cursor = page.next_cursor
        if cursor is None:
            break
    return TimeoutsPreview(frozen, max(total, read), moment(now), read, shortened, lengthened, ended)


@checked_first
def start(
    ctx: Context,
    filter: object,
    *,
    idle_timeout: object,
    absolute_timeout: object,
    by: object,
    reason: object,
    expected: object,
    only_shorten: object,
    pace: object,
) -> Op[Walk]:
    """Freeze the filter, count its matches, and write the first entry of the audit."""
    wanted = check_filter(filter, _FOR_ALL)
    idle, absolute = check_timeouts(idle_timeout, absolute_timeout)
    actor, note = check.actor(by), check.prose("reason", reason)
    limit = check.whole("expected", expected, 0, 1_000_000_000)
    shortens = check_only_shorten(only_shorten)
    speed = None if pace is None else check.whole("pace", pace, 1, 100_000)
    yield CHECKED
    check_capacity(ctx)
    yield from require(ctx.keys.shards, BULK_TIMEOUTS_NEEDS)
    frozen, now = yield from freeze(ctx, wanted, writes=True)
    total = yield from count_matches(ctx, frozen, now, {})
    check_expected(total, limit)
    assert frozen.before is not None
    request = TimeoutsRequest("", "", idle, absolute, actor, note, shortens, audited=False, before=frozen.before)
    walk = Walk(ctx, request, TimeoutsChange(frozen, total), now, limit, speed)
    only = [AuditFact("only_shorter")] if shortens else []
    found = AuditFact("timeouts_match", {"count": total, "most": limit})
    yield [walk.audit_call(_START, found, *_given(request), *only)]
    return walk


class Walk:
    """One bulk change, a step at a time."""

    def __init__(
        self, ctx: Context, request: TimeoutsRequest, begin: TimeoutsChange, frozen: int, limit: int, pace: int | None
    ) -> None:
        self.change = begin
        self.over = False
        self._ctx = ctx
        self._request = request
        self._frozen = frozen  #: ms: from then on ``idle_for`` and ``seen_within`` count
        self._limit = limit
        self._pace = pace
        self._cursor: str | None = None

    def step(self) -> Op[float]:
        """Change the next batch. Returns the seconds from the start of this step to the start of the next. Raises
        InvalidArgument where more sessions match than expected."""
        size = BATCH if self._pace is None else max(1, min(BATCH, self._pace // 2))
        wanted = self.change.filter
        page = yield from list_sessions.list_sessions(self._ctx, wanted.lasting, size, self._cursor)
        matches = [session for session in page if wanted.matches(session, self._frozen)]
        chosen = matches[: self._limit - self.change.matched]
        if chosen:
            yield from self._change(chosen)
        self._cursor = page.next_cursor
        has_more = len(chosen) < len(matches)
        self.over = has_more or self._cursor is None
        if self.over:
            stopped = [AuditFact("stopped")] if has_more else []
            yield [self.audit_call(_END, *_done(self.change), *stopped)]
        if has_more:
            raise InvalidArgument(
                "expected",
                f"must be more than {self._limit:,}: more sessions match by now, and the others were not changed",
                "more_match",
            )
        return len(chosen) / self._pace if self._pace else 0.0

    def _change(self, sessions: Sequence[Session]) -> Op[None]:
        ctx = self._ctx
        found = yield from self._read(sessions)
        live = [session for session in sessions if session.ref in found]
        shards = [ctx.shard(session.uid) for session in live]
        replies = (yield [*(self._call(found[s.ref]) for s in live), *wait_calls(ctx, shards)]) if live else []
        replicas = read_confirmations(ctx, shards, replies)
        counts = dict.fromkeys(("shortened", "lengthened", "ended", "skipped"), 0)
        ended = []
        for before, raw in zip(live, replies, strict=False):
            reply = CHANGE_TIMEOUTS.reply(raw)
            counts["skipped"] += bool(reply.longer)
            for _, seen, core in reply.changed:
                row = found[before.ref].row._replace(seen=seen, core=core)
                after = dataclasses.replace(found[before.ref], row=row).session()
                hold_timeouts(ctx, replicas, self._request, found[before.ref].session(), after)
                counts["lengthened"] += is_longer(before, after)
                counts["shortened"] += is_changed(before, after) and not is_longer(before, after)
                if after.expires_at <= moment(reply.now):
                    ended.append((ctx.shard(before.uid), (before.uid, before.session_id)))
        counts["ended"] = len(ended)
        sums = {name: getattr(self.change, name) + count for name, count in counts.items()}
        self.change = dataclasses.replace(self.change, matched=self.change.matched + len(sessions), **sums)
        yield from settle_stale_of_shards(ctx, ended)

    def _read(self, sessions: Sequence[Session]) -> Op[dict[str, FoundSession]]:
        """Those of them that are live, by ref: the script must declare the texts that a record names."""
        logins = {session.ref: login_ms(session) for session in sessions}
        by_user: dict[str, list[str]] = {}
        for session in sessions:
            by_user.setdefault(session.uid, []).append(session.session_id)
        ctx = self._ctx
        replies = yield [read_call(ctx, ctx.shard(uid), uid, session_ids) for uid, session_ids in by_user.items()]
        found = (row for uid, reply in zip(by_user, replies, strict=True) for row in found_rows(uid, reply))
        live = {f"{row.uid}:{row.session_id}": row for row in found if row.state == LIVE}
        return {ref: row for ref, row in live.items() if login_ms(row.session()) == logins[ref]}

    def _call(self, found: FoundSession) -> Call:
        call = dataclasses.replace(self._request, uid=found.uid).call(self._ctx, [found])
        call.repeatable = True  # without an entry in the audit, a second time changes nothing more
        return call

    def audit_call(self, action: str, *facts: AuditFact) -> Call:
        ctx, request = self._ctx, self._request
        return call_of(WRITE_AUDIT, (ctx.keys.shards[0].audit,), given_now=ctx.now, audit_cap=ctx.audit_cap,
                       by=request.by, action=action, uid="", reason=request.reason, outcome="",
                       facts=write_facts(*facts),
                       filter=self.change.filter.to_json())  # fmt: skip


def _seconds(given: int | str) -> int | None:
    return given if isinstance(given, int) else None


def _given(request: TimeoutsRequest) -> list[AuditFact]:
    given = (("idle_timeout", request.idle), ("absolute_timeout", request.absolute))
    return [AuditFact(code, {"seconds": seconds}) for code, seconds in given if seconds]


def _done(change: TimeoutsChange) -> list[AuditFact]:
    """ "3 sessions, 2 shortened, 1 lengthened" """
    counts = (
        (change.shortened, "shortened"), (change.lengthened, "lengthened"), (change.ended, "ended_as_older"),
        (change.skipped, "left_alone"),
    )  # fmt: skip
    parts = [AuditFact(code, {"number": count}) for count, code in counts if count] or [AuditFact("nothing_to_change")]
    return [AuditFact("timeouts_of", {"count": change.matched}), *parts]
