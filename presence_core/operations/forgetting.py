"""A person is forgotten: every trace of them goes out of every key, and what staff did to them keeps a pseudonym.

First their sessions end. Then what others will still read (audit, denied attempts, bulk kicks, texts, events) is put in
other words, while the records that say by which name and address to look are still there; these go last. So a forget
that breaks off is done again from the beginning, and finds all that is left.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from presence_core import settings as check
from presence_core.errors import Unavailable
from presence_core.keyspace import Shard, split_ref
from presence_core.models import ForgetReport, text
from presence_core.operations import listing
from presence_core.operations.context import Context, pairs
from presence_core.operations.ending import Why
from presence_core.operations.holding import (
    HeldErasure,
    check_room,
    confirmation,
    hold,
    release,
)
from presence_core.operations.identity import Identity, Trace, pseudonym, read, trace, unshared
from presence_core.operations.upkeep import tidy_calls
from presence_core.scripts import ERASE, NOTE, RETELL, REWORD, Op, command, run

BATCH: Final = 100
"""Sessions in one script that erases, and entries of indexes."""

ENTRIES: Final = 500
"""Entries of a stream in one script that tells it anew: some ms."""

KEEP_COPY: Final = 60
"""Seconds after which a copy of a stream goes that nobody goes on with."""

TRIES: Final = 20

ROUNDS: Final = 5
"""How often what came meanwhile is looked for and taken out."""

_NAMING: Final = ("text", "name_prefix", "name_contains", "ip")
"""What in a bulk kick's question may be about one person."""

Look = Callable[[list[bytes]], "list[bytes | str] | None"]
"""Given field, value, … of an entry: what it becomes, [] where it goes, None where it stays."""


def forget(ctx: Context, uid: object, by: object, reason: object) -> Op[ForgetReport]:
    owner, actor, why = check.uid(uid), check.actor(by), check.prose("reason", reason)
    return _forget(ctx, owner, actor, why)


def _forget(ctx: Context, uid: str, actor: str, why: str) -> Op[ForgetReport]:
    check_room(ctx)
    s = ctx.shard(uid)
    yield from _none_moves(ctx)
    who = Identity(uid, (yield from pseudonym(ctx, uid)))
    kicked, upto = yield from _end(ctx, s, uid, actor)
    report = ForgetReport(who.pseudonym, kicked, 0, False, 0, 0, ())
    for _ in range(ROUNDS):
        streams = [(s.events, _event_of(who)), *((shard.audit, _audit_of(who)) for shard in ctx.keys.shards)]
        ends = yield [command(key, "XREVRANGE", key, "+", "-", "COUNT", 1) for key, _ in streams]
        report = yield from _round(ctx, s, who, report)
        if report.live or not (yield from _came(streams, ends)):
            break
        who = replace(who)  # with what it has learnt
    else:
        raise Unavailable("They come and go meanwhile, or staff act on them: call forget again.")
    gone = report.sessions
    said = f"{gone:,} session{'' if gone == 1 else 's'} forgotten, {kicked:,} of them live"
    if not report.complete:
        said += ", not complete"
    actor = who.pseudonym if actor == uid else actor
    args = (ctx.audit_cap, actor, "forget", who.pseudonym, who.strip(why, about=True), said)
    yield [run(NOTE, (s.audit,), ctx.now, *args)]
    told = yield from confirmation(ctx, ctx.keys.shards)
    hold(ctx, told, ("erased", uid), HeldErasure(s, uid, upto, lambda: _forget(ctx, uid, actor, why)))
    return report


def _none_moves(ctx: Context) -> Op[None]:
    """Of a move that is not done, or that broke off, both copies are there, and we would reach one. What begins later
    is met by a script that does not go on while its shard is copied (scripts.py)."""
    key = ctx.keys.layout
    [(step, begun)] = yield [command(key, "HMGET", key, "step", "begun")]
    if step or begun:
        raise Unavailable("The sessions are being moved: call forget once presence migrate has come to its end.")


