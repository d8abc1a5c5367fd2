"""Choose the cheapest way to the sessions that match a filter.

An index is read to its end and put in order: all matches are known, so the total is exact. The list is scanned from the
newest until a page is full, sometimes for the users that an index names. docs/lookup/search.md has all ways. The
indexes say how many entries a range has, in O(log N), and facets how many sessions a value has. The rest is arithmetic,
with costs that were measured.

``plan`` fetches the counts, ``estimate`` computes how many match, ``_cheapest`` chooses, ``_build`` makes the route.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha1
from math import prod
from typing import Final, NamedTuple

from presence_core.filters import SessionFilter
from presence_core.keyspace import Shard
from presence_core.models import ListOrder, Plan, WayName
from presence_core.operations.context import Context
from presence_core.operations.search.facets import LabelTest, asks_facets, label_test, learn_labels, wanted_ids
from presence_core.schema.conditions import CONDITIONS, PLACE_FIELDS
from presence_core.scripts.calls import Op, call_of
from presence_core.scripts.search import COUNT_CANDIDATES, CandidateCounts
from presence_core.text.search_text import CUT, ID_START, TAIL, Needle, compact, fold, id_digest, spellings

WALK_US: Final = 3.5
WALK_NAME_US: Final = 5.0
WALK_TEXT_US: Final = 12.0
"""µs of the server for each session of the list that is tested: without text, its name, all its text."""

GATHER_US: Final = {"words": 16.0, "addresses": 2.0, "ids": 2.0, "idp": 2.0}
CONTAINS_US: Final = 0.7
"""The same for each entry of a range, with its sessions; and where only entries count that contain some pieces."""

USERS_US: Final = 1.8
SCAN_US: Final = 1.0
TEST_US: Final = 30.0
"""µs of server and client for a scan for the users of a word: for each entry of the index, each entry of the list, and
each session of these users."""

MATCH_US: Final = 8.0
"""The same for each user that an entry names, where every entry is compared."""

USER_US: Final = 3.0
REORDER_US: Final = 5.0
"""By last seen: µs for each user that is walked, and for each match that is read to be put in order."""

MAX_REORDERED: Final = 20_000
"""Entries of the list that one call reads to put all that match in order, by last seen."""

MAX_GATHERED: Final = 100_000
"""Entries that one call reads of an index to find users or sessions; for a longer range the list is scanned."""

Tests = Sequence[str | bytes | int]
"""Names and values for ``include/search/filter_tests.lua``."""


class Range(NamedTuple):
    """A range of an index. Lower and upper end as ZRANGE BYLEX takes them; of session ids, digest and id, or
    its start and an asterisk."""

    kind: str  #: "words", "addresses", "ids" or "idp"; "sessions": no range, but refs, one a line
    low: bytes
    high: bytes
    pieces: tuple[str, ...] = ()  #: an entry of words must contain these
    words: tuple[str, ...] = ()  #: of a search for several words, in any order

    @property
    def cost(self) -> float:
        """µs of the server for each entry."""
        return CONTAINS_US if self.pieces else GATHER_US[self.kind]

    @property
    def wire(self) -> bytes:
        """The pieces as scripts take them."""
        return "".join(f"\0{piece}" for piece in self.pieces).encode()


class ShardRange(NamedTuple):
    """A range to be read of one shard's index."""

    shard: Shard
    range: Range


@dataclass(slots=True)
class Route:
    """How the sessions are found."""

    plan: Plan
    tests: dict[Shard, Tests]
    now: int  #: ms
    ranges: list[ShardRange] | None = None  #: where an index drives: what is read
    scans_users: bool = False  #: the ranges name users; the list is scanned for their sessions
    gathers_list: bool = False  #: by last seen: all matches of the list are read, and put in order
    fallback: Route | None = None  #: used if a scan finds too few matches
    inside: int = 0  #: sessions of the part of the list that a scan would read
    total: int = 0  #: of matches, estimated
    total_is_exact: bool = False
    is_empty: bool = False  #: facets are sure that nothing matches


class Way(NamedTuple):
    """A way to the sessions, and its cost."""

    name: WayName
    rows: int  #: entries to be read
    cost: float  #: µs
    scans_users: bool = False
    gathers_list: bool = False


