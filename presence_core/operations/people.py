"""People, online or gone for not too long: the ticket is often from somebody who is offline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from presence_core import settings as check
from presence_core.errors import InvalidArgument
from presence_core.filters import SessionFilter, fold, starts, uid_of
from presence_core.keyspace import Shard
from presence_core.models import Person, moment, text
from presence_core.operations.context import Context
from presence_core.operations.planning import word_range
from presence_core.operations.reading import sessions_of
from presence_core.scripts import Op, command

LOOK: Final = 500
"""Entries of each kind that one search reads on each shard; of a text with more, some of the people."""


@dataclass(slots=True)
class _Candidate:
    shard: Shard
    uid: str
    seen: int = 0
    online: bool = False


def people(ctx: Context, wanted: object, limit: object) -> Op[list[Person]]:
    if wanted is None:
        raise InvalidArgument("text", "must be text of 1 to 256 bytes")
    SessionFilter(text=wanted)  # type: ignore[arg-type]  # its checks are the same
    return _people(ctx, str(wanted), check.whole("limit", limit, 1, 100))


def _people(ctx: Context, wanted: str, limit: int) -> Op[list[Person]]:
    needle = fold(wanted)
    ranges = [word_range(kind, needle) for kind in "una"]
    shards = ctx.keys.shards
    replies = yield [
        command(s.words, "ZRANGE", s.words, *ends, "BYLEX", "LIMIT", 0, LOOK) for s in shards for ends in ranges
    ]
    found: dict[str, _Candidate] = {wanted: _Candidate(ctx.shard(wanted), wanted)}  # the very uid, index or not
    for place, members in enumerate(replies):
        for entry in members:
            uid = uid_of(entry)
            found.setdefault(uid, _Candidate(shards[place // len(ranges)], uid))
    candidates = yield from _seen(list(found.values()))
    candidates.sort(key=lambda one: (one.uid == wanted, one.online, one.seen), reverse=True)
    out: list[Person] = []
    for one in candidates:
        if len(out) == limit:
            break
        person = yield from _person(ctx, one)
        if person and (person.uid == wanted or _matches(person, needle)):
            out.append(person)
    return out


def _seen(candidates: list[_Candidate]) -> Op[list[_Candidate]]:
    """Those who are online, or were not long ago."""
    by_shard: dict[Shard, list[_Candidate]] = {}
    for one in candidates:
        by_shard.setdefault(one.shard, []).append(one)
    replies = yield [
        command(key, "ZMSCORE", key, *(one.uid for one in some))
        for s, some in by_shard.items()
        for key in (s.users, s.people)
    ]
    for place, some in enumerate(by_shard.values()):
        for one, online, offline in zip(some, replies[2 * place], replies[2 * place + 1], strict=True):
            seen = online if online is not None else offline
            one.online = online is not None
            one.seen = -1 if seen is None else int(float(seen))
    return [one for one in candidates if one.seen >= 0]


def _person(ctx: Context, one: _Candidate) -> Op[Person | None]:
    if one.online:
        sessions = yield from sessions_of(ctx, one.uid)
        if sessions:  # the newest says what they are called; every name and alias of theirs finds them
            aliases = tuple(dict.fromkeys(alias for session in sessions for alias in session.aliases))
            names = tuple(dict.fromkeys(session.name for session in sessions if session.name))
            last = max(session.last_seen for session in sessions)
            return Person(one.uid, names[0] if names else None, (*aliases, *names[1:]), True, last, len(sessions))
    key = one.shard.person(one.uid)
    [row] = yield [command(key, "HMGET", key, "n", "a", lenient=True)]
    name, aliases_ = row or (None, None)
    known = tuple(text(aliases_).split("\n")) if aliases_ else ()
    return Person(one.uid, text(name) if name else None, known, False, moment(one.seen), 0)


def _matches(person: Person, needle: str) -> bool:
    texts = [text for one in (person.name or "", *person.aliases) for text in starts(fold(one))]
    return fold(person.uid).startswith(needle) or any(text.startswith(needle) for text in texts)
