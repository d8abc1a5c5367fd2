"""What is copied to another number of shards while it is in use, where it goes, and whether all of it has come.

Keys of one user go as they are, with the time they have left. Lists of a shard are divided by user. Texts that sessions
share go where a session names them. Each script that changes something meanwhile notes its keys in the shard's fence
(scripts.py); what those name is copied again. Words, addresses and facets are made anew afterwards. Events stay behind:
their readers are told of a gap. So do streams that are being told anew: no `forget` goes on while this does. The rest,
which is small, is summing.py.

That every change is seen rests on an order. A key is written into the new shard before its change is settled, and a
change that comes between has another number, which keeps it noted. Of a user who changed, first the sessions that
either side knows are read, then the keys, then the scores in lists: what went after the first is gone from the last.
"""

from __future__ import annotations

from binascii import crc32
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from presence_core.errors import CorruptData, Unavailable
from presence_core.keyspace import Keyspace, Shard
from presence_core.models import INLINE, NO_LABEL
from presence_core.operations.context import pairs
from presence_core.scripts import PUT, SETTLE, Call, Op, command, run

BATCH: Final = 1_000
AT_ONCE: Final = 100
"""Writes in one script."""

BY_REF: Final = ("sessions", "deadlines", "ended")
BY_UID: Final = ("users", "people", "blocks")
OF_USER: Final = (b"user", b"devices", b"ended", b"person", b"block")
FIRST: Final = (b"jobs", b"running", b"staff")
DIVIDED: Final = frozenset(name.encode() for name in (*BY_REF, *BY_UID, "closing", "totals", "meta", "labels", "audit"))
LEFT: Final = frozenset((b"words", b"addresses", b"facets", b"recount", b"counted", b"events"))

Write = list[Any]
"""The words of a command whose second is its only key."""


def lost() -> Unavailable:
    return Unavailable("The shards could not be held for as long as the copying took: call it again.")


def put(token: str, writes: Mapping[str, list[list[Write]]]) -> Op[None]:
    """Write into shards, each named by its fence, as long as it is ours: in order, and what is listed together in one
    step."""
    calls = []
    for fence, groups in writes.items():
        part: list[Write] = []
        for place, group in enumerate(groups, 1):
            part += group
            if len(part) >= AT_ONCE or place == len(groups):
                words = [word for one in part for word in (len(one), *one)]
                calls.append(run(PUT, (fence, *(one[1] for one in part)), token, *words))
                part = []
    if calls and not all((yield calls)):
        raise lost()


