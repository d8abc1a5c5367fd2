"""Note a sign-in that the site refused."""

from __future__ import annotations

from typing import Final, cast

from presence_core import validation as check
from presence_core.errors import InvalidArgument
from presence_core.keyspace import Shard
from presence_core.operations.context import Context
from presence_core.operations.failed_login_row import LONGEST_NAME, digests_of_names, name_kind, packed_failure
from presence_core.operations.known_devices import need_keys
from presence_core.schema.failures import SiteFailure
from presence_core.scripts.calls import CHECKED, Call, Op, call_of, checked_first
from presence_core.scripts.failures import NOTE_FAILURE

NO_UID: Final = "-"
"""Looked for in place of a text that is no uid, and never changed."""


@checked_first
def login_failed(
    ctx: Context, who: object, why: object, is_uid: object, ip: object, user_agent: object, app: object
) -> Op[None]:
    if not isinstance(who, str):
        raise InvalidArgument("who", "must be a uid, or the text that the visitor typed", "wrong_type")
    check.choice("why", why, SiteFailure)
    if not isinstance(is_uid, bool):
        raise InvalidArgument("is_uid", "must be True or False", "wrong_type")
    typed = check.uid(who) if is_uid else who[:LONGEST_NAME].strip()
    packed = ctx.visitor.address(ip)
    agent, app_name = ctx.visitor.user_agent(user_agent), ctx.visitor.label("app", app)
    yield CHECKED
    if not ctx.settings.keep_failed_logins:
        return
    yield from need_keys(ctx)
    address, place, reason = ctx.visitor.recorded(packed), ctx.place_of(packed), cast("SiteFailure", why)
    # Two calls for any name: their duration does not show a visitor whether there is such a person.
    failure = packed_failure(ctx, address, place, app_name, agent)
    is_possible = may_be_uid(typed)
    uid, mode = typed if is_possible else NO_UID, "always" if is_uid else "known" if is_possible else "never"
    shard = ctx.shard(uid)
    [reply] = yield [_call(ctx, shard, uid, (shard.failed, shard.failures(uid)), reason, failure, mode)]
    digest = digests_of_names((ctx.cache.device_keys[0],), (typed,)).pop()
    failure = packed_failure(ctx, address, place, app_name, agent, name_kind(typed))
    shard = ctx.shard(digest)
    keys = shard.failed_names, shard.failures_of_name(digest)
    yield [_call(ctx, shard, f"\n{digest}", keys, reason, failure, "never" if NOTE_FAILURE.reply(reply) else "always")]


def _call(
    ctx: Context, s: Shard, who: str, lists: tuple[str, str], why: SiteFailure, failure: bytes, mode: str
) -> Call:
    keys = (*lists, s.failed_from, s.totals, s.users, s.people, s.person(who), s.ended_of(who), s.known(who))
    return call_of(NOTE_FAILURE, keys, given_now=ctx.now, who=who, why=why, packed=failure, mode=mode)


def may_be_uid(typed: str) -> bool:
    """Whether a typed text can be the uid of anyone."""
    try:
        return bool(check.uid(typed))
    except InvalidArgument:
        return False