@dataclass(slots=True)
class Estimate:
    """What the counts of all shards say."""

    listed: int  #: sessions in the list
    inside: int  #: live sessions of the filter's time
    matches: float
    rows: dict[WayName, int]  #: entries to be read, by index
    costs: dict[WayName, float]  #: µs for that
    no_label_matches: bool = False  #: no label in use matches, and all labels are known


def word_range(kind: str, needle: str, pieces: tuple[str, ...] = (), words: tuple[str, ...] = ()) -> Range:
    raw = kind.encode() + needle.encode()[:CUT]
    return Range("words", b"[" + raw, b"(" + raw + b"\xff", pieces, words)


def text_ranges(found: Iterable[Needle]) -> list[Range]:
    """The entries of words that may have one of these needles; none where the index cannot say.

    A name with some words in any order has for each of them an entry that begins with it, and contains the others: see
    ``rarest``.
    """
    ranges: list[Range] = []
    for needle in found:
        if not needle.text:
            return []
        ranges += [word_range(kind, needle.text) for kind in "una"]
        for word in needle.words:
            others = tuple(other for other in needle.words if other != word)
            ranges.append(word_range("n", word, others, needle.words))
        if needle.tail:
            ranges.append(word_range("t", needle.tail[-TAIL:]))
    return list(dict.fromkeys(ranges))


def rarest(way: list[Range], size_of: Mapping[Range, int]) -> list[Range]:
    """What is read of a way: of several words in any order, only the entries of the one that fewest names have."""
    left = [item for item in way if not item.words]
    for words in dict.fromkeys(item.words for item in way if item.words):
        group = [item for item in way if item.words == words]
        enough = [item for item in group if not any(_overlaps(piece, item) for piece in item.pieces)]
        left += [min(enough, key=size_of.__getitem__)] if enough else group
    return left


def _overlaps(word: str, item: Range) -> bool:
    """Whether a word may begin before the place where the entries of a range begin, and end behind it: so "maria" does
    in "Mari Adams", of which the entry of "adams" does not show it."""
    own = item.low[2:].decode("utf-8", "ignore")
    return any(word[at:].startswith(own) or own.startswith(word[at:]) for at in range(1, len(word)))


def name_piece(value: str) -> str:
    """Text of ``name_prefix`` or ``name_contains`` as entries of a name have it."""
    return compact(spellings(fold(value))[0])


def address_range(block: tuple[bytes, bytes]) -> Range:
    return Range("addresses", b"[" + block[0], b"(" + block[1] + b"\xff")


def idp_range(session_filter: SessionFilter) -> Range | None:
    """The entries of a session or a user of an identity provider, as include/search/idp_entries.lua writes them."""
    issuer, session, subject = session_filter.idp_issuer, session_filter.idp_session, session_filter.idp_subject
    value = session or subject
    if not issuer or not value:
        return None
    digest = sha1(f"{issuer}\n{value}".encode(), usedforsecurity=False).hexdigest()[:16]
    entry = f"{'s' if session else 'u'}{digest}".encode()
    return Range("idp", b"[" + entry, b"(" + entry + b"\xff")


def needed_indexes(session_filter: SessionFilter) -> dict[WayName, set[str]]:
    """The indexes that each way to the sessions of a filter needs."""
    needed: dict[WayName, set[str]] = {}
    if session_filter.text is not None:
        needed["text"] = {"uid", "name", "alias", *(["ip"] if session_filter.text_addresses else [])}
    if session_filter.name_prefix is not None or session_filter.name_contains is not None:
        needed["name"] = {"name"}
    if session_filter.addresses:
        needed["ip"] = {"ip"}
    if idp_range(session_filter):
        needed["idp"] = {"idp"}
    return needed


