"""The queue of notices. A sender reads the events, queues what they say, claims what is due, sends it, and notes that.

A notice is claimed before it is sent. So it is sent at most once: if the sender dies in between, no one sends it again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from presence_core.keyspace import digest
from presence_core.models import Notice, Origin, Place, text
from presence_core.operations.context import Context
from presence_core.operations.durability.held_changes import wait_calls
from presence_core.operations.sessions import events
from presence_core.scripts import notices as scripts
from presence_core.scripts.calls import Op, call_of, command, pairs

MAX_WAITING: Final = 10_000
"""Users with a notice in the queue, of all shards together."""

HOLD: Final = 600
"""Seconds that a sender may take for a notice. After that it counts as unsure."""

DAY: Final = 86_400_000


class Limits(NamedTuple):
    """The limits that a sender was given."""

    per_day: int  #: notices that a user gets in a day
    give_up: int  #: seconds after which a notice that waits is dropped
    keep: int  #: seconds that a notice is kept: as long as its link is valid
    hold: int = HOLD  #: seconds that a sender may take for one


class Odd(NamedTuple):
    """An event that is worth a notice."""

    uid: str
    session_id: str
    kind: str
    at: int  #: ms
    after: Origin | None = None  #: where a move led to; None: not known any more


class Claim(NamedTuple):
    """What a look at the notices of one user has found."""

    notice: Notice | None  #: to be sent now, by this sender only
    token: str  #: for ``finish``
    dropped: int
    unsure: int


def notice_id(session_id: str, at: int) -> str:
    """The id of the notice about what happened in a session at this time, ms."""
    return digest(f"{session_id}\n{at}", 12)


def read_position(ctx: Context) -> Op[str]:
    """The cursor up to which the events have been queued; the first time, the end of the events."""
    key = ctx.keys.common.notice
    [found] = yield [command(key, "HGET", key, "cursor")]
    if found is None:
        end = yield from events.latest(ctx)
        yield [command(key, "HSETNX", key, "cursor", end)]
        [found] = yield [command(key, "HGET", key, "cursor")]
    return text(found or b"")


def queue(ctx: Context, odd: Sequence[Odd], cursor: str, limits: Limits) -> Op[dict[str, int]]:
    """Queue a notice for each event, then move the position. Returns how many were limited, and dropped. If it breaks
    off, the events are read again, and those that are queued stay so."""
    counts = {"limited": 0, "dropped": 0}
    most = max(1, MAX_WAITING // len(ctx.keys.shards))
    if odd:
        calls = [
            call_of(scripts.QUEUE_NOTICE, (shard.notices(item.uid), shard.notice_queue, shard.known(item.uid)),
                    given_now=ctx.now, uid=item.uid, id=notice_id(item.session_id, item.at), sid=item.session_id,
                    at=item.at, kind=item.kind, keep=limits.keep, per_day=limits.per_day, most=most,
                    give_up=limits.give_up, after=_packed(item.after))
            for item in odd
            for shard in (ctx.shard(item.uid),)
        ]  # fmt: skip
        for call in calls:
            call.lenient = True  # damage to the key of one user must not stop the mails of others
        replies = yield calls
        codes = [None if reply is None else scripts.QUEUE_NOTICE.reply(reply) for reply in replies]
        counts["limited"] = codes.count(scripts.LIMITED)
        counts["dropped"] = sum(code in (scripts.FULL, scripts.TOO_OLD, None) for code in codes)
    key = ctx.keys.common.notice
    yield [command(key, "HSET", key, "cursor", cursor)]
    return counts


def _packed(after: Origin | None) -> str:
    """Where a move led to, as the notice keeps it: the session may move on before the mail is written."""
    if after is None:
        return ""
    place = after.place or Place()
    kept = {"os": after.os, "browser": after.browser, "country": place.country, "city": place.city}
    return json.dumps({name: value for name, value in kept.items() if value})


def due(ctx: Context, limit: int) -> Op[list[str]]:
    """Users with a notice that is due, at most ``limit`` of each shard, the longest due first. Two round trips."""
    now = yield from _now(ctx)
    found = yield [
        command(s.notice_queue, "ZRANGE", s.notice_queue, "-inf", now, "BYSCORE", "LIMIT", 0, limit)
        for s in ctx.keys.shards
    ]
    return [text(uid) for uids in found for uid in uids]


def claim(ctx: Context, uid: str, limits: Limits) -> Op[Claim]:
    """Claim the first notice of a user that is due. With ``confirm_replicas`` it waits until replicas have the claim,
    so that after a failover no other sender gets it too; for ``confirm_timeout`` at most, since mails do not wait for a
    replica."""
    shard, token = ctx.shard(uid), ctx.new_id()
    [raw, *_] = yield [
        call_of(scripts.CLAIM_NOTICE, (shard.notices(uid), shard.notice_queue), given_now=ctx.now, uid=uid,
                claim=token, give_up=limits.give_up, hold=limits.hold),
        *wait_calls(ctx, (shard,)),
    ]  # fmt: skip
    reply = scripts.CLAIM_NOTICE.reply(raw)
    notice = Notice.from_stored(uid, text(reply.id), reply.stored) if reply.id else None
    return Claim(notice, token, reply.dropped, reply.unsure)


def finish(ctx: Context, notice: Notice, token: str, state: str, pause: int = 0) -> Op[bool]:
    """Note how it went. ``pause``: seconds until a notice that waits is tried again. False: it is no longer ours."""
    shard = ctx.shard(notice.uid)
    [reply] = yield [
        call_of(scripts.FINISH_NOTICE, (shard.notices(notice.uid), shard.notice_queue), given_now=ctx.now,
                uid=notice.uid, id=notice.id, claim=token, state=state, pause=pause)
    ]  # fmt: skip
    return bool(scripts.FINISH_NOTICE.reply(reply) == 1)


def note_turn(ctx: Context, counts: Mapping[str, int], failure: str | None, *, has_sent: bool = False) -> Op[None]:
    """Note that a sender has looked at the queue, what it counted, and why it could send nothing. The failure of
    another sender stays until one has sent a mail since its last turn."""
    key = ctx.keys.common.notice
    now = str((yield from _now(ctx)))
    stored = {"turn_at": now} | ({"unsure_at": now} if counts.get("unsure") else {})
    calls = [command(key, "HINCRBY", key, name, add, repeatable=False) for name, add in counts.items() if add]
    if failure is None and has_sent:
        calls.append(command(key, "HDEL", key, "failing_since", "failure"))
    elif failure is not None:
        calls.append(command(key, "HSETNX", key, "failing_since", now))
        stored["failure"] = failure
    yield [*calls, command(key, "HSET", key, *(word for pair in stored.items() for word in pair))]


def count_answer(ctx: Context, answer: str) -> Op[None]:
    """Count an answer of a user; those that were "not me" also by day."""
    key = ctx.keys.common.notice
    calls = [command(key, "HINCRBY", key, answer, 1, repeatable=False)]
    if answer == "not_me":
        day = (yield from _now(ctx)) // DAY
        calls += [
            command(key, "HINCRBY", key, f"not_me:{day}", 1, repeatable=False),
            command(key, "HDEL", key, f"not_me:{day - 2}", f"not_me:{day - 3}"),
        ]
    yield calls


def _now(ctx: Context) -> Op[int]:
    """By the clock of Redis, ms."""
    [(seconds, microseconds)] = yield [command(ctx.keys.common.notice, "TIME")]
    return int(ctx.now or int(seconds) * 1000 + int(microseconds) // 1000)


def read_stored(ctx: Context, uid: str) -> Op[list[Notice]]:
    """All notices of a user that are kept, the newest login first."""
    key = ctx.shard(uid).notices(uid)
    [flat] = yield [command(key, "HGETALL", key, lenient=True)]
    found = (Notice.from_stored(uid, text(name), raw) for name, raw in pairs(flat or ()))
    return sorted((notice for notice in found if notice), key=lambda notice: (notice.at, notice.id), reverse=True)
