"""How block rules are stored: all of them on every shard, with the version of the last change.

A change is made on the first shard, if no other change came in between. Then all rules are copied to the other shards,
each of which takes them if its version is older. After a crash between the two steps the highest version is right: the
next change, the next list and the next sweep copy it to all shards. Rules of kinds that this version does not know
stay.

A rule is the JSON of a ``BlockRule`` and its ``version``; include/staff/block_rules.lua has the fields. The cost for a
login depends on the number of prefix lengths, not of rules: +5 µs with 100 networks of one length, +265 µs with 96
lengths, where a login takes 145 µs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from presence_core.errors import OutcomeUnknown, Unavailable
from presence_core.keyspace import Shard
from presence_core.models import AuditFact, read_stored, write_facts, write_stored
from presence_core.operations.context import Context
from presence_core.operations.durability.held_changes import (
    HeldEverywhere,
    Replicas,
    hold,
    read_confirmations,
    write_and_wait_calls,
)
from presence_core.scripts.calls import Call, Op, call_of, command
from presence_core.scripts.staff import READ_BLOCK_RULES, STORE_BLOCK_RULES, rules_version

_TRIES: Final = 10
"""Of a change that other changes come before."""

Rules = Mapping[bytes, bytes]
"""Field of T:block_rules → the rule as JSON."""


@dataclass(frozen=True, slots=True)
class StoredRules:
    """The rules of all shards."""

    now: int  #: ms, by the first shard's clock
    rules: Rules  #: of the highest version
    versions: list[int]  #: of each shard

    @property
    def base(self) -> int:
        """The version of the first shard, where changes are made."""
        return self.versions[0]

    @property
    def version(self) -> int:
        return max(self.versions)

    @property
    def is_everywhere(self) -> bool:
        return min(self.versions) == self.version

    def in_force(self) -> dict[bytes, bytes]:
        """The rules without those that are past their end."""
        return {field: raw for field, raw in self.rules.items() if not _is_past(read_stored(raw), self.now)}


def read_rules(ctx: Context) -> Op[StoredRules]:
    """One round trip; two if another shard is ahead of the first one, as after a failover."""
    shards = ctx.keys.shards
    reply, *raw_versions = yield [
        call_of(READ_BLOCK_RULES, (shards[0].block_rules, shards[0].meta), ctx.now),
        *(command(s.meta, "HGET", s.meta, "rules_version") for s in shards[1:]),
    ]
    known = READ_BLOCK_RULES.reply(reply)
    versions = [known.version, *map(rules_version, raw_versions)]
    newest = shards[versions.index(max(versions))]
    rules = known.rules
    if newest is not shards[0]:
        [reply] = yield [call_of(READ_BLOCK_RULES, (newest.block_rules, newest.meta), ctx.now)]
        ahead = READ_BLOCK_RULES.reply(reply)
        versions[newest.index], rules = ahead.version, ahead.rules
    return StoredRules(known.now, rules, versions)


def _is_past(stored: Mapping[str, Any], now: int) -> bool:
    until = stored.get("until")
    return isinstance(until, int | float) and until <= now


# -- the calls of a change, and a change that is held ------------------------------------------------------------------


def rules_calls(ctx: Context, shards: Iterable[Shard], version: int, rules: Mapping[bytes, bytes]) -> list[Call]:
    """Copy the block rules to these shards; those with this version or a newer one keep what they have."""
    return [store_rules_call(ctx, s, version, rules, base=None, audit=None) for s in shards]


def store_rules_call(
    ctx: Context,
    s: Shard,
    version: int,
    rules: Mapping[bytes, bytes],
    *,
    base: int | None,
    audit: Sequence[str] | None,
) -> Call:
    """Store the block rules of a shard. base: only if this is its version; None: only if its version is older. audit:
    action, by, reason, message, ticket and facts of the entry."""
    kinds = sorted({field.partition(b":")[0] for field in rules}, key=_narrowest_first)
    lookup = b" ".join(kinds)
    words = [word for pair in rules.items() for word in pair]
    entry = dict(zip(("action", "by", "reason", "message", "ticket", "facts"), audit or ("",) * 6, strict=True))
    return call_of(STORE_BLOCK_RULES, (s.block_rules, s.meta, s.audit), *words, given_now=ctx.now,
                   audit_cap=ctx.audit_cap, version=version, base="" if base is None else base, lookup=lookup,
                   **entry)  # fmt: skip


def _narrowest_first(kind: bytes) -> tuple[int, bytes]:
    """If several rules match, the visitor gets the message of the smallest network."""
    bits = kind.partition(b"/")[2]
    return -int(bits) if bits.isdigit() else 1, kind


@dataclass(slots=True, eq=False)
class HeldRules(HeldEverywhere):
    """All block rules, as of a version."""

    version: int
    rules: Mapping[bytes, bytes]

    def calls(self, ctx: Context) -> list[Call]:
        return rules_calls(ctx, ctx.keys.shards, self.version, self.rules)


def hold_rules(ctx: Context, replicas: Replicas, version: int, rules: Mapping[bytes, bytes]) -> None:
    """Hold the block rules, unless a newer version is held."""
    before = ctx.held.get("block_rules")
    if not (isinstance(before, HeldRules) and before.version > version):
        hold(ctx, replicas, "block_rules", HeldRules(None, "", version, rules))


# -- change -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AuditFields:
    """What the audit says about a change."""

    action: str
    by: str
    reason: str
    message: str
    ticket: str
    fact: AuditFact

    @property
    def words(self) -> tuple[str, ...]:
        return self.action, self.by, self.reason, self.message, self.ticket, write_facts(self.fact)


Change = Callable[[StoredRules, dict[bytes, bytes], int], AuditFields | None]
"""Given what is stored, a copy of the rules in force to change, and the version to be: the audit entry; None: nothing
is to be written."""


def change_rules(ctx: Context, change: Change) -> Op[Replicas]:
    """Change the rules on the first shard, and copy them to the others."""
    first, *others = ctx.keys.shards
    for _ in range(_TRIES):
        stored = yield from read_rules(ctx)
        version = max(stored.version + 1, stored.now)
        rules = stored.in_force()
        audit = change(stored, rules, version)
        words = audit.words if audit else None
        [done] = yield [store_rules_call(ctx, first, version, rules, base=stored.base, audit=words)]
        if not done:
            continue
        try:
            calls = rules_calls(ctx, others, version, rules)
            waits = write_and_wait_calls(ctx, ctx.keys.shards)
            replies = (yield [*calls, *waits]) if calls or waits else []
        except Unavailable as error:
            raise OutcomeUnknown(
                f"The change is not on every shard yet: a sweep completes it, or call again. {error}",
                error.server,
                error.code,
            ) from error
        replicas = read_confirmations(ctx, ctx.keys.shards, replies)
        hold_rules(ctx, replicas, version, rules)
        return replicas
    raise Unavailable("Other staff change block rules at the same time: call again.")


# -- maintenance ------------------------------------------------------------------------------------------------------


def tidy_block_rules(ctx: Context) -> Op[None]:
    """For the sweep: remove rules that are past their end, and complete a change that a crash has left."""
    stored = yield from read_rules(ctx)
    rules = stored.in_force()
    if len(rules) < len(stored.rules):
        version = max(stored.version + 1, stored.now)
        [done] = yield [store_rules_call(ctx, ctx.keys.shards[0], version, rules, base=stored.base, audit=None)]
        others = ctx.keys.shards[1:]
        if done and others:
            yield rules_calls(ctx, others, version, rules)
    elif not stored.is_everywhere:
        yield rules_calls(ctx, ctx.keys.shards, stored.version, stored.rules)


def rewrite_block_rules(ctx: Context, strip: Callable[[str, str], str]) -> Op[int]:
    """For an erasure: rewrite the texts of all rules. ``strip``: given a field and its text, the new text. Returns how
    many rules were changed."""
    changed = 0

    def change(stored: StoredRules, rules: dict[bytes, bytes], version: int) -> None:
        nonlocal changed
        changed = 0
        for field, raw in rules.items():
            old = read_stored(raw)
            texts = {name: strip(name, old[name]) for name in ("by", "reason", "message", "ticket") if old.get(name)}
            if any(old[name] != text for name, text in texts.items()):
                rules[field] = write_stored(old | texts | {"version": version})
                changed += 1

    stored = yield from read_rules(ctx)
    change(stored, stored.in_force(), 0)
    if changed:
        yield from change_rules(ctx, change)
    return changed