def _round(ctx: Context, s: Shard, who: Identity, before: ForgetReport) -> Op[ForgetReport]:
    """All of it once; answers what it comes to with what was done before."""
    found = yield from trace(ctx, who)  # before the tombstones: where none are kept, the records go with them
    yield from _tidy(ctx, s, who.uid, found, "sweep")
    yield from _retell(ctx, s, s.events, _event_of(who))
    yield from read(s, who, found)  # those that only events have told of
    rewritten = yield from _from_denied(ctx, who)
    changed, unfinished = yield from _from_jobs(ctx, who)
    rewritten += changed + (yield from _from_notes(s, who, found))
    for shard in ctx.keys.shards:
        rewritten += yield from _retell(ctx, shard, shard.audit, _audit_of(who))
    gone, was_blocked, live = yield from _erase(ctx, s, who, found)
    return replace(
        before,
        sessions=before.sessions + gone,
        unblocked=before.unblocked or was_blocked,
        rewritten=before.rewritten + rewritten,
        live=live,
        unfinished=tuple(unfinished),
    )


def _came(streams: list[tuple[str, Look]], ends: list[Any]) -> Op[bool]:
    """Whether any of these streams tells of them behind the entry with which it ended."""
    for (key, look), end in zip(streams, ends, strict=True):
        if (yield from _is_concerned(key, look, end[0][0] if end else b"")):
            return True
    return False


def _end(ctx: Context, s: Shard, uid: str, actor: str) -> Op[tuple[int, int]]:
    """Their live sessions end as kicked: how many, and when, ms."""
    release(ctx, uid)  # else a block would be set again, a kick written down again
    online, live = yield [
        command(s.users, "ZSCORE", s.users, uid),
        command(s.user(uid), "SMEMBERS", s.user(uid), lenient=True),
    ]
    if online is not None and not live:  # finish.lua refuses where the user's SET was lost: the lists know
        lost = yield from trace(ctx, Identity(uid, ""))
        yield from _tidy(ctx, s, uid, lost, "repair")
    [(done, *_, now)] = yield [Why("kicked", "staff", actor, silent=True).all_but(ctx, s, uid, [])]
    return len(done), now


def _tidy(ctx: Context, s: Shard, uid: str, found: Trace, mode: str) -> Op[None]:
    calls = tidy_calls(ctx, s, [(uid, sid) for sid in found.sessions], mode)
    for first in range(0, len(calls), 20):
        yield calls[first : first + 20]


# -- what others will still read ---------------------------------------------------------------------------------------


def _event_of(who: Identity) -> Look:
    """An event of theirs goes, and is remembered."""
    uid = who.uid.encode()

    def look(flat: list[bytes]) -> list[bytes | str] | None:
        ref = dict(zip(flat[::2], flat[1::2], strict=True)).get(b"r", b"")
        if ref.rpartition(b":")[0] != uid:
            return None
        who.sessions.add(split_ref(text(ref))[1])
        return []

    return look


def _audit_of(who: Identity) -> Look:
    """How an entry of the audit reads without them."""

    def look(flat: list[bytes]) -> list[bytes | str] | None:
        known = dict(zip(flat[::2], flat[1::2], strict=True))
        own = known.get(b"uid") == who.uid.encode()
        out: list[bytes | str] = []
        for name, value in zip(flat[::2], flat[1::2], strict=True):
            out += (name, _word(who, name, value, own))
        return out if out != flat else None

    return look


def _word(who: Identity, name: bytes, value: bytes, own: bool) -> bytes:
    if name in (b"uid", b"by", b"was_by"):
        return who.pseudonym.encode() if value == who.uid.encode() else value
    if name == b"session" and own:
        return b""
    if name in (b"reason", b"message", b"ticket", b"was_ticket", b"tickets", b"outcome", b"session"):
        return _strip(who, value, about=own)
    return value


