"""The sign-in history of a user, and the login before a session."""

from __future__ import annotations

from collections.abc import Iterable

from presence_core import validation as check
from presence_core.keyspace import Shard
from presence_core.models import Record, SignIn, as_ms, read_sign_ins, text
from presence_core.operations.context import Context, found_rows
from presence_core.operations.search.live_counts import count_call
from presence_core.operations.sessions import tombstones
from presence_core.operations.sessions.read import read_call
from presence_core.scripts.calls import CHECKED, Call, Op, call_of, checked_first, command
from presence_core.scripts.privacy import TRIM_SIGN_INS
from presence_core.scripts.search import COUNT_LIVE
from presence_core.scripts.sessions import LIVE
from presence_core.settings import DAY


@checked_first
def sign_ins(ctx: Context, uid: object) -> Op[list[SignIn]]:
    owner = check.uid(uid)
    yield CHECKED
    return (yield from history(ctx, owner)) if ctx.settings.keep_sign_ins else []


def history(ctx: Context, uid: str) -> Op[list[SignIn]]:
    """What is stored, also if the settings keep no sign-ins any more; without what is older than they say."""
    s = ctx.shard(uid)
    counted, stored = yield [count_call(ctx, s), _history_call(s, uid)]
    now, days = COUNT_LIVE.reply(counted).now, ctx.settings.keep_sign_ins
    oldest = now - days * DAY * 1000 if days else 0
    return [sign_in for sign_in in read_sign_ins(stored) if as_ms(sign_in.at) > oldest]


def _history_call(s: Shard, uid: str) -> Call:
    return command(s.sign_ins(uid), "GET", s.sign_ins(uid), lenient=True)


def trims(ctx: Context) -> bool:
    """Whether these settings trim histories."""
    return ctx.settings.keep_sign_ins > 0 or ctx.settings.truncate_addresses_after is not None


def trim_call(ctx: Context, shard: Shard, uids: Iterable[bytes], *, is_last: bool = False) -> Call:
    """Trim the histories of these users. A client that keeps none leaves to others how long theirs stay, but not their
    cities. ``is_last``: no later run finds these users."""
    settings = ctx.settings
    keep, city = settings.keep_sign_ins * DAY * 1000, settings.truncate_addresses_after
    if is_last and not keep and city is not None:
        city = 0
    city_ms = "" if city is None else city * DAY * 1000
    return call_of(TRIM_SIGN_INS, [shard.sign_ins(text(uid)) for uid in uids], ctx.now, keep or "", city_ms)


@checked_first
def previous_login(ctx: Context, uid: object, session_id: object) -> Op[SignIn | None]:
    owner, sid = check.uid(uid), check.session_id(session_id)
    yield CHECKED
    s = ctx.shard(owner)
    reply, *stored = yield [
        read_call(ctx, s, owner),
        *([_history_call(s, owner)] if ctx.settings.keep_sign_ins else []),
    ]
    live = [found.session() for found in found_rows(owner, reply) if found.state == LIVE]
    this = next((session for session in live if session.session_id == sid), None)
    if this is None:
        return None
    kept = read_sign_ins(stored[0]) if stored else []
    known: list[Record] = [*live]
    if not any(sign_in.at < this.login_at for sign_in in kept):
        known += yield from tombstones.ended(ctx, owner, None, None, None, None, tombstones.MAX_ENDED, None)
    logins = [SignIn.of_session(record) for record in known if record.on_behalf_by is None]
    before = [sign_in for sign_in in [*kept, *logins] if sign_in.at < this.login_at]
    return max(before, key=lambda sign_in: sign_in.at, default=None)
