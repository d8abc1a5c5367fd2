"""The copier: copies keys to another number of shards while they are in use, and checks that all of them were copied.

Keys of one user are copied as they are, with their time to live. Lists of a shard are divided by user. Texts that
sessions share are copied where a session names them. Each script that changes something meanwhile notes its keys in the
shard's fence, and the keys that the notes name are copied again. Words, addresses and facets are rebuilt afterwards.
Events are not copied: their readers get a gap. Nor are streams that are being rewritten: ``erase`` is refused during a
reshard. The rest, which is small, is in ``final_copy``.

No change is missed because of an order. A key is written to the new shard before the note of its change is removed, and
a change in between has another number, which keeps the note. Of a user who changed, first the sessions that either side
knows are read, then the keys, then the scores in lists: a session that ended after the first read has no score in the
last.
"""

from __future__ import annotations

from binascii import crc32
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Final, NamedTuple

from presence_core.errors import CorruptData
from presence_core.keyspace import Keyspace, Shard
from presence_core.operations.reshard.fences import claim_all, lost
from presence_core.operations.reshard.labels import LabelCopier, Write
from presence_core.operations.scan import Pairs, read_ahead, scan, scan_call
from presence_core.schema.keys import SHARD, Copied, copied_as
from presence_core.scripts.calls import Call, Op, call_of, command, later, pairs
from presence_core.scripts.reshard import DROP_COPIED_CHANGES, READ_KEYS, WRITE_KEYS, KeyDump

BATCH: Final = 1_000
SCRIPT_WRITES: Final = 100
"""Writes in one script, or a few more."""

SCRIPT_KEYS: Final = 100
"""Keys that one script reads."""

BY_REF: Final = copied_as("by_ref")
BY_UID: Final = copied_as("by_uid")
_OF_USER: Final = [family.encode() for family in copied_as("user")]
_COPIED: Final = {family.prefix.encode(): family.copied for family in SHARD}

Notes = dict[tuple[Shard, bytes], set[Shard]]
"""Texts of staff by old shard and id, with the new shards that need them."""


class _Key(NamedTuple):
    """A key that is copied as it is."""

    name: bytes
    old: Shard
    new: Shard
    copied: Copied
    rest: bytes  #: of the name, behind the tag

    @property
    def new_name(self) -> bytes:
        return self.new.tag.encode() + b":" + self.rest

    @property
    def is_record(self) -> bool:
        return self.copied == "record"


_Copy = tuple[_Key, KeyDump | None]
"""A key and its value; None: the copy is removed."""


def _notes_of(note: bytes | None, message: bytes | None, demand: bytes | None) -> list[bytes]:
    """The ids of texts that staff wrote, in these fields of a session's record."""
    return [text for text in (note, message, (demand or b"")[8:]) if text]


def write_keys(token: str, writes: Mapping[str, list[Write]]) -> Op[None]:
    """Write to shards, by the keys of their fences, while they are held: in order."""
    calls = [
        later(fence, WRITE_KEYS, partial(_write_call, fence, token, part[at : at + SCRIPT_WRITES]))
        for fence, part in writes.items()
        for at in range(0, len(part), SCRIPT_WRITES)
    ]
    if calls:
        yield from claim_all(calls)


def _write_call(fence: str, token: str, writes: list[Write]) -> Call:
    words = [word for write in writes for word in (str(len(write)), *write)]
    return call_of(WRITE_KEYS, (fence, *(key for _, key, *_ in writes)), token, *words)


