"""Timeouts of live sessions, shorter or longer than at their login."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from presence_core import validation as check
from presence_core.errors import InvalidArgument
from presence_core.keyspace import Shard
from presence_core.models import Session, login_and_deadline, login_ms
from presence_core.operations.context import Context, FoundSession, found_rows
from presence_core.operations.durability.held_changes import (
    Replicas,
    check_capacity,
    hold,
    read_confirmations,
    server_of,
    wait_calls,
)
from presence_core.operations.sessions.held_ends import HeldOfSessions
from presence_core.operations.sessions.read import in_list_order, read_call
from presence_core.operations.sessions.settle import settle_stale
from presence_core.scripts.calls import CHECKED, Call, Op, call_of, checked_first
from presence_core.scripts.sessions import LIVE, NO_RECORD
from presence_core.scripts.staff import CHANGE_TIMEOUTS


@dataclass(frozen=True, slots=True)
class TimeoutsRequest:
    """What staff write where they change timeouts of a user's sessions."""

    uid: str
    session_id: str  #: the one that staff named; empty for all
    idle: int | str  #: s; "": each session keeps its own
    absolute: int | str
    by: str
    reason: str
    only_shorten: bool
    job_id: str = ""  #: of a bulk change, which counts the changed sessions and has audit entries of its own
    epoch: int | str = ""  #: of the job's runner; "" where no fence stops the call
    before: int | str = ""  #: ms: leave sessions alone that began then or later

    def call(self, ctx: Context, sessions: Sequence[FoundSession]) -> Call:
        s = ctx.shard(self.uid)
        _, devices, _, _ = s.of_user(self.uid)
        recorder = s.job(self.job_id) if self.job_id else s.audit
        messages = sorted({found.row.demand_message for found in sessions} - {""})
        keys = (s.sessions, s.deadlines, s.closing, s.meta, recorder, devices, s.on_behalf,
                *(s.record(self.uid, found.session_id) for found in sessions),
                *(s.note(message) for message in messages))  # fmt: skip
        return call_of(
            CHANGE_TIMEOUTS, keys, *(found.session_id for found in sessions),
            given_now=ctx.now,
            ttl="1" if ctx.settings.record_ttl else "0",
            max_audit=ctx.audit_cap,
            uid=self.uid,
            by=self.by,
            reason=self.reason,
            session=self.session_id,
            given_idle=self.idle,
            given_absolute=self.absolute,
            most_on_behalf=ctx.settings.on_behalf_timeout,
            only_shorten=int(self.only_shorten),
            recorded_by="job" if self.job_id else "audit",
            before=self.before,
            epoch=self.epoch,
            number=len(sessions),
        )  # fmt: skip


Timeouts = tuple[int, int]
"""Idle and absolute, s."""


@dataclass(slots=True, eq=False)
class HeldTimeouts(HeldOfSessions):
    """Timeouts of a session that were changed, which the client holds: see ``durability``."""

    session_id: str
    began: int  #: ms; one that began later is another session
    former: frozenset[Timeouts]  #: it has one of these where the change was lost
    request: TimeoutsRequest
    seen_server: bytes = field(default=b"", init=False)
    """Identity of the last server that had the change. With former timeouts there, others have changed them back."""

    @property
    def job_id(self) -> str:
        """The bulk job that made the change; "" if none did."""
        return self.request.job_id

    def session_ids(self) -> Sequence[str]:
        return [self.session_id]

    def repairs(self, ctx: Context, s: Shard, replies: Sequence[Any], server: bytes) -> list[Call]:
        is_known_there = self.seen_server and self.seen_server == server
        return [] if is_known_there else HeldOfSessions.repairs(self, ctx, s, replies, server)

    def repair(self, ctx: Context, s: Shard, live: FoundSession) -> list[Call]:
        session = live.session()
        was_lost = login_ms(session) == self.began and _timeouts_of(session) in self.former
        return [self.request.call(ctx, [live])] if was_lost else []

    def was_lost(self, reply: Any) -> bool:
        return bool(CHANGE_TIMEOUTS.reply(reply).changed)

    def further_steps(self, server: bytes) -> Op[object] | None:
        self.seen_server = server
        return None


