"""Scripts that list, search and count sessions and users, and keep the indexes; each with the decoder of its reply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from presence_core.models import stored_number, text
from presence_core.scripts.calls import by_two, pairs, scored
from presence_core.scripts.script import Script, as_sent

INDEX_SESSIONS: Final = Script("search/rebuild/index_sessions", repeatable=True, reply=as_sent)
REMOVE_WORDS: Final = Script("search/rebuild/remove_words", repeatable=True, reply=as_sent)

REMOVE_ADDRESSES: Final = Script("search/rebuild/remove_addresses", repeatable=True, reply=as_sent)
REMOVE_IDP: Final = Script("search/rebuild/remove_idp", repeatable=True, reply=as_sent)
MEASURE_FACET_DRIFT: Final = Script("search/rebuild/measure_facet_drift", repeatable=True, reply=as_sent)


class PersonUpdated(NamedTuple):
    """A person who got another name or other aliases."""

    changed: int  #: live sessions
    stamp: str  #: of the call; "" if the person is neither online nor kept
    missing: list[str]  #: ids of live sessions that the call did not name
    former: list[tuple[bytes, bytes]]  #: former names, each with its aliases, one a line


def _decode_person(reply: Sequence[Any]) -> PersonUpdated:
    """Decode a reply of search/update_person.lua."""
    changed, stamp, missing, former = reply
    return PersonUpdated(changed, stamp.decode(), [text(sid) for sid in missing], list(by_two(former)))


UPDATE_PERSON: Final = Script("search/update_person", repeatable=False, reply=_decode_person)


class ListPart(NamedTuple):
    """One shard's part of the list, newest login first."""

    now: int
    live: int  #: live sessions of the shard
    flat: list[bytes]  #: ref, login ms, ref, …: most of them are on no page, so they are not decoded here
    is_exact: bool  #: the number of live sessions
    behind: tuple[bytes, bytes] | None  #: login ms and ref of the last entry that was read
    read: int  #: entries
    at_end: bool
    records: Sequence[Any] = ()  #: of each entry, as HGETALL returns it; empty where they are still to be read


def _decode_page(reply: Sequence[Any], size: int) -> ListPart:
    """Decode a reply of search/read_page.lua, which was asked for ``size`` entries."""
    now, live, flat, exact, records = reply
    return ListPart(now, live, flat, bool(exact), (flat[-1], flat[-2]) if flat else None, len(flat) // 2,
                    len(flat) < 2 * size, records)  # fmt: skip


READ_PAGE: Final = Script("search/read_page", repeatable=True, reply=_decode_page)


def _decode_walk(reply: Sequence[Any]) -> ListPart:
    """Decode a reply of search/walk_sessions.lua."""
    now, live, flat, last, read, at_end = reply
    ref, login = last or (b"", b"")
    return ListPart(now, live, flat, True, (login, ref) if last else None, int(read), bool(at_end))


WALK_SESSIONS: Final = Script("search/walk_sessions", repeatable=True, derives=True, reply=_decode_walk)


def _decode_refs(reply: Sequence[Any]) -> ListPart:
    """Decode a reply of search/scan_refs.lua. The part has no login times."""
    now, live, refs, last, at_end = reply
    ref, login = last or (b"", b"")
    return ListPart(now, live, refs, True, (login, ref) if last else None, len(refs), bool(at_end))


SCAN_REFS: Final = Script("search/scan_refs", repeatable=True, reply=_decode_refs)


class UsersPart(NamedTuple):
    """A part of one shard's users, last seen first."""

    now: int
    live: int  #: live sessions of the shard
    is_exact: bool  #: that number
    found: list[tuple[bytes, int, int | None]]  #: ref, last seen of it and of its user, ms; None: on behalf of the user
    behind: tuple[bytes, bytes] | None  #: last seen ms and uid of the last user that was read
    read: int  #: users
    at_end: bool
    records: Sequence[Any]  #: of each session, as HGETALL returns it, None where it is still to be read; or empty


