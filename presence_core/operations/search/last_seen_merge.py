"""Merge the shards' live sessions into one list, last seen first, without an index of sessions by last seen.

``T:users`` has the users by last seen, and a session was seen no later than its user. So each shard walks its users,
and a session is returned as soon as no shard can still have a user who was seen after it. Those that were seen before
wait.

A position does not say which sessions wait there, of users who were seen after it. The cursor names the first of them;
behind these, the users are walked again. The order is (last seen ms, uid, session id): that of the users, in which no
tie of many users has to be read whole.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

from presence_core.keyspace import Shard
from presence_core.models import ListOrder
from presence_core.operations.context import Context
from presence_core.operations.merged_lists import share_of_shard, whole
from presence_core.operations.search.planner import Range, Tests
from presence_core.operations.search.shard_merge import (
    MAX_RECORDS,
    STEP,
    ListEntry,
    Place,
    Position,
    index_call,
    place_of,
    raw_ref,
)
from presence_core.scripts.calls import Call, Op, call_of
from presence_core.scripts.search import READ_INDEX, WALK_USERS, UsersPart

MAX_CARRIED: Final = 100
"""Waiting sessions that a cursor names, at most; and about how long all their refs are."""

MAX_CARRIED_BYTES: Final = 4_000


class Waiting(NamedTuple):
    """Sessions that wait at a position."""

    refs: tuple[str, ...]
    bound: Position | None  #: of the last one, where there are more behind it; None: these are all


_END: Final[Place] = (-1, b"")
_START: Final[Place] = (1 << 62, b"")


def _place(position: Position) -> Place:
    return place_of("last_seen", position[0], raw_ref(position[1]))


class _UserWalk:
    """How far one shard's users have been walked."""

    __slots__ = ("behind", "frontier", "shard")

    def __init__(self, shard: Shard, behind: tuple[int, bytes] | None) -> None:
        self.shard = shard
        self.behind: tuple[int | bytes, bytes] | None = behind  #: last seen ms and uid: ask for who comes behind
        self.frontier: Place = _START  #: all sessions in front of it are known

    def take(self, part: UsersPart) -> None:
        if part.behind is not None:
            self.behind = part.behind
            self.frontier = whole(part.behind[0]), part.behind[1] + b"\0"
        if part.at_end:
            self.frontier = _END