class Copier:
    """Copies a batch of keys at each step. A key may be copied twice."""

    def __init__(self, old: Keyspace, new: Keyspace, token: str) -> None:
        self.old, self.new, self._token = old, new, token
        self._by_tag = {shard.tag.encode(): shard for shard in old.shards}
        self._labels = LabelCopier(old, new)
        self._changed = 0
        self.copied = 0

    def write(self, writes: Iterable[tuple[Shard, Write]]) -> Op[None]:
        by_fence: dict[str, list[Write]] = {}
        for shard, write in writes:
            by_fence.setdefault(shard.moved, []).append(write)
        yield from write_keys(self._token, by_fence)

    def new_shard(self, uid: bytes) -> Shard:
        return shard_of(self.new, uid)

    def resume(self) -> Op[None]:
        """Go on with the copy of an earlier coordinator."""
        yield from self._labels.resume()

    # -- keys that are copied as they are -----------------------------------------------------------------------------

    def copy_keys(self, names: Iterable[bytes], *, only_missing: bool = False, remove: bool = False) -> Op[None]:
        """Copy those of these keys that are copied as they are. only_missing: those that the new shard does not have.
        remove: remove from the new shard those that are gone."""
        keys = self._keys(names)
        if only_missing and keys:
            found = yield from self._exist(keys)
            keys = [key for key, is_there in zip(keys, found, strict=True) if not is_there]
        dumps = yield from _read_keys([(key.old, key.name) for key in keys], [key.is_record for key in keys])
        notes: Notes = {}
        cores: list[tuple[Shard, bytes | None]] = []
        by_shard: dict[Shard, list[_Copy]] = {}
        for key, dump in zip(keys, dumps, strict=True):
            if dump and dump.links:
                core, *texts = dump.links
                cores.append((key.old, core))
                for note in _notes_of(*texts) if any(texts) else ():
                    notes.setdefault((key.old, note), set()).add(key.new)
            if dump or remove:
                by_shard.setdefault(key.new, []).append((key, dump))
            self.copied += dump is not None
        yield from self._labels.read(cores)
        yield from self.copy_notes(notes)
        parts = [
            (new, copies[at : at + SCRIPT_WRITES])
            for new, copies in by_shard.items()
            for at in range(0, len(copies), SCRIPT_WRITES)
        ]
        if parts:  # each is built once: it remembers the labels that it writes
            yield from claim_all(
                [later(new.moved, WRITE_KEYS, cache(partial(self._copies_call, new, part))) for new, part in parts]
            )

    def _copies_call(self, new: Shard, copies: list[_Copy]) -> Call:
        writes: list[Write] = []
        for key, dump in copies:
            if dump:
                core = dump.links[0] if dump.links else None
                shared, own = self._labels.writes(key.old, new, key.new_name, core or b"")
                writes += (*shared, _restore(dump, key.new_name), *own)
            else:
                writes.append(["UNLINK", key.new_name])
        return _write_call(new.moved, self._token, writes)

    def _keys(self, names: Iterable[bytes]) -> list[_Key]:
        return [key for name in names if (key := self._key(name))]

    def _key(self, name: bytes) -> _Key | None:
        """Where this key goes; None where it is not copied as it is. Raises CorruptData for an unknown key."""
        end = name.find(b"}") + 1
        old = self._by_tag.get(name[:end])
        if old is None:
            return None  # of another namespace
        rest = name[end + 1 :]
        copied, owner = _copied(rest)
        if copied is None:
            shown = name.decode("utf-8", "replace")
            raise CorruptData(f"{shown} is no key that this version knows: nothing has changed.")
        if copied == "record":
            return _Key(name, old, self.new_shard(owner.rpartition(b":")[0]), copied, rest)
        if copied == "user":
            return _Key(name, old, self.new_shard(owner), copied, rest)
        is_first = copied == "first" and old is self.old.shards[0]
        return _Key(name, old, self.new.shards[0], copied, rest) if is_first else None

    def _exist(self, keys: list[_Key]) -> Op[list[int]]:
        replies = yield [command(key.new.tag, "EXISTS", key.new_name) for key in keys]
        return replies

    def copy_notes(self, notes: Notes) -> Op[None]:
        """Copy texts of staff to the shards that need them."""
        items = list(notes.items())
        for at in range(0, len(items), BATCH):
            part = items[at : at + BATCH]
            names = [note.decode("ascii", "replace") for (_, note), _ in part]
            keys = [(old, old.note(name)) for ((old, _), _), name in zip(part, names, strict=True)]
            dumps = yield from _read_keys(keys, [False] * len(keys))
            yield from self.write(
                (new, _restore(dump, new.note(name)))
                for (_, shards), name, dump in zip(part, names, dumps, strict=True)
                if dump
                for new in shards
            )

    # -- lists --------------------------------------------------------------------------------------------------------

    def copy_lists(self) -> Op[None]:
        for old in self.old.shards:
            for name in (*BY_REF, *BY_UID):
                yield from read_ahead(
                    partial(scan_call, "ZSCAN", getattr(old, name), BATCH), partial(self._divide, name)
                )

    def _divide(self, name: str, members: list[bytes]) -> Op[None]:
        parts: dict[Shard, list[bytes]] = {}
        for member, score in pairs(members):
            parts.setdefault(self.new_shard(_owner(name, member)), []).extend((score, member))
        yield from self.write((new, ["ZADD", getattr(new, name), *part]) for new, part in parts.items())

    # -- changes ------------------------------------------------------------------------------------------------------

    def copy_changes(self, progress: Callable[[], object] | None = None) -> Op[int]:
        """Copy what has changed since it was copied; returns how many keys had."""
        before = self._changed
        for old in self.old.shards:
            yield from scan("HSCAN", old.moved, BATCH, partial(self._copy_noted, old, progress))
        return self._changed - before

    def _copy_noted(self, old: Shard, progress: Callable[[], object] | None, fields: Pairs) -> Op[None]:
        noted = {key: change for key, change in fields if key.startswith(b"{")}
        if not noted:
            return
        yield from self.copy_again(old, noted)
        words = [word for note in noted.items() for word in note]
        [reply] = yield [call_of(DROP_COPIED_CHANGES, (old.moved,), self._token, *words)]
        if not DROP_COPIED_CHANGES.reply(reply):
            raise lost()
        self._changed += len(noted)
        if progress:
            progress()

    def copy_again(self, old: Shard, names: Iterable[bytes]) -> Op[None]:
        """Copy the sessions and the users that these keys belong to, with all keys of the users."""
        refs, users = _owners(names)
        refs |= yield from self._refs_of(old, users)
        keys = [old.record_prefix.encode() + ref for ref in refs]
        keys += [old.tag.encode() + b":" + family + uid for uid in users for family in _OF_USER]
        for at in range(0, len(keys), BATCH):
            yield from self.copy_keys(keys[at : at + BATCH], remove=True)
        uids = users | {ref.rpartition(b":")[0] for ref in refs}
        for names_of_lists, members in ((BY_REF, refs), (BY_UID, uids)):
            ordered = list(members)
            for at in range(0, len(ordered), BATCH):
                yield from self._copy_scores(old, names_of_lists, ordered[at : at + BATCH])

    def _refs_of(self, old: Shard, users: Iterable[bytes]) -> Op[set[bytes]]:
        """The live sessions of these users, in the old shard and in the new ones."""
        places = [(uid, shard) for uid in users for shard in (old, self.new_shard(uid))]
        calls = [command(s.tag, "SMEMBERS", s.user_prefix.encode() + uid, lenient=True) for uid, s in places]
        replies = (yield calls) if calls else []
        return {uid + b":" + sid for (uid, _), sids in zip(places, replies, strict=True) for sid in sids or ()}

    def _copy_scores(self, old: Shard, names: tuple[str, ...], members: list[bytes]) -> Op[None]:
        """Make the lists of the new shards have these members as the old ones have them."""
        replies = yield [command(getattr(old, name), "ZMSCORE", getattr(old, name), *members) for name in names]
        writes: dict[tuple[Shard, str, str], list[bytes | str]] = {}
        for name, scores in zip(names, replies, strict=True):
            for member, score in zip(members, scores, strict=True):
                new = self.new_shard(_owner(name, member))
                if score is None:
                    writes.setdefault((new, "ZREM", name), []).append(member)
                else:
                    exact = score if isinstance(score, bytes) else repr(score)
                    writes.setdefault((new, "ZADD", name), []).extend((exact, member))
        yield from self.write((new, [word, getattr(new, name), *part]) for (new, word, name), part in writes.items())

    # -- check --------------------------------------------------------------------------------------------------------

    def check(self, names: Iterable[bytes]) -> Op[None]:
        """Raise CorruptData if a key of a user was not copied, unless it has expired or is noted as changed."""
        keys = [key for key in self._keys(names) if key.copied != "first"]
        if not keys:
            return
        copies: dict[Shard, list[bytes]] = {}
        for key in keys:
            copies.setdefault(key.new, []).append(key.new_name)
        if (yield from _count(copies)) == [len(part) for part in copies.values()]:
            return
        found = yield from self._exist(keys)
        missing = [key for key, is_there in zip(keys, found, strict=True) if not is_there]
        if not missing:
            return
        in_use = yield [command(key.old.tag, "EXISTS", key.name) for key in missing]
        noted = yield [command(key.old.moved, "HEXISTS", key.old.moved, key.name) for key in missing]
        lacking = sum(bool(is_there and not is_noted) for is_there, is_noted in zip(in_use, noted, strict=True))
        if lacking:
            raise CorruptData(f"{lacking} keys were not copied to their new shard: nothing has changed.")


