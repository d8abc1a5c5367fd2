"""The final copy, while the shards are frozen: unfinished ends, totals, bulk kicks and the audit; and the comparison of
old and new shards."""

from __future__ import annotations

import re
from collections.abc import Sequence
from heapq import merge
from typing import Final, NamedTuple

from presence_core.errors import CorruptData
from presence_core.keyspace import Keyspace, Shard
from presence_core.operations.reshard.copier import BATCH, BY_REF, BY_UID, Copier, Notes, shard_of
from presence_core.operations.reshard.labels import Write
from presence_core.schema.keys import copied_as
from presence_core.scripts.calls import Call, Op, command, pairs, scored
from presence_core.scripts.staff import rules_version

_NOTE: Final = re.compile(rb"[0-9a-f]{16}")

COMPARED_RECORDS: Final = 100
"""Of each shard, field by field."""


class _StreamId(NamedTuple):
    ms: int
    order: int

    @classmethod
    def decode(cls, raw: bytes) -> _StreamId:
        ms, _, order = raw.partition(b"-")
        return cls(int(ms), int(order))


class FinalCopy:
    """Of one copier. ``copy_audit`` may be called several times; ``copy`` when nothing changes any more."""

    def __init__(self, copier: Copier) -> None:
        self._copier, self._old, self._new = copier, copier.old, copier.new
        self._read_to: dict[Shard, bytes] = {}
        self._last_id: dict[Shard, _StreamId] = {}

    def begin(self) -> Op[None]:
        """Remove the audit that an earlier coordinator has copied."""
        yield from self._copier.write((s, ["UNLINK", s.audit]) for s in self._new.shards)

    def copy(self) -> Op[None]:
        names = [name for name in copied_as("final") if name != "audit"]
        removals = [(s, ["UNLINK", getattr(s, name)]) for s in self._new.shards for name in names]
        yield from self._copier.write(removals)
        for old in self._old.shards:
            yield from self._copy_closing(old)
            yield from self._copy_on_behalf(old)
        yield from self._copy_expiries()
        yield from self._copy_totals()
        yield from self._copy_meta()
        yield from self._copy_jobs()
        yield from self.copy_audit()

    def _copy_closing(self, old: Shard) -> Op[None]:
        """Ends whose tombstone is still to be written, with the notes that they name. The script that ended them took
        them out of the lists and noted no record, so their records are copied again."""
        [flat] = yield [command(old.closing, "HGETALL", old.closing)]
        ends, writes = pairs(flat), []
        notes: Notes = {}
        for ref, how in ends:
            new = self._copier.new_shard(ref.rpartition(b":")[0])
            for note in _NOTE.findall(how):
                notes.setdefault((old, note), set()).add(new)
            writes.append((new, ["HSET", new.closing, ref, how]))
        yield from self._copier.copy_notes(notes)
        yield from self._copier.write(writes)
        yield from self._copier.copy_again(old, [old.record_prefix.encode() + ref for ref, _ in ends])

    def _copy_on_behalf(self, old: Shard) -> Op[None]:
        """Sessions on behalf of users, until their absolute deadline."""
        key = old.on_behalf
        flat, expires_at = yield [
            command(key, "ZRANGE", key, 0, -1, "WITHSCORES", lenient=True),
            command(key, "PEXPIRETIME", key),
        ]
        writes: list[tuple[Shard, Write]] = []
        for ref, deadline in scored(flat or ()):
            new = self._copier.new_shard(ref.rpartition(b":")[0])
            writes.append((new, ["ZADD", new.on_behalf, int(deadline), ref]))
            if expires_at > 0:  # other old shards have entries for the same new one
                writes += [(new, ["PEXPIREAT", new.on_behalf, int(deadline), how]) for how in ("NX", "GT")]
        yield from self._copier.write(writes)

    def _copy_expiries(self) -> Op[None]:
        """Of lists that expire: a new one expires with the last of the old ones."""
        for name in (*BY_REF, *BY_UID):
            keys = [getattr(s, name) for s in self._old.shards]
            times = yield [command(key, "PEXPIRETIME", key) for key in keys]
            if -1 not in times and max(times) > 0:
                yield from self._copier.write(
                    (s, ["PEXPIREAT", getattr(s, name), max(times)]) for s in self._new.shards
                )

    def _copy_totals(self) -> Op[None]:
        """The sums of all shards, on the first one."""
        replies = yield [command(s.totals, "HGETALL", s.totals) for s in self._old.shards]
        totals: dict[bytes, int] = {}
        for flat in replies:
            for name, number in pairs(flat):
                totals[name] = totals.get(name, 0) + int(number)
        first = self._new.shards[0]
        if totals:
            fields = [part for total in totals.items() for part in total]
            yield from self._copier.write([(first, ["HSET", first.totals, *fields])])

    def _copy_meta(self) -> Op[None]:
        replies = yield [command(s.meta, "HGETALL", s.meta) for s in self._old.shards]
        metas = [dict(pairs(flat)) for flat in replies]
        meta = _merge_meta(metas)
        fields = [part for item in meta.items() for part in item]
        yield from self._copier.write((s, ["HSET", s.meta, *fields]) for s in self._new.shards)
        notes = [note for name in (b"revoked_note", b"revoked_message") if (note := meta.get(name))]
        everywhere = set(self._new.shards)
        yield from self._copier.copy_notes({(old, note): everywhere for note in notes for old in self._old.shards})
        yield from self._copy_block_rules(self._old.shards[metas.index(_newest_rules(metas))])

    def _copy_block_rules(self, old: Shard) -> Op[None]:
        """The block rules of the shard that has their last change, to every new shard; ``_copy_meta`` copies their
        version."""
        [flat] = yield [command(old.block_rules, "HGETALL", old.block_rules)]
        fields = [part for rule in pairs(flat) for part in rule]
        if fields:
            yield from self._copier.write((s, ["HSET", s.block_rules, *fields]) for s in self._new.shards)

    def _copy_jobs(self) -> Op[None]:
        """Bulk kicks. Each old shard counts the sessions that a job has ended there; their sum goes to the first new
        shard."""
        first, new = self._old.shards[0], self._new.shards[0]
        [raw_ids] = yield [command(first.jobs, "ZRANGE", first.jobs, 0, -1)]
        ids = [raw.decode() for raw in raw_ids]
        keys = [f"{first.tag}:{name}" for name in copied_as("first") if not name.endswith(":")]
        keys += map(first.job, ids)
        yield from self._copier.copy_keys([key.encode() for key in keys], remove=True)
        for job_id in ids:
            counts = yield [command(s.job(job_id), "HGET", s.job(job_id), "kicked") for s in self._old.shards]
            kicked, key = sum(int(count or 0) for count in counts), new.job(job_id)
            if kicked and (yield [command(key, "EXISTS", key)]) == [1]:
                yield from self._copier.write([(new, ["HSET", key, "kicked", kicked])])

    def copy_audit(self) -> Op[None]:
        """Audit entries that were written since the last call, in their order. An id that two shards have used is
        raised by one."""
        streams: dict[Shard, list[tuple[_StreamId, list[bytes]]]] = {}
        for old in self._old.shards:
            streams[old] = yield from self._read_audit(old)
        writes: list[tuple[Shard, Write]] = []
        for stream_id, fields in merge(*streams.values(), key=lambda entry: entry[0]):
            uid = dict(pairs(fields)).get(b"uid", b"")
            new = self._copier.new_shard(uid) if uid else self._new.shards[0]
            last = self._last_id.get(new, _StreamId(0, 0))
            free_id = max(stream_id, _StreamId(last.ms, last.order + 1))
            self._last_id[new] = free_id
            writes.append((new, ["XADD", new.audit, f"{free_id.ms}-{free_id.order}", *fields]))
        for begin in range(0, len(writes), BATCH):
            yield from self._copier.write(writes[begin : begin + BATCH])

    def _read_audit(self, old: Shard) -> Op[list[tuple[_StreamId, list[bytes]]]]:
        entries: list[tuple[_StreamId, list[bytes]]] = []
        while True:
            start = b"(" + self._read_to[old] if old in self._read_to else b"-"
            [part] = yield [command(old.audit, "XRANGE", old.audit, start, "+", "COUNT", BATCH)]
            for raw_id, fields in part:
                entries.append((_StreamId.decode(raw_id), fields))
                self._read_to[old] = raw_id
            if len(part) < BATCH:
                return entries


