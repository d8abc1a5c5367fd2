"""What is copied to another number of shards once they are frozen: ends done by half, sums, bulk kicks, the audit; and
whether old and new agree.
"""

from __future__ import annotations

import re
from binascii import crc32
from heapq import merge
from typing import Any, Final

from presence_core.errors import CorruptData
from presence_core.keyspace import Keyspace, Shard
from presence_core.operations.context import pairs
from presence_core.operations.copying import BATCH, BY_REF, BY_UID, FIRST, Copy, Write
from presence_core.scripts import Op, command

_NOTE: Final = re.compile(rb"[0-9a-f]{16}")


class Rest:
    """Of one copy. ``audit`` may be told more than once, and goes on; ``copy`` once nothing changes any more."""

    def __init__(self, copy: Copy) -> None:
        self._copy, self._old, self._new = copy, copy.old, copy.new
        self._read: dict[Shard, bytes] = {}
        self._last: dict[Shard, tuple[int, int]] = {}

    def begin(self) -> Op[None]:
        """What an earlier mover has copied of this goes."""
        yield from self._copy.put((s, ["UNLINK", s.audit]) for s in self._new.shards)

    def copy(self) -> Op[None]:
        """Everything."""
        news = [(s, ["UNLINK", key]) for s in self._new.shards for key in (s.closing, s.totals, s.meta)]
        yield from self._copy.put(news)
        for old in self._old.shards:
            yield from self._closing(old)
        yield from self._sums()
        yield from self._jobs()
        yield from self.audit()

    def _closing(self, old: Shard) -> Op[None]:
        """Ends whose tombstone is still to be written name their notes in a list of fields and values. What ended them
        took them out of the lists, and noted no record of theirs."""
        [flat] = yield [command(old.closing, "HGETALL", old.closing)]
        writes: list[tuple[Shard, Write]] = []
        notes: dict[tuple[Shard, bytes], set[Shard]] = {}
        for ref, how in pairs(flat):
            new = self._copy.home(ref.rpartition(b":")[0])
            for note in _NOTE.findall(how):
                notes.setdefault((old, note), set()).add(new)
            writes.append((new, ["HSET", new.closing, ref, how]))
        yield from self._copy.notes(notes)
        yield from self._copy.put(writes)
        prefix = old.record_prefix.encode()
        yield from self._copy.again(old, [prefix + ref for ref, _ in pairs(flat)])

    def _sums(self) -> Op[None]:
        rows = yield [command(s.totals, "HGETALL", s.totals) for s in self._old.shards]
        totals: dict[bytes, int] = {}
        for flat in rows:
            for name, number in pairs(flat):
                totals[name] = totals.get(name, 0) + int(number)
        first = self._new.shards[0]
        if totals:
            counts = [part for pair in totals.items() for part in pair]
            yield from self._copy.put([(first, ["HSET", first.totals, *counts])])
        rows = yield [command(s.meta, "HGETALL", s.meta) for s in self._old.shards]
        metas: list[dict[bytes, bytes]] = [dict(pairs(flat)) for flat in rows]
        # A sign-everybody-out that has come to some shards only was told to nobody as failed: it holds for all.
        most = max(metas, key=lambda meta: int(meta.get(b"revoked", b"-1")))
        kept = {name: value for name, value in most.items() if name.startswith(b"revoked")}
        kept[b"indexes"] = b""
        if floor := max(int(meta.get(b"floor", b"0")) for meta in metas):
            kept[b"floor"] = b"%d" % floor
        for name in (b"swept", b"truncated"):  # up to where it was done everywhere
            done = [int(meta.get(name, b"0")) for meta in metas]
            if all(done):
                kept[name] = b"%d" % min(done)
        if mark := max(int(meta.get(b"ended_from", b"0")) for meta in metas):
            kept[b"ended_from"] = b"%d" % mark
        flat = [part for pair in kept.items() for part in pair]
        yield from self._copy.put((s, ["HSET", s.meta, *flat]) for s in self._new.shards)
        notes = [value for name, value in kept.items() if name in (b"revoked_note", b"revoked_message") and value]
        yield from self._copy.notes({(old, note): self._new.shards for note in notes for old in self._old.shards})

    def _jobs(self) -> Op[None]:
        """How many a bulk kick has ended is counted on every shard; from here on on the first."""
        first, home = self._old.shards[0], self._new.shards[0]
        [ids] = yield [command(first.jobs, "ZRANGE", first.jobs, 0, -1)]
        names = [one.decode() for one in ids]
        keys = [f"{first.tag}:{family.decode()}" for family in FIRST] + [first.job(name) for name in names]
        yield from self._copy.keys([key.encode() for key in keys], again=True)
        for name in names:
            counts = yield [command(s.job(name), "HGET", s.job(name), "kicked") for s in self._old.shards]
            total, key = sum(int(one or 0) for one in counts), home.job(name)
            if total and (yield [command(key, "EXISTS", key)]) == [1]:
                yield from self._copy.put([(home, ["HSET", key, "kicked", total])])

    def audit(self) -> Op[None]:
        """What has been written since, in that order; an id that two shards have given is raised by one."""
        streams: list[list[tuple[tuple[int, int], list[bytes]]]] = []
        for old in self._old.shards:
            entries: list[tuple[tuple[int, int], list[bytes]]] = []
            while True:
                start = b"(" + self._read[old] if old in self._read else b"-"
                [part] = yield [command(old.audit, "XRANGE", old.audit, start, "+", "COUNT", BATCH)]
                entries += [(_stream_id(one), fields) for one, fields in part]
                if part:
                    self._read[old] = part[-1][0]
                if len(part) < BATCH:
                    break
            streams.append(entries)
        writes: list[tuple[Shard, Write]] = []
        for at, fields in merge(*streams, key=lambda entry: entry[0]):
            uid = dict(zip(fields[::2], fields[1::2], strict=True)).get(b"uid", b"")
            new = self._copy.home(uid) if uid else self._new.shards[0]
            before = self._last.get(new, (0, 0))
            at = max(at, (before[0], before[1] + 1))
            self._last[new] = at
            writes.append((new, ["XADD", new.audit, f"{at[0]}-{at[1]}", *fields]))
        for begin in range(0, len(writes), BATCH):
            yield from self._copy.put(writes[begin : begin + BATCH])