def _strip(who: Identity, value: bytes, *, own: bool = False, about: bool = False) -> bytes:
    """What is not our text stays as it is, byte for byte."""
    try:
        before = value.decode()
    except UnicodeDecodeError:
        return value
    return who.strip(before, own=own, about=about).encode()


def _retell(ctx: Context, s: Shard, key: str, look: Look) -> Op[int]:
    """Tell a stream anew, where anything in it is to be changed; answers how many entries were."""
    for _ in range(TRIES):
        if not (yield from _is_concerned(key, look)):
            return 0
        changed = yield from _retell_once(ctx, s, key, look)
        if changed is not None:
            return changed
    raise Unavailable("Others forget people at the same time: call forget again.")


def _read(key: str, after: bytes) -> Op[list[list[Any]]]:
    begin = b"(" + after if after else b"-"
    [entries] = yield [command(key, "XRANGE", key, begin, "+", "COUNT", ENTRIES)]
    return list(entries)


def _is_concerned(key: str, look: Look, after: bytes = b"") -> Op[bool]:
    concerned = False
    while entries := (yield from _read(key, after)):
        after = entries[-1][0]
        for _, flat in entries:  # all of them: what events name, the audit is searched for
            concerned = look(flat) is not None or concerned
    return concerned


def _retell_once(ctx: Context, s: Shard, key: str, look: Look) -> Op[int | None]:
    """None: somebody else was done before."""
    copy = s.retold(ctx.new_id())
    [(begun,)] = yield [command(s.meta, "HMGET", s.meta, "retold")]
    after, changed, was_empty = b"", 0, False
    while True:
        entries = yield from _read(key, after)
        upto = entries[-1][0] if entries else after
        if not upto:
            return changed
        words: list[bytes | str | int] = []
        for entry, flat in entries:
            new = look(flat)
            if new is not None:
                words += (entry, len(new), *new)
                changed += 1
        is_last = len(entries) < ENTRIES
        args = (begun or b"", after, upto, 1 if is_last else 0, KEEP_COPY)
        [code] = yield [run(RETELL, (key, copy, s.meta), *args, *words)]
        is_empty = not code and not entries  # one has come since that look; twice, and the stream is gone
        if code < 0 or (is_empty and was_empty):
            return None
        was_empty = is_empty
        if is_last and code == 1:
            return changed
        after = upto


def _from_denied(ctx: Context, who: Identity) -> Op[int]:
    key = ctx.keys.common.denied
    [table] = yield [command(key, "HGETALL", key, lenient=True)]
    words: list[bytes | str] = []
    rows = dict(pairs(table or ()))
    for raw, value in rows.items():
        name, parts = text(raw).split("\n"), text(value).split("\n", 4)
        if len(name) != 3 or len(parts) != 5:
            continue  # not ours
        own = parts[3] == who.uid
        if own:
            parts[3] = who.pseudonym
        if name[2] == who.uid:
            name[2] = who.pseudonym
            other = text(rows.get("\n".join(name).encode(), b"")).split("\n", 4)
            if all(part.isdecimal() for part in (*parts[:3], *other[:3])):  # of a forget within the same hour
                one, two = ([int(part) for part in row[:3]] for row in (parts, other))
                parts[:3] = map(str, (one[0] + two[0], min(one[1], two[1]), max(one[2], two[2])))
        parts[4] = who.strip(parts[4], about=own)
        new = ("\n".join(name), "\n".join(parts))
        if new != (text(raw), text(value)):
            words += (raw, value, *new)
    changed = 0
    for first in range(0, len(words), 4 * BATCH):
        changed += sum((yield [run(REWORD, (key,), *words[first : first + 4 * BATCH])]))
    return changed