def shard_of(keys: Keyspace, uid: bytes) -> Shard:
    """The shard of a uid as it is stored, which may be no text."""
    return keys.shards[crc32(uid) % len(keys.shards)]


def _copied(rest: bytes) -> tuple[Copied | None, bytes]:
    """How a key is copied, by its name behind the tag, and the rest of the name behind its family."""
    family, colon, owner = rest.partition(b":")
    return _COPIED.get(family + colon), owner


def _restore(dump: KeyDump, name: bytes | str) -> Write:
    return ["RESTORE", name, str(max(0, dump.expires)), dump.payload, "REPLACE", "ABSTTL"]


def _read_keys(keys: Sequence[tuple[Shard, bytes | str]], records: Sequence[bool]) -> Op[list[KeyDump | None]]:
    """The values of these keys of the old shards; None of a key that is gone. ``records``: which of them are records of
    sessions."""
    places: dict[Shard, list[int]] = {}
    for place, (shard, _) in enumerate(keys):
        places.setdefault(shard, []).append(place)
    parts = [part[at : at + SCRIPT_KEYS] for part in places.values() for at in range(0, len(part), SCRIPT_KEYS)]
    calls = [
        call_of(READ_KEYS, (keys[part[0]][0].moved, *(keys[place][1] for place in part)),
                "".join("01"[records[place]] for place in part))
        for part in parts
    ]  # fmt: skip
    found: list[KeyDump | None] = [None] * len(keys)
    for part, reply in zip(parts, (yield calls) if calls else (), strict=True):
        for place, dump in zip(part, READ_KEYS.reply(reply), strict=True):
            found[place] = dump if dump.payload is not None and dump.expires != -2 else None
    return found


def _count(names: dict[Shard, list[bytes]]) -> Op[list[int]]:
    """How many of these keys of each shard there are."""
    replies: list[int] = yield [command(shard.tag, "EXISTS", *part) for shard, part in names.items()]
    return replies


def _owner(name: str, member: bytes) -> bytes:
    """The uid of a member of this list."""
    return member.rpartition(b":")[0] if name in BY_REF else member


def _owners(names: Iterable[bytes]) -> tuple[set[bytes], set[bytes]]:
    """The sessions (refs) and the users that these keys belong to."""
    refs: set[bytes] = set()
    users: set[bytes] = set()
    for name in names:
        copied, owner = _copied(name[name.index(b"}") + 2 :])
        if copied == "record":
            refs.add(owner)
        elif copied == "user":
            users.add(owner)
    return refs, users