def _stream_id(raw: bytes) -> tuple[int, int]:
    time, _, order = raw.partition(b"-")
    return int(time), int(order)


def check_copy(old: Keyspace, new: Keyspace) -> Op[int]:
    """Lists are as long as they were, and everything that was counted is; answers the number of sessions."""
    numbers: dict[str, tuple[int, int]] = {}
    for name, word in (*((name, "ZCARD") for name in (*BY_REF, *BY_UID)), ("closing", "HLEN"), ("audit", "XLEN")):
        sums = []
        for keys in (old, new):
            lists = [getattr(s, name) for s in keys.shards]
            sums.append(sum((yield [command(key, word, key) for key in lists])))
        numbers[name] = (sums[0], sums[1])
    if numbers["audit"][0] < numbers["audit"][1]:  # the old one was trimmed meanwhile
        del numbers["audit"]
    wrong = [f"{name}: {was} and {now}" for name, (was, now) in numbers.items() if was != now]
    if wrong:
        raise CorruptData(f"Old and new shards do not agree ({', '.join(wrong)}): nothing has changed.")
    yield from _compare_records(old, new)
    return numbers["sessions"][0]


def _compare_records(old: Keyspace, new: Keyspace) -> Op[None]:
    """Some records of each shard, field by field; a label may have become the record's own text."""
    found = yield [command(s.sessions, "ZRANGE", s.sessions, 0, 99) for s in old.shards]
    reads: list[Any] = []
    for shard, refs in zip(old.shards, found, strict=True):
        for ref in refs:
            home = new.shards[crc32(ref.rpartition(b":")[0]) % len(new.shards)]
            reads += [
                command(s.tag, "HMGET", s.record_prefix.encode() + ref, "s", "n", "a", "x", "i", "f", "e", lenient=True)
                for s in (shard, home)
            ]
    replies = (yield reads) if reads else []
    if replies[::2] != replies[1::2]:
        raise CorruptData("Records of old and new shards do not agree: nothing has changed.")