def _merge_meta(metas: Sequence[dict[bytes, bytes]]) -> dict[bytes, bytes]:
    """The meta fields of every new shard, from those of the old ones."""

    def numbers(name: bytes) -> list[int]:
        return [int(meta.get(name, b"0")) for meta in metas]

    # A revocation that reached only some shards was not reported as failed: it holds for all shards.
    latest = max(metas, key=lambda meta: int(meta.get(b"revoked", b"-1")))
    merged = {name: value for name, value in latest.items() if name.startswith(b"revoked")}
    # So does a change of block rules that a crash has left on some shards.
    merged |= {name: value for name, value in _newest_rules(metas).items() if name in (b"rules", b"rules_version")}
    merged[b"indexes"] = b""
    for name in (b"floor", b"ended_from", b"demanded"):
        if most := max(numbers(name)):
            merged[name] = b"%d" % most
    for name in (b"swept", b"truncated"):  # the time up to which it was done on every shard
        if all(numbers(name)):
            merged[name] = b"%d" % min(numbers(name))
    return merged


def _newest_rules(metas: Sequence[dict[bytes, bytes]]) -> dict[bytes, bytes]:
    """The meta of the shard with the last change of block rules."""
    return max(metas, key=lambda meta: rules_version(meta.get(b"rules_version")))


