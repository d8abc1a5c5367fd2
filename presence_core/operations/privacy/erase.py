"""Erase a person: every key loses what it holds of them; in the audit a pseudonym takes their place.

First their sessions end. Then everything that others still read (audit, denied attempts, bulk kicks, texts, events) is
rewritten, while the records that give the names and addresses to look for still exist. The records go last. So an
erasure that breaks off is started again from the beginning, and finds everything that is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from presence_core import validation as check
from presence_core.errors import Unavailable
from presence_core.keyspace import Shard
from presence_core.models import AuditFact, EraseReport, write_facts
from presence_core.operations.context import Context
from presence_core.operations.durability.held_changes import check_capacity, confirmation, hold, release
from presence_core.operations.failed_login_row import digests_of_names
from presence_core.operations.known_devices import need_keys
from presence_core.operations.permissions import ERASE_NEEDS, require
from presence_core.operations.privacy import rewrite
from presence_core.operations.privacy.held_erasure import HeldErasure
from presence_core.operations.privacy.identity import Identity, Trace, pseudonym, read, trace, unshared, walk
from presence_core.operations.search.rebuild import remove_idp_calls
from presence_core.operations.sessions.end_request import EndRequest
from presence_core.operations.sessions.settle import settle_calls
from presence_core.scripts.calls import Call, Op, call_of, command
from presence_core.scripts.privacy import ERASE_FAILURES, ERASE_PERSON, PersonErased
from presence_core.scripts.sessions import END_SESSIONS
from presence_core.scripts.staff import WRITE_AUDIT

BATCH: Final = 100
"""Sessions, index entries and labels that one script removes."""

ROUNDS: Final = 5
"""How often entries that were written meanwhile are looked for and removed."""


def erase(ctx: Context, uid: object, by: object, reason: object) -> Op[EraseReport]:
    """Erase a person, and write that into the audit under their pseudonym."""
    return _erase(ctx, check.uid(uid), check.actor(by), check.prose("reason", reason))


def _erase(ctx: Context, uid: str, actor: str, reason: str) -> Op[EraseReport]:
    check_capacity(ctx)
    shard = ctx.shard(uid)
    yield from _check_layout(ctx)
    yield from require(ctx.keys.shards, ERASE_NEEDS)
    person = Identity(uid, (yield from pseudonym(ctx, uid)))
    released = release(ctx, uid)  # else this client would set a block again, or write a kick again
    try:
        report, ended_at = yield from _erase_all(ctx, shard, person, actor, reason)
        replicas = yield from confirmation(ctx, ctx.keys.shards)
    except BaseException:  # also cancellation
        for name, change in released.items():
            ctx.held.setdefault(name, change)
        raise
    again = HeldErasure(shard, uid, ended_at, lambda: _erase(ctx, uid, actor, reason))
    hold(ctx, replicas, ("erased", uid), again)
    return report


def _erase_all(ctx: Context, shard: Shard, person: Identity, actor: str, reason: str) -> Op[tuple[EraseReport, int]]:
    """The report, and when their sessions ended, ms."""
    kicked, ended_at = yield from _end_sessions(ctx, shard, person.uid, actor)
    report = EraseReport(person.pseudonym, kicked, 0, False, 0, 0, ())
    for _ in range(ROUNDS):
        streams = [(shard.events, rewrite.event_rewriter(person))]
        streams += [(any_shard.audit, rewrite.audit_rewriter(person)) for any_shard in ctx.keys.shards]
        last_entries = yield [command(key, "XREVRANGE", key, "+", "-", "COUNT", 1) for key, _ in streams]
        report = yield from _erase_round(ctx, shard, person, report)
        if report.live or not (yield from rewrite.changed_since(streams, last_entries)):
            break
        person = replace(person)  # a copy compiles its patterns again, with the names that the round has found
    else:
        raise Unavailable("The person logs in again, or staff act on them: call erase again.")
    actor = person.pseudonym if actor == person.uid else actor
    stripped = person.strip(reason, about=True)
    yield [
        *(_erase_typed(s, name) for s, name in (yield from _typed(ctx, person))),  # that have failed meanwhile
        call_of(WRITE_AUDIT, (shard.audit,), given_now=ctx.now, audit_cap=ctx.audit_cap, by=actor, action="forget",
                uid=person.pseudonym, reason=stripped, outcome="", facts=_facts(report), filter="")
    ]  # fmt: skip
    return report, ended_at


def _facts(report: EraseReport) -> str:
    erased = AuditFact("erased", {"count": report.sessions, "live": report.kicked})
    return write_facts(erased, *([] if report.complete else [AuditFact("not_complete")]))


def _check_layout(ctx: Context) -> Op[None]:
    """Refuse during a reshard: there are two copies then, and this would reach one. ERASE_PERSON itself is refused on a
    shard whose copying begins later (scripts/script.py)."""
    key = ctx.keys.layout
    [(step, begun, device_keys)] = yield [command(key, "HMGET", key, "step", "begun", "device_keys")]
    ctx.know_device_keys(device_keys)  # another client may have made a new one
    if step or begun:
        raise Unavailable("The sessions are being resharded: call erase when presence reshard has finished.")


def _end_sessions(ctx: Context, shard: Shard, uid: str, actor: str) -> Op[tuple[int, int]]:
    """Kick their live sessions: how many, and when, ms."""
    online, live = yield [
        command(shard.users, "ZSCORE", shard.users, uid),
        command(shard.user(uid), "SMEMBERS", shard.user(uid), lenient=True),
    ]
    if online is not None and not live:  # the user's SET was lost, and END_SESSIONS would refuse: the lists still know
        found = yield from trace(ctx, Identity(uid, ""))
        yield from _settle_sessions(ctx, shard, uid, found, "repair")
    [raw] = yield [EndRequest("kicked", "staff", actor, silent=True).end_all_but(ctx, shard, uid, [])]
    reply = END_SESSIONS.reply(raw)
    return len(reply.ended), reply.now


def _settle_sessions(ctx: Context, shard: Shard, uid: str, found: Trace, mode: str) -> Op[None]:
    calls = settle_calls(ctx, shard, [(uid, sid) for sid in found.sessions], mode)
    for first in range(0, len(calls), 20):
        yield calls[first : first + 20]


def _erase_round(ctx: Context, shard: Shard, person: Identity, before: EraseReport) -> Op[EraseReport]:
    """Every step once. Returns the report of all rounds."""
    found = yield from trace(ctx, person)  # before the tombstones: without retention, the records go with them
    yield from _settle_sessions(ctx, shard, person.uid, found, "sweep")
    yield from rewrite.rewrite_stream(ctx, shard, shard.events, rewrite.event_rewriter(person))
    yield from read(shard, person, found)  # the records of sessions that only events name
    rewritten = yield from rewrite.rewrite_denied(ctx, person)
    in_jobs, unfinished = yield from rewrite.rewrite_jobs(ctx, person)
    rewritten += in_jobs + (yield from rewrite.rewrite_notes(shard, person, found))
    rewritten += yield from rewrite.rewrite_rules(ctx, person)
    rewritten += yield from rewrite.rewrite_alerts(ctx, person)
    rewritten += yield from rewrite.rewrite_saved(ctx, person)
    rewritten += yield from rewrite.rewrite_requests(ctx, person)
    viewers = ctx.keys.common.viewers(person.uid)
    top = ctx.keys.common.top  # the next pass of the worker writes it again
    yield [
        command(viewers, "UNLINK", viewers),
        command(top, "UNLINK", top),
        command(shard.remarked, "ZREM", shard.remarked, person.uid),
        command(shard.notice_queue, "ZREM", shard.notice_queue, person.uid),
    ]
    yield from _erase_failures(ctx, shard, person, found)
    for any_shard in ctx.keys.shards:
        rewritten += yield from rewrite.rewrite_stream(ctx, any_shard, any_shard.audit, rewrite.audit_rewriter(person))
    erased = yield from _erase_records(ctx, shard, person, found)
    return replace(
        before,
        sessions=before.sessions + erased.sessions,
        unblocked=before.unblocked or erased.blocks > 0,
        rewritten=before.rewritten + rewritten,
        live=erased.live,
        unfinished=tuple(unfinished),
    )


def _erase_failures(ctx: Context, shard: Shard, person: Identity, found: Trace) -> Op[None]:
    """Remove their failed sign-ins, also those of their uid, names and aliases as someone typed them."""
    keys = shard.failed, shard.failures(person.uid)
    calls = [call_of(ERASE_FAILURES, keys, person.uid, *found.failures)]
    for s, name in (yield from _typed(ctx, person)):
        entries = yield from walk(s.failed_names, name, b":*")
        calls.append(_erase_typed(s, name, entries))
    yield calls


def _typed(ctx: Context, person: Identity) -> Op[list[tuple[Shard, str]]]:
    """The names under which failures of their uid, names and aliases are kept."""
    yield from need_keys(ctx)
    digests = digests_of_names(ctx.cache.device_keys, {person.uid, *person.names})
    return [(ctx.shard(digest), f"\n{digest}") for digest in sorted(digests)]


def _erase_typed(shard: Shard, name: str, entries: Sequence[bytes] = ()) -> Call:
    return call_of(ERASE_FAILURES, (shard.failed_names, shard.failures_of_name(name[1:])), name, *entries)


def _erase_records(ctx: Context, shard: Shard, person: Identity, found: Trace) -> Op[PersonErased]:
    """Remove the person's own records, index entries, labels and block."""
    labels = sorted((yield from unshared(shard, person.uid, found.labels)))
    for label in labels:
        ctx.cache.labels.pop((shard.index, label), None)
    named = (*shard.of_user(person.uid), *ERASE_PERSON.keys(words=shard.words, labels=shard.labels,
             block=shard.block(person.uid), blocks=shard.blocks, on_behalf=shard.on_behalf,
             failed=shard.failed, failures=shard.failures(person.uid)))  # fmt: skip
    keys = (*shard.lists, *named, *(key for key in shard.every_of_user(person.uid) if key not in named))
    left: list[Sequence[Any]] = [found.words, found.addresses, labels, sorted(person.sessions)]
    total = 0
    while True:
        batch, left = [part[:BATCH] for part in left], [part[BATCH:] for part in left]
        words, addresses, label_ids, sids = batch
        is_last = not any(left)
        records = [shard.record(person.uid, sid) for sid in sids]
        rotated = [shard.rotated(person.uid, sid) for sid in sids]
        [reply, *_] = yield [
            call_of(ERASE_PERSON, (*keys, *records), *words, *addresses, *label_ids, *sids, uid=person.uid,
                    last_call=int(is_last), words_given=len(words), addresses_given=len(addresses),
                    labels_given=len(label_ids)),
            *([command(rotated[0], "UNLINK", *rotated)] if rotated else []),
        ]  # fmt: skip
        erased = ERASE_PERSON.reply(reply)
        total += erased.sessions
        if is_last:
            if links := remove_idp_calls(shard, found.idp):
                yield links
            return erased._replace(sessions=total)
