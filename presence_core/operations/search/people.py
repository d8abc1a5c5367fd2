"""Search people, online or seen recently: a ticket is often from a user who is offline. Their names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from presence_core import validation as check
from presence_core.errors import InvalidArgument
from presence_core.filters import SessionFilter
from presence_core.keyspace import Shard
from presence_core.models import Person, login_and_deadline, moment, text
from presence_core.operations.context import Context, FoundSession
from presence_core.operations.scan import scan_part
from presence_core.operations.search.online_users import BATCH, find_online_call
from presence_core.operations.search.planner import count_candidates, shard_ranges, text_ranges
from presence_core.operations.search.rebuild import IndexedUser, read_users
from presence_core.operations.search.word_index import find_users
from presence_core.operations.sessions.read import in_list_order, listed_sessions
from presence_core.scripts.calls import CHECKED, Op, checked_first, command
from presence_core.scripts.search import FIND_ONLINE
from presence_core.scripts.sessions import ENDED, LIVE
from presence_core.text.search_text import Needle, is_found, is_found_in_uid

MAX_FOUND: Final = 500
"""Entries of each range that one search takes on each shard. For a text with more it finds only some of the people."""

MAX_READ: Final = 100_000
"""Entries of a range that it reads to find those that contain several words."""

MAX_NAMED: Final = 1_000
"""Users in one call of ``names_of``."""

MAX_SESSIONS: Final = 20
"""Sessions of a user, newest first, that ``names_of`` reads to find a name."""

NEEDED: Final = frozenset(("uid", "name", "alias"))
"""The indexes that find people."""

ROUND: Final = 1_000
"""People that one step of a scan reads."""


@dataclass(slots=True)
class Candidate:
    """A user who may be found."""

    shard: Shard
    uid: str
    seen: int = 0
    online: bool = False
    is_listed: bool = False  #: among the users with sessions; until a sweep, all of these may be past their deadline


@checked_first
def people(ctx: Context, wanted: object, limit: object) -> Op[list[Person]]:
    if wanted is None:
        raise InvalidArgument("text", "must be text of 1 to 256 bytes", "wrong_type")
    session_filter = SessionFilter(text=wanted)  # type: ignore[arg-type]  # its checks are the same
    sought, most = str(session_filter.text), check.whole("limit", limit, 1, 100)
    yield CHECKED
    needles = session_filter.needles
    exact = (sought, *session_filter.text_owners)  # these uids, with or without an index
    found: dict[str, Candidate] = {uid: Candidate(ctx.shard(uid), uid) for uid in exact}
    for shard, uid in (yield from _find_uids(ctx, session_filter, most)):
        found.setdefault(uid, Candidate(shard, uid))
    candidates = yield from seen_recently(ctx, list(found.values()))
    candidates.sort(key=lambda found: (found.uid in exact, found.online, found.seen), reverse=True)
    out: list[Person] = []
    for candidate in candidates:
        if len(out) == most:
            break
        person = yield from person_of(ctx, candidate)
        if person and (person.uid in exact or has_needle(person, needles)):
            out.append(person)
    return out


def _find_uids(ctx: Context, session_filter: SessionFilter, limit: int) -> Op[list[tuple[Shard, str]]]:
    """Users who may match, and their shards, by the index of words; until ``reindex`` has completed it, by a scan."""
    ranges = text_ranges(session_filter.needles)
    if not ranges:
        return []
    counts = yield from count_candidates(ctx, session_filter, ranges)
    if not ctx.cache.complete >= NEEDED and set(ctx.settings.indexes) >= NEEDED:
        return (yield from _scan_people(ctx, session_filter.needles, limit))
    users = yield from find_users(shard_ranges(ctx, counts, ranges, ranges), MAX_FOUND, MAX_READ)
    return [(shard, text(uid)) for shard, uids in users.items() for uid in uids]


def _scan_people(ctx: Context, needles: tuple[Needle, ...], limit: int) -> Op[list[tuple[Shard, str]]]:
    """The same without an index: reads all people, those online first, until there are enough."""
    found: list[tuple[Shard, str]] = []
    shards = ctx.keys.shards
    for shard, key in [*((s, s.users) for s in shards), *((s, s.people) for s in shards)]:
        cursor, is_done = b"0", False
        while not is_done and len(found) < limit:
            cursor, part = yield from scan_part("ZSCAN", key, cursor, ROUND)
            users = yield from read_users(shard, [text(uid) for uid, _ in part])
            found += [(shard, user.uid) for user in users if _user_matches(user, needles)]
            is_done = cursor == b"0"
    return found


def _user_matches(user: IndexedUser, needles: tuple[Needle, ...]) -> bool:
    known = [user.person, *user.sessions.values()]
    names = [
        *(text(names.name) for names in known),
        *(line for names in known for line in text(names.aliases).split("\n")),
    ]
    return _has(needles, user.uid, names)


def seen_recently(ctx: Context, candidates: list[Candidate]) -> Op[list[Candidate]]:
    """Those who are online, or were recently."""
    parts = ctx.parts(candidates, lambda candidate: candidate.uid, BATCH)
    replies = yield [
        call
        for s, part in parts
        for uids in [[candidate.uid for candidate in part]]
        for call in (
            find_online_call(ctx, s, uids),
            command(s.users, "ZMSCORE", s.users, *uids),
            command(s.people, "ZMSCORE", s.people, *uids),
        )
    ]
    for at, (_, part) in enumerate(parts):
        marks, listed, offline = replies[3 * at : 3 * at + 3]
        online = FIND_ONLINE.reply([candidate.uid for candidate in part], marks)
        for candidate, *scores in zip(part, listed, offline, strict=True):
            known = [score for score in scores if score is not None]
            candidate.seen = int(float(known[0])) if known else -1
            candidate.is_listed, candidate.online = scores[0] is not None, candidate.uid in online
    return [candidate for candidate in candidates if candidate.seen >= 0]


def person_of(ctx: Context, candidate: Candidate) -> Op[Person | None]:
    uid = candidate.uid
    sessions = (yield from listed_sessions(ctx, uid)) if candidate.is_listed else []
    live = in_list_order(found.session() for found in sessions if found.state == LIVE)
    own = [session for session in live if session.on_behalf_by is None]
    if own:  # the newest session has the name to show; all names and aliases find the person
        aliases = tuple(dict.fromkeys(alias for session in own for alias in session.aliases))
        names = tuple(dict.fromkeys(session.name for session in own if session.name))
        last = max(session.last_seen for session in own)
        return Person(uid, names[0] if names else None, (*aliases, *names[1:]), True, last, len(own))
    key = candidate.shard.person(uid)
    [row] = yield [command(key, "HMGET", key, "n", "a", lenient=True)]
    name, raw_aliases = row or (None, None)
    for found in sorted((found for found in sessions if found.state == ENDED), key=_end_place):
        name, raw_aliases = found.row.name or name, found.row.aliases or raw_aliases
    known = tuple(text(raw_aliases).split("\n")) if raw_aliases else ()
    return Person(uid, text(name) if name else None, known, False, moment(candidate.seen), 0)


def _end_place(found: FoundSession) -> tuple[bool, int, str]:
    """The place of a session that waits for a sweep in the order in which it ends them: the last name is kept. Those of
    ``revoke_before`` come last, by login."""
    is_revoked, times = bool(found.row.end_reason), login_and_deadline(found.row) or (0, 0)
    return is_revoked, times[not is_revoked], found.session_id


def has_needle(person: Person, needles: tuple[Needle, ...]) -> bool:
    return _has(needles, person.uid, (person.name or "", *person.aliases))


def _has(needles: tuple[Needle, ...], uid: str, names: Iterable[str]) -> bool:
    """``names``: and aliases, one of which may be the name of another session."""
    return is_found_in_uid(needles, uid) or any(is_found(needles, name, is_name=True) for name in names)


@checked_first
def names_of(ctx: Context, uids: object) -> Op[dict[str, str]]:
    wanted = check.uids(uids, MAX_NAMED)
    yield CHECKED
    if not wanted:
        return {}
    users = [(ctx.shard(uid), uid) for uid in wanted]
    replies = yield [
        call
        for s, uid in users
        for call in (
            command(s.person(uid), "HGET", s.person(uid), "n", lenient=True),
            command(s.user(uid), "SMEMBERS", s.user(uid), lenient=True),
        )
    ]
    known = dict(zip(wanted, replies[::2], strict=True))
    online = [
        (s, uid, [text(sid) for sid in sids]) for (s, uid), sids in zip(users, replies[1::2], strict=True) if sids
    ]
    sessions = yield from _newest_sessions(online)
    if sessions:
        names = yield [command(key, "HGET", key, "n", lenient=True) for _, key in sessions]
        newest_last = zip(reversed(sessions), reversed(names), strict=True)
        known |= {uid: name for (uid, _), name in newest_last if name}  # of a user's sessions, the newest is last
    return {uid: text(name) for uid, name in known.items() if name}


def _newest_sessions(users: list[tuple[Shard, str, list[str]]]) -> Op[list[tuple[str, str]]]:
    """The uid and the record's key of the listed sessions of each user, newest login first."""
    if not users:
        return []
    logins = yield [
        command(s.sessions, "ZMSCORE", s.sessions, *(f"{uid}:{sid}" for sid in sids)) for s, uid, sids in users
    ]
    found: list[tuple[str, str]] = []
    for (shard, uid, sids), scores in zip(users, logins, strict=True):
        listed = sorted(
            ((float(score), sid) for sid, score in zip(sids, scores, strict=True) if score is not None), reverse=True
        )
        found += [(uid, shard.record(uid, sid)) for _, sid in listed[:MAX_SESSIONS]]
    return found