def ranges_of(complete: Collection[str], session_filter: SessionFilter, shards: int = 1) -> dict[WayName, list[Range]]:
    """By index: its ranges. ``shards``: how many there are. Only where every index that is needed is complete."""
    usable = {name for name, indexes in needed_indexes(session_filter).items() if indexes <= set(complete)}
    ranges: dict[WayName, list[Range]] = {}
    if "text" in usable and (words := text_ranges(session_filter.needles)):
        ranges["text"] = words
        if session_filter.text_addresses:
            words.append(address_range(session_filter.text_addresses))
        for session_id in session_filter.text_sessions:
            words.append(Range("ids", id_digest(session_id, shards), session_id.encode()))
        for start in session_filter.text_session_starts:
            words.append(Range("ids", id_digest(start[:ID_START], shards), f"{start}*".encode()))
    if (
        "name" in usable
        and session_filter.name_prefix is not None
        and (piece := name_piece(session_filter.name_prefix))
    ):
        ranges["name"] = [word_range("n", piece)]
    if "ip" in usable and session_filter.addresses:
        ranges["ip"] = [address_range(session_filter.addresses)]
    if "idp" in usable and (links := idp_range(session_filter)):
        ranges["idp"] = [links]
    return ranges


def login_range(session_filter: SessionFilter) -> tuple[int | str, int]:
    """Login before, and at or after, ms, as scripts take them."""
    return "" if session_filter.before is None else session_filter.before, session_filter.after or 0


def plan(ctx: Context, session_filter: SessionFilter, need: int | None, order: ListOrder = "login") -> Op[Route]:
    """``need``: how many matches are wanted; None for all."""
    ranges = ranges_of(ctx.cache.complete, session_filter, len(ctx.keys.shards))
    counted = [found for way in ranges.values() for found in way]
    counts = yield from count_candidates(ctx, session_filter, counted)
    usable = ranges_of(ctx.cache.complete, session_filter)
    ranges = {name: _named(counts, counted, way) for name, way in ranges.items() if name in usable}
    labels = yield from _label_tests(ctx, session_filter, counts)
    excluded = yield from _label_tests(ctx, session_filter.without, counts)
    estimated = estimate(counts, counted, ranges, labels)
    best = _cheapest(session_filter, ranges, estimated, need, order)
    ways = set() if best.name == "last_seen" else {"login", "uid"}  # ranges of the list; users are walked without one
    if best.name == "ip":
        ways.add("ip")  # the entries are the addresses
    tests = _shard_tests(ctx.keys.shards, session_filter, labels, excluded, ways)
    route = _build(ctx, session_filter, best, estimated, tests, counts[0].now)
    route.plan = replace(route.plan, incomplete=_incomplete(ctx, session_filter))
    if best.name in ranges:
        route.ranges = shard_ranges(ctx, counts, counted, ranges[best.name])
    _set_total(route, session_filter, estimated, counts)
    return route


# -- fetch ------------------------------------------------------------------------------------------------------------


def _incomplete(ctx: Context, session_filter: SessionFilter) -> tuple[str, ...]:
    """The indexes that the settings name and the filter would use, which ``reindex`` still has to complete."""
    needed = set().union(*needed_indexes(session_filter).values())
    return tuple(name for name in ctx.settings.indexes if name in needed and name not in ctx.cache.complete)


def count_candidates(ctx: Context, session_filter: SessionFilter, ranges: list[Range]) -> Op[list[CandidateCounts]]:
    """How many entries each shard has for a filter. The context then knows which indexes are complete."""
    before, after = login_range(session_filter)
    reads_facets = asks_facets(session_filter) or asks_facets(session_filter.without)
    ends = [end for item in ranges for end in (item.kind, item.low, item.high)]
    replies = yield [
        call_of(COUNT_CANDIDATES, (s.sessions, s.deadlines, s.closing, s.meta, s.words, s.addresses, s.facets, s.ids,
                                   s.users, s.people, s.idp),
                ctx.now, after, before, 1 if reads_facets else 0, *ends)
        for s in ctx.keys.shards
    ]  # fmt: skip
    counts = [COUNT_CANDIDATES.reply(reply) for reply in replies]
    stored = {count.indexes for count in counts} - {b"-"}
    if stored:  # a rebuild may have changed the indexes since this client began
        ctx.know_indexes(stored)
    return counts


