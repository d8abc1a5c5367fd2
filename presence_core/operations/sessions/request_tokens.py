"""The tokens of one request, which may name several sessions: which of them counts, and the end of all that live."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from presence_core import validation as check
from presence_core.models import Validation
from presence_core.operations.context import Context
from presence_core.operations.sessions.end import logout
from presence_core.operations.sessions.validate import RequestSource, judge, parse_token, validate, validate_call
from presence_core.scripts import sessions as scripts
from presence_core.scripts.calls import Op

_NOT_ENDED: Final = {scripts.LIVE, scripts.SIGN_IN_REQUIRED, scripts.AUTHENTICATION_TOO_OLD}
_UNKNOWN: Final = scripts.VALIDATE.reply([scripts.UNKNOWN])


class Chosen(NamedTuple):
    """The token that counts for the request."""

    place: int  #: among the tokens
    validation: Validation
    live: int | None  #: the place of the first session that has not ended
    is_kick: bool  #: the session of the token was kicked


def choose(
    ctx: Context, tokens: Sequence[str], uid: str | None, max_age: object, *, first_end_counts: bool
) -> Op[Chosen]:
    """Validate several tokens of one request, none of which counts as seen. Only sessions of ``uid`` count, if given.

    A kicked session counts before all others: a kick never falls through to another token. Otherwise the first session
    that has not ended counts, then the first that has. ``first_end_counts``: an end of the first token's session also
    counts before the others. Cost: one round trip; one more to read why the session ended.
    """
    limit = check.max_age(max_age)
    named = [parse_token(token) for token in tokens]
    shards = [ctx.shard(owner) for owner, _, _ in named]
    raw = yield [
        validate_call(ctx, shard, owner, sid, digest, False, RequestSource(), limit)
        for shard, (owner, sid, digest) in zip(shards, named, strict=True)
    ]
    replies = [
        scripts.VALIDATE.reply(reply) if uid in (None, owner) else _UNKNOWN
        for reply, (owner, _, _) in zip(raw, named, strict=True)
    ]
    live = next((place for place, reply in enumerate(replies) if reply.state in _NOT_ENDED), None)
    ended = [place for place, reply in enumerate(replies) if reply.state == scripts.ENDED]
    kicked = next((place for place in ended if replies[place].row.end_reason == b"kicked"), None)
    if kicked is not None:
        place = kicked
    elif live is not None and not (first_end_counts and 0 in ended):
        place = live
    else:
        place = ended[0] if ended else 0
    owner, sid, _ = named[place]
    validation = yield from judge(ctx, shards[place], owner, sid, replies[place])
    return Chosen(place, validation, live, kicked is not None)


def validate_tokens(
    ctx: Context, tokens: Sequence[str], touch: bool, ip: object, max_age: object, user_agent: object = None, *,
    first_end_counts: bool,
) -> Op[Validation]:  # fmt: skip
    """The Validation of the token that counts (``choose``). Cost: one round trip more if a live session is touched."""
    chosen = yield from choose(ctx, tokens, None, max_age, first_end_counts=first_end_counts)
    if not touch or not chosen.validation:
        return chosen.validation
    return (yield from validate(ctx, tokens[chosen.place], True, ip, max_age, user_agent))


def logout_named(ctx: Context, tokens: Sequence[str], *, on_behalf: bool) -> Op[int]:
    """End every session that these tokens name and that has not ended; returns how many. ``on_behalf``: also those that
    staff have on behalf of a user. Cost: one round trip, and one for each session."""
    named = [parse_token(token) for token in tokens]
    raw = yield [
        validate_call(ctx, ctx.shard(owner), owner, sid, digest, False, RequestSource(), "")
        for owner, sid, digest in named
    ]
    count = 0
    for (owner, sid, _), reply in zip(named, raw, strict=True):
        if scripts.VALIDATE.reply(reply).state in _NOT_ENDED and (on_behalf or not check.is_on_behalf(sid)):
            count += yield from logout(ctx, owner, sid)
    return count
