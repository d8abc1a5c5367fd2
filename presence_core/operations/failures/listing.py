"""Sign-ins that failed, newest first: of everyone, or of one person or typed name; and the networks they are from."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Any, Final, cast

from presence_core import validation as check
from presence_core.errors import InvalidArgument
from presence_core.keyspace import Shard, split_ref
from presence_core.models import Page, moment, text
from presence_core.models.failures import FailedLogin, FailedNetwork, last_failure, network_in_words
from presence_core.operations.context import Context
from presence_core.operations.cursors import make_cursor, read_cursor
from presence_core.operations.failed_login_row import digests_of_names, kept_seconds
from presence_core.operations.failures.record import may_be_uid
from presence_core.operations.known_devices import need_keys
from presence_core.operations.merged_lists import Entry, MergedLists, MergePart, ZsetPart, is_zset_position, scan, whole
from presence_core.operations.search.people import Candidate, person_of, seen_recently
from presence_core.schema.failures import FailureWhy
from presence_core.scripts.calls import CHECKED, Call, Op, checked_first, command, pairs
from presence_core.text.addresses import parse_network

LOOKED_AT_ONCE: Final = 200
"""Rows that are read at once where not every one matches."""


@dataclass(frozen=True, slots=True)
class _FailureFilter:
    """Conditions; None for any."""

    uid: str | None
    ip: str | None
    why: FailureWhy | None
    since: int | None  #: ms
    before: int | None

    @property
    def values(self) -> list[Any]:
        return [self.uid, self.ip, self.why, self.since, self.before]

    @property
    def is_plain(self) -> bool:
        """Whether every failure in the period matches."""
        return self.ip is self.why is None

    def matches(self, failure: FailedLogin) -> bool:
        """Whether reason and address are as wanted; the times are bounds of the list."""
        if self.why is not None and failure.why != self.why:
            return False
        if self.ip is None:
            return True
        return failure.ip is not None and ip_address(failure.ip) in ip_network(self.ip)


@checked_first
def failed_logins(
    ctx: Context,
    uid: object,
    ip: object,
    why: object,
    since: object,
    until: object,
    limit: object,
    cursor: object,
) -> Op[Page[FailedLogin]]:
    if uid is not None and (not isinstance(uid, str) or not uid.strip()):
        raise InvalidArgument("uid", "must be a uid, or a name that was typed", "wrong_type")
    wanted = _FailureFilter(
        None if uid is None else str(uid).strip()[:1_000],
        None if ip is None else _network(ip),
        None if why is None else _why(why),
        *check.period(since, until),
    )
    size = check.whole("limit", limit, 1, 1000)
    seen, behind = read_cursor(cursor, "failed_logins", wanted.values, is_zset_position)
    yield CHECKED
    rows = dict[bytes, bytes]()
    parts: list[MergePart] = []
    if wanted.uid is None:
        for s in ctx.keys.shards:
            parts += (ZsetPart(s, key, behind, wanted.since, wanted.before) for key in (s.failed, s.failed_names))
    else:
        part, rows = yield from _rows_of_person(ctx, wanted, behind)
        parts.append(part)
    merge = MergedLists(ctx, parts, size)

    def look(entries: list[Entry]) -> Op[list[FailedLogin | None]]:
        unread = [entry for entry in entries if entry.member not in rows]
        replies = (yield [_row_call(entry) for entry in unread]) if unread else []
        read = {entry.member: row for entry, row in zip(unread, replies, strict=True) if row}
        found = (_decode(entry.member, (rows | read).get(entry.member, b"")) for entry in entries)
        oldest = moment(max(0, merge.now - 1000 * kept_seconds(ctx.settings)))
        return [
            failure if failure is not None and failure.at >= oldest and wanted.matches(failure) else None
            for failure in found
        ]

    walked = yield from scan(merge, size, 1 if wanted.is_plain else LOOKED_AT_ONCE, look)
    seen += len(walked.items)
    is_end = walked.behind is None
    total = seen if is_end or not wanted.is_plain else max(seen, merge.total)
    next_cursor = None if is_end else make_cursor("failed_logins", wanted.values, seen, walked.behind)
    return Page(walked.items, next_cursor, total, is_end, walked.scanned, moment(merge.now))


def _network(ip: object) -> str:
    network = parse_network(ip) if isinstance(ip, str) else None
    if network is None:
        raise InvalidArgument("ip", "must be an address, or a network such as 192.0.2.0/24", "malformed")
    return str(network)


def _why(value: object) -> FailureWhy:
    check.choice("why", value, FailureWhy)
    return cast("FailureWhy", value)


def _row_call(entry: Entry) -> Call:
    who, name = split_ref(text(entry.member))
    key = _rows_key(entry.shard, who)
    return command(key, "HGET", key, name, lenient=True)


def _rows_key(shard: Shard, who: str) -> str:
    return shard.failures_of_name(who[1:]) if who.startswith("\n") else shard.failures(who)


def _decode(member: bytes, row: bytes) -> FailedLogin | None:
    return FailedLogin.from_row(*split_ref(text(member)), row)


def _rows_of_person(
    ctx: Context, wanted: _FailureFilter, behind: list[str] | None
) -> Op[tuple[MergePart, dict[bytes, bytes]]]:
    """The rows of a person: those of the uid, and those of typed texts that are the uid, a name or an alias. As a part
    of the list, and by ref."""
    uid = wanted.uid or ""
    yield from need_keys(ctx)
    names = yield from _names(ctx, uid)
    digests = digests_of_names(ctx.cache.device_keys, {uid, *names})
    found = [(ctx.shard(uid), uid)] if may_be_uid(uid) else []
    found += [(ctx.shard(digest), f"\n{digest}") for digest in sorted(digests)]
    *replies, (seconds, _) = yield [
        *(command(key, "HGETALL", key, lenient=True) for key in (_rows_key(s, who) for s, who in found)),
        command(found[0][0].tag, "TIME"),
    ]
    part, rows = MergePart(), dict[bytes, bytes]()
    part.now = int(ctx.now or 1000 * int(seconds))
    oldest = max(part.now - kept_seconds(ctx.settings) * 1000, wanted.since or 0)
    for (shard, who), reply in zip(found, replies, strict=True):
        for name, row in pairs(reply or ()):
            at = last_failure(row)
            if at is not None and oldest <= at and (wanted.before is None or at < wanted.before):
                entry = Entry(shard, b"%d" % at, f"{who}:{text(name)}".encode())
                rows[entry.member] = row
                part.items.append(((at, entry.member), entry))
    part.total = len(part.items)
    if behind is not None:
        last = whole(behind[0].encode()), behind[1].encode("utf-8", "surrogateescape")
        part.items = [item for item in part.items if item[0] < last]
    part.items.sort(reverse=True)
    return part, rows


def _names(ctx: Context, uid: str) -> Op[tuple[str, ...]]:
    """Name and aliases of a person who is online, or was recently."""
    if not may_be_uid(uid):
        return ()
    for candidate in (yield from seen_recently(ctx, [Candidate(ctx.shard(uid), uid)])):
        person = yield from person_of(ctx, candidate)
        if person:
            return (*([person.name] if person.name else []), *person.aliases)
    return ()


@checked_first
def failed_networks(ctx: Context, limit: object) -> Op[list[FailedNetwork]]:
    most = check.whole("limit", limit, 1, 1000)
    yield CHECKED
    replies = yield [command(s.failed_from, "HGETALL", s.failed_from, lenient=True) for s in ctx.keys.shards]
    sums = Counter[str | None]()
    for reply in replies:
        for network, stored in pairs(reply or ()):
            count = text(stored).partition(" ")[0]
            if count.isdecimal():
                sums[network_in_words(text(network))] += int(count)
    return [FailedNetwork(network=network, count=count) for network, count in sums.most_common(most)]