def shard_ranges(
    ctx: Context, counts: list[CandidateCounts], counted: list[Range], ranges: list[Range]
) -> list[ShardRange]:
    """The ranges to be read that have entries: most of many shards have none for a name."""
    read = rarest(ranges, sizes_of(counts, counted))
    return [
        ShardRange(shard, item)
        for shard, count in zip(ctx.keys.shards, counts, strict=True)
        for item in read
        if count.sizes[counted.index(item)]
    ]


def sizes_of(counts: list[CandidateCounts], counted: list[Range]) -> dict[Range, int]:
    """Entries of each range, of all shards together."""
    return dict(zip(counted, map(sum, zip(*(count.sizes for count in counts), strict=True)), strict=True))


def _named(counts: list[CandidateCounts], counted: list[Range], way: list[Range]) -> list[Range]:
    """A way without session ids that no shard has: any long word may be one, and only ranges of words name users."""
    size_of = sizes_of(counts, counted)
    return [item for item in way if item.kind != "ids" or size_of[item]]


def _label_tests(
    ctx: Context, session_filter: SessionFilter | None, counts: list[CandidateCounts]
) -> Op[list[LabelTest]]:
    """For each shard, the labels that match; empty where the filter asks for none."""
    if session_filter is None or not asks_facets(session_filter):
        return []
    shards = ctx.keys.shards
    yield from learn_labels(
        ctx, [(s, wanted_ids(session_filter, count.facets)) for s, count in zip(shards, counts, strict=True)]
    )
    return [label_test(ctx, s, session_filter, count.facets) for s, count in zip(shards, counts, strict=True)]


# -- decide -----------------------------------------------------------------------------------------------------------


def estimate(
    counts: list[CandidateCounts],
    counted: list[Range],
    ranges: dict[WayName, list[Range]],
    labels: list[LabelTest],
) -> Estimate:
    """How many sessions match, if conditions are independent. ``counted``: the ranges whose sizes were counted."""
    listed, inside = sum(count.listed for count in counts), sum(count.inside for count in counts)
    size_of = sizes_of(counts, counted)
    read = {name: rarest(way, size_of) for name, way in ranges.items()}
    rows = {name: sum(size_of[item] for item in way) for name, way in read.items()}
    costs = {name: sum(size_of[item] * item.cost for item in way) for name, way in read.items()}
    known_users = sum(count.known_users for count in counts)
    numbers = [_matches(way, size_of, listed, known_users) for way in ranges.values()]
    no_label_matches = False
    for kind in ("client", "agent", *PLACE_FIELDS):
        tests = [label for label in labels if kind in label.counts]
        if tests:
            number = sum(label.counts[kind] for label in tests)
            numbers.append(number)
            is_known = all(kind in PLACE_FIELDS or (label.sure and not label.ids[kind]) for label in tests)
            no_label_matches = no_label_matches or (not number and is_known)
    share = prod(min(1.0, number / max(1, listed)) for number in numbers)
    return Estimate(listed, inside, inside * share, rows, costs, no_label_matches)


def _matches(way: list[Range], size_of: dict[Range, int], listed: int, known_users: int) -> float:
    """How many sessions an index finds. Entries of words name users, of whom some are offline. Those of several words
    have all of them."""
    sessions_of_user = listed / max(1, known_users)
    numbers = {item: size_of[item] * (sessions_of_user if item.kind == "words" else 1) for item in way}
    shares: dict[tuple[str, ...], float] = {}
    for item, number in numbers.items():
        if item.words:
            shares[item.words] = shares.get(item.words, 1.0) * min(1.0, number / max(1, listed))
    return listed * sum(shares.values()) + sum(number for item, number in numbers.items() if not item.words)