# -- comparison -------------------------------------------------------------------------------------------------------


def check_copy(old: Keyspace, new: Keyspace) -> Op[int]:
    """Raise CorruptData if old and new shards differ; returns the number of sessions."""
    lengths = {**dict.fromkeys((*BY_REF, *BY_UID), "ZCARD"), "closing": "HLEN", "audit": "XLEN"}
    wrong, sessions = [], 0
    for name, length in lengths.items():
        before, after = (yield from _total(old, name, length)), (yield from _total(new, name, length))
        if name == "sessions":
            sessions = before
        was_trimmed = name == "audit" and before < after  # the old one, meanwhile
        if before != after and not was_trimmed:
            wrong.append(f"{name}: {before} and {after}")
    if wrong:
        raise CorruptData(f"Old and new shards do not agree ({', '.join(wrong)}): nothing has changed.")
    yield from _compare_records(old, new)
    return sessions


def _total(keys: Keyspace, name: str, length: str) -> Op[int]:
    replies: list[int] = yield [command(getattr(s, name), length, getattr(s, name)) for s in keys.shards]
    return sum(replies)


def _compare_records(old: Keyspace, new: Keyspace) -> Op[None]:
    """Some records of each shard, field by field, without their labels: a record may have got its own text."""
    replies = yield [command(s.sessions, "ZRANGE", s.sessions, 0, COMPARED_RECORDS - 1) for s in old.shards]
    refs = [(shard, ref) for shard, part in zip(old.shards, replies, strict=True) for ref in part]
    if not refs:
        return
    before = yield [_read_record(shard, ref) for shard, ref in refs]
    after = yield [_read_record(shard_of(new, ref.rpartition(b":")[0]), ref) for _, ref in refs]
    if before != after:
        raise CorruptData("Records of old and new shards do not agree: nothing has changed.")


def _read_record(shard: Shard, ref: bytes) -> Call:
    key = shard.record_prefix.encode() + ref
    return command(shard.tag, "HMGET", key, "s", "n", "a", "x", "i", "f", "g", "o", "e", lenient=True)