def _decode_users(reply: Sequence[Any]) -> UsersPart:
    """Decode a reply of search/walk_users.lua."""
    now, live, is_exact, flat, last, read, at_end, records = reply
    parts = iter(flat)
    found = [
        (ref, int(seen), int(float(of_user)) if of_user else None)
        for ref, seen, of_user in zip(parts, parts, parts, strict=True)
    ]
    behind = (last[0], last[1]) if last else None
    return UsersPart(now, live, bool(is_exact), found, behind, int(read), bool(at_end), records)


WALK_USERS: Final = Script("search/walk_users", repeatable=True, derives=True, reply=_decode_users)


class IndexPart(NamedTuple):
    """A part of one shard's index. The times are those that were asked for: of the login, or when it was last seen."""

    now: int
    sure: list[tuple[bytes, int]]  #: ref and time, ms, of sessions that match
    unsure: list[tuple[bytes, int]]  #: the same of sessions that the client has to test
    rest: bytes  #: lower end of what is left to read; empty at the end
    read: int  #: entries


def _decode_index(reply: Sequence[Any]) -> IndexPart:
    """Decode a reply of search/read_index.lua."""
    now, sure, unsure, rest, read = reply
    return IndexPart(now, _scored(sure), _scored(unsure), rest, read)


READ_INDEX: Final = Script("search/read_index", repeatable=True, derives=True, reply=_decode_index)


def _scored(flat: Sequence[bytes]) -> list[tuple[bytes, int]]:
    return [(ref, int(time)) for ref, time in by_two(flat)]


class WordsPart(NamedTuple):
    """A part of a range of the index of words."""

    entries: list[bytes]  #: those that contain what was asked for
    rest: bytes  #: lower end of what is left to read; empty at the end
    read: int  #: entries


def _decode_words(reply: Sequence[Any]) -> WordsPart:
    """Decode a reply of search/read_words.lua."""
    return WordsPart._make(reply)


READ_WORDS: Final = Script("search/read_words", repeatable=True, reply=_decode_words)


class SimilarPart(NamedTuple):
    """Entries of the index of words that are like a text."""

    entries: list[tuple[int, bytes]]  #: each with its number of mistakes
    reads: int  #: of the index


def _decode_similar(reply: Sequence[Any]) -> SimilarPart:
    """Decode a reply of search/find_similar.lua."""
    flat, reads = reply
    return SimilarPart(list(by_two(flat)), reads)


FIND_SIMILAR: Final = Script("search/find_similar", repeatable=True, reply=_decode_similar)


class CandidateCounts(NamedTuple):
    """How many entries one shard's indexes have for a filter."""

    now: int
    listed: int  #: sessions in the list
    live: int
    inside: int  #: live sessions of the filter's time
    exactness: int  #: 1: nothing waits for a sweep or a tombstone, 2: ``inside`` is exact, 0: it is not
    sizes: list[int]  #: entries of each range
    facets: list[tuple[bytes, bytes]]
    indexes: bytes  #: those that are complete, separated by commas; b"-": as the layout says
    known_users: int  #: online, or in the last days: those whom the index of words may name

    @property
    def facets_are_whole(self) -> bool:
        """Facets count every session and no other: not where their key or a record was lost, until a repair."""
        counted = sum(stored_number(raw) or 0 for name, raw in self.facets if name[:1] in (b"c", b"C"))
        return counted == self.listed


def _decode_candidates(reply: Sequence[Any]) -> CandidateCounts:
    """Decode a reply of search/count_candidates.lua."""
    counts = CandidateCounts._make(reply)
    return counts._replace(facets=pairs(counts.facets))


COUNT_CANDIDATES: Final = Script("search/count_candidates", repeatable=True, reply=_decode_candidates)


class LiveCount(NamedTuple):
    """Who is online on one shard."""

    now: int
    sessions: int
    users: int  #: in the list: also those whose sessions all wait for a sweep
    swept: bytes  #: when a sweep last ran to its end, ms; empty for never
    totals: list[tuple[bytes, bytes]]  #: kind of event and how often, without the sessions that wait
    is_draining: bool


def _decode_live(reply: Sequence[Any]) -> LiveCount:
    """Decode the first values of a reply of search/count_live.lua."""
    now, sessions, users, swept, totals, draining, *_ = reply
    return LiveCount(now, sessions, users, swept, pairs(totals), bool(draining))