class LastSeenMerge:
    """See Source. ``budget``: users behind the position who may be read. ``waiting``: as ``waiting_at`` returned it;
    None: the users in front of the position are walked again."""

    def __init__(
        self,
        ctx: Context,
        limit: int,
        position: Position | None,
        tests: dict[Shard, Tests] | None = None,
        login_range: tuple[int | str, int] = ("", 0),
        budget: float = math.inf,
        waiting: Waiting | None = None,
    ) -> None:
        self._ctx, self._tests, self._login_range, self._budget = ctx, tests, login_range, budget
        self.order: ListOrder = "last_seen"
        shards = ctx.keys.shards
        self._seen_before = "", b"", b""
        self._start: Place | None = None
        self._bound: Position | None = None  #: the sessions that wait are not all known behind it
        self._carried: frozenset[bytes] = frozenset()
        if position is not None:
            self._stand_at(position)
        if waiting is not None and (waiting.bound is None or _place(waiting.bound) < (self._start or _START)):
            self._bound, self._carried = waiting.bound, frozenset(map(raw_ref, waiting.refs))
            self._begins_behind = True
            behind = position and (position[0], self._seen_before[1])
        else:
            self._begins_behind = position is None
            behind = None
        self._walks = [_UserWalk(shard, behind) for shard in shards]
        self._begun = False
        self._entries: list[tuple[Place, int | None, ListEntry]] = []  #: that wait: the first in the order is the last
        self._returned: list[tuple[Place, int | None, ListEntry]] = []
        self._size = share_of_shard(limit, len(shards))
        self._most = min(STEP, max(200, 4 * STEP // len(shards)))
        self._with_records = len(shards) == 1 and limit <= MAX_RECORDS
        self.now = self.total = self.looked = 0
        self.exact = True
        self.stopped: Position | None = None
        self.records: dict[bytes, Any] = {}

    def next(self, count: int) -> Op[list[ListEntry]]:
        """See Source."""
        out: list[ListEntry] = []
        while True:
            edge = max(walk.frontier for walk in self._walks)
            bound = _END if self._bound is None else _place(self._bound)
            edge = max(edge, bound)
            while len(out) < count and self._entries and self._entries[-1][0] >= edge:
                self._returned.append(self._entries.pop())
                out.append(self._returned[-1][2])
            if len(out) == count or edge == _END:
                return out
            if edge == bound:
                self._walk_again()
                continue
            if self._begun and self._budget <= 0:
                self.stopped = edge[0], edge[1][:-1].decode("utf-8", "surrogateescape") + ":"
                return out
            first = self._entries[-1][0] if self._entries else _END
            yield from self._ask([walk for walk in self._walks if walk.frontier > first])

    def go_on(self, budget: float) -> None:
        """Read on behind the place where the budget ended."""
        self._budget, self.stopped = budget, None
        self._returned.clear()

    def waiting_at(self, position: Position) -> Waiting | None:
        """The sessions behind a position whose users are in front of it. A page that begins there would not find them:
        it asks for the users behind it."""
        place, uid = _place(position), raw_ref(position[1]).rpartition(b":")[0]
        bound = self._bound and _place(self._bound)
        found = [
            (at, entry)
            for at, of_user, entry in (*self._entries, *self._returned)
            if at < place and of_user is not None and (of_user, entry[1].rpartition(b":")[0]) >= (position[0], uid)
            if bound is None or at >= bound
        ]
        found.sort(key=lambda item: item[0], reverse=True)
        most, size = 0, 0
        while most < min(len(found), MAX_CARRIED) and size < MAX_CARRIED_BYTES:
            size += len(found[most][1][1])
            most += 1
        if not most and found:
            return None
        refs = [(seen, ref.decode("utf-8", "replace")) for _, (seen, ref, _) in found[:most]]
        return Waiting(tuple(ref for _, ref in refs), refs[-1] if most < len(found) else self._bound)

    def _stand_at(self, position: Position) -> None:
        uid, _, sid = raw_ref(position[1]).rpartition(b":")
        self._seen_before, self._start = (str(position[0]), uid, sid), _place(position)

    def _walk_again(self) -> None:
        """The cursor did not name all sessions that wait from here on: walk the users in front of this place."""
        if self._returned:
            seen, ref, _ = self._returned[-1][2]
            self._stand_at((seen, ref.decode("utf-8", "surrogateescape")))
        self._bound, self._carried, self._begins_behind = None, frozenset(), False
        self._entries = []
        self._walks = [_UserWalk(walk.shard, None) for walk in self._walks]
        self._begun, self.total, self.exact = False, 0, True

    def _ask(self, walks: list[_UserWalk]) -> Op[None]:
        carried = self._carried_calls()
        replies = yield [*(self._call(walk) for walk in walks), *(call for _, call in carried)]
        for walk, reply in zip(walks, replies[: len(walks)], strict=True):
            part = WALK_USERS.reply(reply)
            if not self._begun:
                self.now, self.total = part.now, self.total + part.live
                self.exact = self.exact and part.is_exact
            self._budget -= part.read if self._is_behind(walk) else 0
            self.looked += part.read
            walk.take(part)
            self._entries += [
                (place_of("last_seen", seen, ref), of_user, (seen, ref, walk.shard))
                for ref, seen, of_user in part.found
                if ref not in self._carried
            ]
            if part.records:
                pairs = zip(part.found, part.records, strict=True)
                self.records |= {ref: record for (ref, _, _), record in pairs if record}
        for (shard, _), reply in zip(carried, replies[len(walks) :], strict=True):
            index_part = READ_INDEX.reply(reply)
            for ref, seen in (*index_part.sure, *index_part.unsure):
                place = place_of("last_seen", seen, ref)
                if self._start is None or place < self._start:  # else it was seen again meanwhile
                    self._entries.append((place, 1 << 62, (seen, ref, shard)))
        self._begun, self._with_records = True, False
        self._entries.sort(key=_by_place)

    def _is_behind(self, walk: _UserWalk) -> bool:
        """Whether the next users of this shard are behind the position."""
        return self._begins_behind or self._start is None or walk.frontier < self._start

    def _call(self, walk: _UserWalk) -> Call:
        s, (seen, uid) = walk.shard, walk.behind or ("", b"")
        is_first = not self._begun
        return call_of(
            WALK_USERS, (s.users, s.sessions, s.deadlines, s.meta, s.on_behalf),
            *(self._tests[s] if self._tests else ()),
            given_now=self._ctx.now,
            wanted=self._size if self._is_behind(walk) else self._most,
            most=self._most,
            after_seen=seen,
            after_uid=uid,
            seen_before=self._seen_before[0],
            uid_before=self._seen_before[1],
            sid_before=self._seen_before[2],
            is_first=int(is_first),
            before=self._login_range[0],
            after=self._login_range[1],
            with_records=int(self._with_records),
            user_prefix=s.user_prefix,
            record_prefix=s.record_prefix,
        )  # fmt: skip

    def _carried_calls(self) -> list[tuple[Shard, Call]]:
        """Of the sessions that the cursor names: whether they are live and pass, and when they were last seen."""
        if self._begun or not self._carried:
            return []
        by_shard: dict[Shard, list[bytes]] = {}
        for ref in self._carried:
            by_shard.setdefault(self._ctx.keys.shard(ref.rpartition(b":")[0].decode()), []).append(ref)
        return [
            (s, index_call(self._ctx, s, Range("sessions", b"\n".join(refs), b""),
                           self._tests[s] if self._tests else (), self._login_range, "last_seen"))
            for s, refs in by_shard.items()
        ]  # fmt: skip


def _by_place(entry: tuple[Place, int | None, ListEntry]) -> Place:
    return entry[0]