def _from_jobs(ctx: Context, who: Identity) -> Op[tuple[int, list[str]]]:
    """Bulk kicks that name them: how many values were changed, and those that are not over, which are left alone."""
    s = ctx.keys.shards[0]
    [ids] = yield [command(s.jobs, "ZRANGE", s.jobs, 0, -1)]
    fields = ("state", "filter", "exclude", "by", "reason", "message", "ticket", "error", "cursor")
    changed, unfinished = 0, []
    for job_id in map(text, ids):
        key = s.job(job_id)
        [row] = yield [command(key, "HMGET", key, *fields, lenient=True)]
        if not row or not row[0]:
            continue
        words: list[bytes | str] = []
        for name, old in zip(fields[1:], row[1:], strict=True):
            new = old and _job_word(who, name, old)
            if new is not None and new != old:
                words += (name, old, name, new)
        if words and row[0] in (b"running", b"paused"):
            unfinished.append(job_id)
        elif words:
            changed += sum((yield [run(REWORD, (key,), *words)]))
    return changed, unfinished


def _job_word(who: Identity, name: str, value: bytes) -> bytes:
    if name == "by":
        return who.pseudonym.encode() if value == who.uid.encode() else value
    if name == "cursor":  # the last session of a page: one that is over needs it no more
        return b"" if listing.whose(value) == who.uid else value
    if name not in ("filter", "exclude"):
        return _strip(who, value)
    try:
        known = json.loads(value)
    except (ValueError, RecursionError):
        return value
    new = _without(who, known) if name == "exclude" else _question(who, known)
    return value if new == known else json.dumps(new, ensure_ascii=False, sort_keys=name == "filter").encode()


def _without(who: Identity, refs: Any) -> Any:
    """The sessions that a bulk kick spared."""
    if not isinstance(refs, list):
        return refs
    return [ref for ref in refs if not isinstance(ref, str) or split_ref(ref)[0] != who.uid]


def _question(who: Identity, asked: Any) -> Any:
    """What a bulk kick asked for: a question as before, so that the job can still be read."""
    if not isinstance(asked, dict):
        return asked
    new = {name: who.strip_json(value, own=name in _NAMING) for name, value in asked.items() if name != "uid"}
    if "uid" in asked:
        new["uid"] = who.pseudonym if asked["uid"] == who.uid else asked["uid"]
    if new.get("ip") != asked.get("ip"):  # their address
        new["ip"] = "::/128" if ":" in asked["ip"] else "0.0.0.0/32"
    return new


def _from_notes(s: Shard, who: Identity, found: Trace) -> Op[int]:
    """Texts that staff wrote of their ends; others' ends may share them."""
    changed = 0
    for note in sorted(found.notes):
        key = s.note(note)
        [value] = yield [command(key, "GET", key, lenient=True)]
        new = _strip(who, value, own=True) if isinstance(value, bytes) else value
        if new != value:
            yield [command(key, "SET", key, new, "XX", "KEEPTTL")]
            changed += 1
    return changed


# -- what is theirs alone ----------------------------------------------------------------------------------------------


def _erase(ctx: Context, s: Shard, who: Identity, found: Trace) -> Op[tuple[int, bool, int]]:
    labels = sorted((yield from unshared(ctx, s, who.uid, found.labels)))
    keys = (*s.lists, *s.of_user(who.uid), s.words, s.labels, s.block(who.uid), s.blocks)
    sids, words, addresses = sorted(who.sessions), found.words, found.addresses
    gone = 0
    for label in labels:
        ctx.labels.pop((s.index, label), None)
    while True:
        now_sids, sids = sids[:BATCH], sids[BATCH:]
        now_words, words = words[:BATCH], words[BATCH:]
        now_addresses, addresses = addresses[:BATCH], addresses[BATCH:]
        now_labels, labels = labels[:BATCH], labels[BATCH:]
        is_last = not (sids or words or addresses or labels)
        counts = (int(is_last), len(now_words), len(now_addresses), len(now_labels))
        args: tuple[str | bytes | int, ...] = (*counts, *now_words, *now_addresses, *now_labels, *now_sids)
        records = [s.record(who.uid, sid) for sid in now_sids]
        [(sessions, block, live)] = yield [run(ERASE, (*keys, *records), who.uid, *args)]
        gone += sessions
        if is_last:
            return gone, bool(block), live