COUNT_LIVE: Final = Script("search/count_live", repeatable=True, derives=True, shares=True, reply=_decode_live)


class LivePage(NamedTuple):
    """Who is online on one shard, and a page of the sessions that wait for a sweep."""

    live: LiveCount
    upto: int  #: past their deadline at this time, ms
    due: int  #: how many there are
    killed: int  #: revoked sessions in the list
    read: int  #: sessions of the page
    late: int  #: those of them that a sweep will end as revoked
    early: int  #: those of them that were revoked after their deadline
    offline: dict[bytes, float]  #: users in the list without a live session, and when they were last seen, ms
    next_begin: tuple[bytes, bytes]  #: where the next page begins


def decode_live_page(reply: Sequence[Any]) -> LivePage:
    """Decode a reply of search/count_live.lua."""
    upto, due, killed, read, late, early, offline, score, ref = reply[6:]
    return LivePage(_decode_live(reply), upto, due, killed, read, late, early, dict(scored(offline)), (score, ref))


class WaitingFacets(NamedTuple):
    """A page of the sessions of one shard that have ended, but are counted until a sweep."""

    upto: int  #: past their deadline at this time, ms
    due: int  #: how many there are
    read: int  #: sessions of the page
    counted: list[tuple[bytes, int]]  #: facet and number
    next_begin: tuple[bytes, bytes]  #: where the next page begins


def _decode_waiting(reply: Sequence[Any]) -> WaitingFacets:
    """Decode a reply of search/count_waiting_facets.lua."""
    upto, due, read, counted, score, ref = reply
    return WaitingFacets(upto, due, read, list(by_two(counted)), (score, ref))


COUNT_WAITING_FACETS: Final = Script(
    "search/count_waiting_facets", repeatable=True, derives=True, reply=_decode_waiting
)


def _decode_hashes(reply: Sequence[bytes | None], fields: int) -> list[tuple[bytes | None, ...]]:
    """Decode a reply of search/rebuild/read_hashes.lua: the values of so many fields of each hash."""
    return list(zip(*[iter(reply)] * fields, strict=True))


READ_HASHES: Final = Script("search/rebuild/read_hashes", repeatable=True, derives=True, reply=_decode_hashes)


def _decode_recount(reply: int) -> bool:
    """Decode a reply of search/rebuild/recount_facets.lua: whether every listed session is counted."""
    return reply == 1


RECOUNT_FACETS: Final = Script("search/rebuild/recount_facets", repeatable=True, reply=_decode_recount)


class NewestPart(NamedTuple):
    """A part of a list by time, newest first."""

    now: int
    total: int  #: entries between the times that were asked for
    entries: list[tuple[bytes, bytes]]  #: member and time
    complete_from: int  #: ms; older entries may have been dropped


def _decode_newest(reply: Sequence[Any]) -> NewestPart:
    """Decode a reply of search/read_newest.lua."""
    now, total, flat, complete = reply
    return NewestPart(now, total, list(by_two(flat)), int(complete or 0))


READ_NEWEST: Final = Script("search/read_newest", repeatable=True, reply=_decode_newest)


class LastSeenPage(NamedTuple):
    """A page of a list by last seen."""

    seen: dict[bytes, float]  #: when each member was last seen
    next_begin: tuple[bytes, bytes]  #: score and member at which the next page begins; empty after the last


def decode_last_seen(reply: Sequence[Any]) -> LastSeenPage:
    """Decode a page of search/read_online_users.lua or trackers/read_last_seen.lua."""
    flat, score, member = reply
    return LastSeenPage(dict(scored(flat)), (score, member))


READ_ONLINE_USERS: Final = Script("search/read_online_users", repeatable=True, derives=True, reply=decode_last_seen)


def _decode_online(uids: Sequence[str], marks: bytes) -> set[str]:
    """Decode a reply of search/find_online.lua: those of ``uids`` that are online."""
    return {uid for uid, mark in zip(uids, marks, strict=True) if mark == ord("1")}


FIND_ONLINE: Final = Script("search/find_online", repeatable=True, derives=True, shares=True, reply=_decode_online)