def _cheapest(
    session_filter: SessionFilter,
    ranges: dict[WayName, list[Range]],
    estimated: Estimate,
    need: int | None,
    order: ListOrder,
) -> Way:
    """The way that costs least. Of equals, the one that has an exact total."""
    inside, by_login, walk_us = estimated.inside, order == "login", _walk_us(session_filter)
    walked = inside if need is None else min(inside, need * inside / max(estimated.matches, 0.5))
    ways = []
    for name, number in estimated.rows.items():
        if number > MAX_GATHERED:
            continue
        ways.append(Way(name, number, estimated.costs[name]))
        if by_login and all(item.kind == "words" for item in ranges[name]):
            tested = walked * min(1.0, number / max(1, estimated.listed))
            cost = number * USERS_US + walked * SCAN_US + tested * TEST_US
            ways.append(Way(name, number, cost, scans_users=True))
    index: WayName = "login" if session_filter.after or session_filter.before else "list"
    if by_login:
        ways.append(Way(index, round(walked), walked * walk_us))
        return min(ways, key=lambda way: way.cost)
    if inside <= MAX_REORDERED:
        ways.append(Way(index, inside, inside * walk_us + estimated.matches * REORDER_US, gathers_list=True))
    # Its users are walked also outside of the filter's time.
    walked *= max(1.0, estimated.listed / max(1, inside))
    ways.append(Way("last_seen", round(walked), walked * (walk_us + USER_US)))
    return min(ways, key=lambda way: way.cost)


def _walk_us(session_filter: SessionFilter) -> float:
    if session_filter.text is not None:
        return WALK_TEXT_US
    return WALK_US if session_filter.name_prefix is None else WALK_NAME_US


def _set_total(route: Route, session_filter: SessionFilter, estimated: Estimate, counts: list[CandidateCounts]) -> None:
    facets_are_whole = all(count.facets_are_whole for count in counts) if asks_facets(session_filter) else False
    exactness = [count.exactness for count in counts]
    route.total = round(estimated.matches)
    if all(CONDITIONS[name].way == "login" for name in session_filter.given):
        route.total, route.total_is_exact = estimated.inside, 0 not in exactness
    elif len(session_filter.given) == 1 and set(exactness) == {1}:
        route.total_is_exact = facets_are_whole
    route.is_empty = estimated.no_label_matches and facets_are_whole


# -- build ------------------------------------------------------------------------------------------------------------


def _build(
    ctx: Context,
    session_filter: SessionFilter,
    best: Way,
    estimated: Estimate,
    tests: dict[Shard, Tests],
    now: int,
) -> Route:
    residual = tuple(name for name in session_filter.given if best.scans_users or CONDITIONS[name].way != best.name)
    plan = Plan(best.name, best.rows, round(estimated.matches), residual)
    chosen = Route(
        plan, tests, now, scans_users=best.scans_users, gathers_list=best.gathers_list, inside=estimated.inside
    )
    is_scan = best.name in ("list", "login", "last_seen")
    if is_scan and session_filter.name_contains is not None and "name" in ctx.cache.complete:
        piece = name_piece(session_filter.name_contains)
        if piece:
            chosen.fallback = replace(
                chosen,
                plan=replace(chosen.plan, index="name", rows=estimated.listed, tests=session_filter.given),
                ranges=[ShardRange(shard, word_range("n", "", (piece,))) for shard in ctx.keys.shards],
            )
    return chosen


def _shard_tests(
    shards: Sequence[Shard],
    session_filter: SessionFilter,
    labels: list[LabelTest],
    excluded: list[LabelTest],
    ways: Collection[str],
) -> dict[Shard, Tests]:
    """labels, excluded: of the filter and of its ``without``, for each shard; empty where it asks for none. ways: to
    sessions, which have been tested for these conditions already."""
    common = _tests(session_filter, ways)
    inner = _tests(session_filter.without, ()) if session_filter.without else {}
    tests: dict[Shard, Tests] = {}
    for at, shard in enumerate(shards):
        own = common | (labels[at].ids if labels else {})
        own |= {f"not:{name}": value for name, value in (inner | (excluded[at].ids if excluded else {})).items()}
        tests[shard] = [word for pair in own.items() for word in pair]
    return tests


def _tests(session_filter: SessionFilter, ways: Collection[str]) -> dict[str, str | bytes | int]:
    """The conditions of a filter, but for labels, as include/search/filter_tests.lua takes them."""
    sent: dict[str, str | bytes | int] = {}
    flags = 0
    for name in session_filter.given:
        if CONDITIONS[name].way not in ways:
            sent |= CONDITIONS[name].sends(getattr(session_filter, name))
            flags |= int(sent.pop("flags", 0))
    if flags:
        sent["flags"] = flags
    return sent