class Copy:
    """Copies, a batch of keys at each step. May be given a key twice."""

    def __init__(self, old: Keyspace, new: Keyspace, token: str) -> None:
        self.old, self.new, self._token = old, new, token
        self._by_tag = {shard.tag.encode(): shard for shard in old.shards}
        self._labels: dict[Shard, dict[bytes, bytes]] = {shard: {} for shard in new.shards}
        self._texts: dict[Shard, dict[bytes, bytes]] = {shard: {} for shard in old.shards}
        self.copied = 0

    def put(self, writes: Iterable[tuple[Shard, Write]]) -> Op[None]:
        yield from self._put((shard, [write]) for shard, write in writes)

    def _put(self, groups: Iterable[tuple[Shard, list[Write]]]) -> Op[None]:
        by_fence: dict[str, list[list[Write]]] = {}
        for shard, group in groups:
            by_fence.setdefault(shard.moved, []).append(group)
        yield from put(self._token, by_fence)

    def home(self, uid: bytes) -> Shard:
        return self.new.shards[crc32(uid) % len(self.new.shards)]

    def _place(self, key: bytes) -> tuple[Shard, Shard, bytes, bytes] | None:
        """Of a key that goes as it is: its shard, the one it goes to, its family, and what follows the tag."""
        end = key.find(b"}") + 1
        old = self._by_tag.get(key[:end])
        if old is None:
            return None  # another namespace's, or not ours
        rest = key[end + 1 :]
        family, colon, name = rest.partition(b":")
        if colon and family == b"session":
            return old, self.home(name.rpartition(b":")[0]), family, rest
        if colon and family in OF_USER:
            return old, self.home(name), family, rest
        if (colon and family == b"job") or (not colon and family in FIRST):
            return (old, self.new.shards[0], family, rest) if old is self.old.shards[0] else None
        if family in ((b"note", b"retold") if colon else DIVIDED | LEFT):
            return None
        raise CorruptData(f"{key.decode('utf-8', 'replace')} is no key that this version knows: nothing has changed.")

    def go_on(self) -> Op[None]:
        """What an earlier mover has copied is known."""
        replies = yield [command(s.labels, "HGETALL", s.labels) for s in self.new.shards]
        for shard, flat in zip(self.new.shards, replies, strict=True):
            self._labels[shard] = dict(pairs(flat))

    def keys(self, keys: Iterable[bytes], *, missing: bool = False, again: bool = False) -> Op[None]:
        """Copy those of them that go as they are; ``missing``: that have not been copied yet; ``again``: and remove
        those that are gone."""
        found = [(key, place) for key in keys if (place := self._place(key))]
        if missing and found:
            there = yield from self._there(found)
            found = [one for one, is_there in zip(found, there, strict=True) if not is_there]
        calls: list[Call] = []
        for key, (old, _, family, _) in found:
            calls += [command(old.tag, "DUMP", key), command(old.tag, "PEXPIRETIME", key)]
            if family == b"session":
                calls.append(command(old.tag, "HMGET", key, "c", "en", "em", lenient=True))
        replies: Iterator[Any] = iter((yield calls) if calls else ())
        writes: list[tuple[Shard, list[Write]]] = []
        rows: list[tuple[int, Shard, Shard, list[bytes | None]]] = []
        for _, (old, new, family, rest) in found:
            dump, expires = next(replies), next(replies)
            row = next(replies) if family == b"session" else None
            name = new.tag.encode() + b":" + rest
            if dump is not None and expires != -2:
                self.copied += 1
                if row:
                    rows.append((len(writes), old, new, row))
                writes.append((new, [["RESTORE", name, max(0, expires), dump, "REPLACE", "ABSTTL"]]))
            elif again:  # else its time was over, or is since a moment ago: 0 would be for ever
                writes.append((new, [["UNLINK", name]]))
        yield from self._read_labels(rows)
        labels: list[tuple[Shard, list[Write]]] = []
        notes: dict[tuple[Shard, bytes], set[Shard]] = {}
        for at, old, new, row in rows:
            shared, own = self._labelled(old, new, writes[at][1][0][1], row[0] or b"")
            labels += [(new, [write]) for write in shared]
            writes[at][1].extend(own)
            for note in filter(None, row[1:]):
                notes.setdefault((old, note), set()).add(new)
        yield from self.notes(notes)
        yield from self._put([*labels, *writes])

    def _there(self, found: list[tuple[bytes, tuple[Shard, Shard, bytes, bytes]]]) -> Op[list[Any]]:
        there = yield [command(new.tag, "EXISTS", new.tag.encode() + b":" + rest) for _, (_, new, _, rest) in found]
        return there

    def _read_labels(self, rows: list[tuple[int, Shard, Shard, list[bytes | None]]]) -> Op[None]:
        """Texts that these records name, and nobody has named before."""
        unknown: dict[Shard, set[bytes]] = {}
        for _, old, _, (core, *_) in rows:
            for label in _label_ids(core or b""):
                if label not in self._texts[old]:
                    unknown.setdefault(old, set()).add(label)
        if unknown:
            replies = yield [command(s.labels, "HMGET", s.labels, *ids) for s, ids in unknown.items()]
            for (shard, ids), texts in zip(unknown.items(), replies, strict=True):
                self._texts[shard] |= {one: value for one, value in zip(ids, texts, strict=True) if value is not None}

    def _labelled(self, old: Shard, new: Shard, name: bytes, core: bytes) -> tuple[list[Write], list[Write]]:
        """What a new shard is to know of a record's labels; where old shards gave one id to two texts, the record has
        its own."""
        shared: list[Write] = []
        own: list[bytes] = []
        for at, field in ((32, b"C"), (36, b"A")):
            label = core[at : at + 4]
            value = self._texts[old].get(label) if label in _label_ids(core) else None
            if value is None:
                continue
            if label not in self._labels[new]:
                self._labels[new][label] = value
                shared.append(["HSET", new.labels, label, value])
            elif self._labels[new][label] != value:
                core = core[:at] + INLINE + core[at + 4 :]
                own += (field, value)
        return shared, [["HSET", name, "c", core, *own]] if own else []

    def notes(self, notes: Mapping[tuple[Shard, bytes], Iterable[Shard]]) -> Op[None]:
        """Copy texts of staff, each to where ends name it."""
        items = list(notes.items())
        for at in range(0, len(items), BATCH):
            part = items[at : at + BATCH]
            calls = []
            for (old, note), _ in part:
                key = old.note(note.decode("ascii", "replace"))
                calls += [command(key, "DUMP", key), command(key, "PEXPIRETIME", key)]
            replies = yield calls
            out: list[tuple[Shard, Write]] = []
            for place, ((_, note), shards) in enumerate(part):
                dump, expires = replies[2 * place : 2 * place + 2]
                for new in shards if dump is not None and expires != -2 else ():
                    key = new.note(note.decode("ascii", "replace"))
                    out.append((new, ["RESTORE", key, max(0, expires), dump, "REPLACE", "ABSTTL"]))
            yield from self.put(out)

    def lists(self) -> Op[None]:
        for old in self.old.shards:
            for name in (*BY_REF, *BY_UID):
                yield from self._divide(old, name)

    def _divide(self, old: Shard, name: str) -> Op[None]:
        key, cursor = getattr(old, name), b"0"
        while True:
            [(cursor, flat)] = yield [command(key, "ZSCAN", key, cursor, "COUNT", BATCH)]
            parts: dict[Shard, list[bytes]] = {}
            for member, score in zip(flat[::2], flat[1::2], strict=True):
                uid = member.rpartition(b":")[0] if name in BY_REF else member
                parts.setdefault(self.home(uid), []).extend((score, member))
            yield from self.put((new, ["ZADD", getattr(new, name), *part]) for new, part in parts.items())
            if cursor == b"0":
                return

    def changes(self, progress: Callable[[], object] | None = None) -> Op[int]:
        """Copy again what has changed since it was copied; answers how many keys had."""
        count = 0
        for old in self.old.shards:
            cursor = b"0"
            while True:
                [(cursor, flat)] = yield [command(old.moved, "HSCAN", old.moved, cursor, "COUNT", BATCH)]
                noted = {key: change for key, change in pairs(flat) if key.startswith(b"{")}
                if noted:
                    yield from self.again(old, noted)
                    words = [word for item in noted.items() for word in item]
                    if (yield [run(SETTLE, (old.moved,), self._token, *words)]) != [1]:
                        raise lost()
                    count += len(noted)
                    if progress:
                        progress()
                if cursor == b"0":
                    break
        return count

    def again(self, old: Shard, noted: Iterable[bytes]) -> Op[None]:
        """Bring over what these keys name: sessions, and users with everything of theirs."""
        refs: set[bytes] = set()
        users: set[bytes] = set()
        for key in noted:
            family, colon, name = key[key.index(b"}") + 2 :].partition(b":")
            if colon and family == b"session":
                refs.add(name)
            elif colon and family in OF_USER:
                users.add(name)
        lives = [(uid, shard) for uid in users for shard in (old, self.home(uid))]
        calls = [command(s.tag, "SMEMBERS", s.user_prefix.encode() + uid, lenient=True) for uid, s in lives]
        for (uid, _), sids in zip(lives, (yield calls) if calls else (), strict=True):
            refs |= {uid + b":" + sid for sid in sids or ()}
        keys = [old.record_prefix.encode() + ref for ref in refs]
        keys += [old.tag.encode() + b":" + family + b":" + uid for uid in users for family in OF_USER]
        for at in range(0, len(keys), BATCH):
            yield from self.keys(keys[at : at + BATCH], again=True)
        yield from self._scores(old, BY_REF, list(refs), lambda ref: ref.rpartition(b":")[0])
        uids = users | {ref.rpartition(b":")[0] for ref in refs}
        yield from self._scores(old, BY_UID, list(uids), lambda uid: uid)

    def _scores(
        self, old: Shard, names: Iterable[str], members: list[bytes], owner: Callable[[bytes], bytes]
    ) -> Op[None]:
        """Lists of the new shards have of these what the old ones have."""
        for at in range(0, len(members), BATCH):
            part = members[at : at + BATCH]
            lists = [(name, getattr(old, name)) for name in names]
            replies = yield [command(key, "ZMSCORE", key, *part) for _, key in lists]
            writes: dict[tuple[Shard, str, str], list[bytes | str]] = {}
            for (name, _), scores in zip(lists, replies, strict=True):
                for member, score in zip(part, scores, strict=True):
                    new = self.home(owner(member))
                    if score is None:
                        writes.setdefault((new, "ZREM", name), []).append(member)
                    else:
                        exact = score if isinstance(score, bytes) else repr(score)
                        writes.setdefault((new, "ZADD", name), []).extend((exact, member))
            yield from self.put((new, [word, getattr(new, name), *some]) for (new, word, name), some in writes.items())

    def check(self, keys: Iterable[bytes]) -> Op[None]:
        """Each of these that a user owns has come, but for those whose time is over, or that are noted as changed."""
        found = [(key, place) for key in keys if (place := self._place(key)) and place[2] not in (b"job", *FIRST)]
        if not found:
            return
        there = yield from self._there(found)
        missing = [(key, old) for (key, (old, _, _, _)), is_there in zip(found, there, strict=True) if not is_there]
        if missing:
            reads = [[command(old.tag, "EXISTS", key), command(old.moved, "HEXISTS", old.moved, key)]
                     for key, old in missing]  # fmt: skip
            replies = yield [call for two in reads for call in two]
            lacking = [1 for still, noted in zip(replies[::2], replies[1::2], strict=True) if still and not noted]
            if lacking:
                raise CorruptData(f"{len(lacking)} keys have not come to their new shard: nothing has changed.")


def _label_ids(core: bytes) -> set[bytes]:
    return {core[32:36], core[36:40]} - {NO_LABEL, INLINE, b""}
