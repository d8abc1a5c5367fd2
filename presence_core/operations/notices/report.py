"""How the sending of notices goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from presence_core.models import NoticeReport, moment, stored_number, text
from presence_core.operations.context import Context
from presence_core.operations.notices.queue import DAY
from presence_core.scripts.calls import Op, command, pairs, scored

if TYPE_CHECKING:
    from datetime import datetime

COUNTS: Final = ("sent", "limited", "unsure", "refused", "skipped", "dropped", "missed", "me", "not_me")


def notices(ctx: Context) -> Op[NoticeReport]:
    key = ctx.keys.common.notice
    shards = ctx.keys.shards
    flat, (seconds, _), *lists = yield [
        command(key, "HGETALL", key, lenient=True),
        command(key, "TIME"),
        *(command(s.notice_queue, "ZCARD", s.notice_queue, lenient=True) for s in shards),
        *(command(s.notice_queue, "ZRANGE", s.notice_queue, 0, 0, "WITHSCORES", lenient=True) for s in shards),
    ]
    stored = {text(name): value for name, value in pairs(flat or ())}
    first = [at for reply in lists[len(shards) :] for _, at in scored(reply or ())]
    now = int(ctx.now or int(seconds) * 1000)
    today = now // DAY
    return NoticeReport(
        waiting=sum(size or 0 for size in lists[: len(shards)]),
        oldest=moment(round(min(first))) if first else None,
        counts={name: _number(stored.get(name)) for name in COUNTS},
        turn_at=_time(stored.get("turn_at")),
        failing_since=_time(stored.get("failing_since")),
        failure=text(stored["failure"]) if stored.get("failure") else None,
        unsure_at=_time(stored.get("unsure_at")),
        not_me_today=sum(_number(stored.get(f"not_me:{day}")) for day in (today, today - 1)),
        as_of=moment(now),
    )


def _time(raw: bytes | None) -> datetime | None:
    at = stored_number(raw)
    return None if at is None else moment(at)


def _number(raw: bytes | None) -> int:
    return stored_number(raw) or 0