def _timeouts_of(session: Session) -> Timeouts:
    return session.idle_timeout, session.absolute_timeout


def hold_timeouts(ctx: Context, replicas: Replicas, request: TimeoutsRequest, before: Session, after: Session) -> None:
    """Hold the change of one session."""
    former, (idle, absolute) = frozenset({_timeouts_of(before)}), _timeouts_of(after)
    if replicas.confirmed is None or (idle, absolute) in former:
        return
    uid, sid, began = after.uid, after.session_id, login_ms(after)
    name = ("timeouts", uid, sid)
    earlier = ctx.held.get(name)
    if isinstance(earlier, HeldTimeouts) and earlier.began == began:
        former = (former | earlier.former) - {(idle, absolute)}
    again = replace(
        request,
        uid=uid,
        session_id=sid,
        idle=idle,
        absolute=absolute,
        only_shorten=False,
        before=began + 1,
        epoch="",
    )
    change = HeldTimeouts(ctx.shard(uid), uid, sid, began, former, again)
    change.seen_server = server_of(ctx, replicas.servers, change)
    hold(ctx, replicas, name, change)


def check_timeouts(idle: object, absolute: object) -> tuple[int | str, int | str]:
    """The timeouts as the script takes them."""
    if idle is None and absolute is None:
        raise InvalidArgument("idle_timeout", "or absolute_timeout must be given", "required")
    idle_s = "" if idle is None else check.seconds("idle_timeout", idle)
    absolute_s = "" if absolute is None else check.seconds("absolute_timeout", absolute)
    if isinstance(idle_s, int) and isinstance(absolute_s, int) and idle_s > absolute_s:
        raise InvalidArgument("idle_timeout", "must be at most absolute_timeout")
    return idle_s, absolute_s


def check_only_shorten(value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidArgument("only_shorten", "must be True or False", "wrong_type")
    return value


@checked_first
def change_timeouts(
    ctx: Context,
    uid: object,
    session_id: object,
    *,
    idle_timeout: object,
    absolute_timeout: object,
    by: object,
    reason: object,
    only_shorten: object,
) -> Op[list[Session]]:
    owner, sid = check.uid(uid), "" if session_id is None else check.session_id(session_id)
    if check.is_mirrored(sid):
        raise InvalidArgument("session_id", "must not be of a mirrored session: the site decides how long it lives",
                              "mirrored")  # fmt: skip
    idle, absolute = check_timeouts(idle_timeout, absolute_timeout)
    actor, note = check.actor(by), check.prose("reason", reason)
    change = TimeoutsRequest(owner, sid, idle, absolute, actor, note, check_only_shorten(only_shorten))
    yield CHECKED
    # Two round trips: the script must declare the records, so their ids are read first.
    check_capacity(ctx)
    shard = ctx.shard(owner)
    [raw] = yield [read_call(ctx, shard, owner, [sid] if sid else [])]
    found = {session.session_id: session for session in found_rows(owner, raw)}
    live = [session for session in found.values()
            if session.state == LIVE and not check.is_mirrored(session.session_id)]  # fmt: skip
    raw, *acknowledged = yield [change.call(ctx, live), *wait_calls(ctx, [shard])]
    reply, replicas = CHANGE_TIMEOUTS.reply(raw), read_confirmations(ctx, [shard], acknowledged)
    if reply.longer:
        raise InvalidArgument(reply.longer, "must not be longer than that of each session, as only_shorten is given",
                              "lengthens")  # fmt: skip
    stale = [session_id for session_id, session in found.items() if session.state == NO_RECORD]
    changed = []
    for session_id, seen, core in reply.changed:
        session = found[session_id]
        before = session.session()
        session.row = session.row._replace(seen=seen, core=core)
        hold_timeouts(ctx, replicas, change, before, session.session())
        _, deadline = login_and_deadline(session.row) or (0, 0)
        if deadline <= reply.now:
            stale.append(session_id)
        changed.append(session.session())
    yield from settle_stale(ctx, shard, [(owner, session_id) for session_id in stale])
    return in_list_order(changed)
