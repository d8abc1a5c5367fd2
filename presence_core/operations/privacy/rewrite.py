"""Remove one person from what others still read: events, audit, denied attempts, bulk kicks, saved items and the texts
of staff."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from presence_core.errors import Unavailable
from presence_core.keyspace import Shard, split_ref
from presence_core.models import AuditFact, read_facts, text, write_facts
from presence_core.operations.context import Context
from presence_core.operations.maintenance.failure_alerts import read_noted
from presence_core.operations.privacy.identity import Identity, Trace
from presence_core.operations.search import list_sessions
from presence_core.operations.staff import saved_items
from presence_core.operations.staff.rule_storage import rewrite_block_rules
from presence_core.schema.audit_facts import FactValue
from presence_core.schema.conditions import PERSON_FIELDS
from presence_core.scripts.calls import Op, call_of, command, pairs
from presence_core.scripts.privacy import REWRITE_HASH, REWRITE_STREAM, StreamRewrite

BATCH: Final = 100
"""Values of a HASH that one script rewrites."""

ENTRIES: Final = 500
"""Entries of a stream that one script copies: some ms."""

KEEP_COPY: Final = 60
"""Seconds after which an unfinished copy of a stream expires."""

TRIES: Final = 20

_JOB_FIELDS: Final = ("filter", "exclude", "by", "reason", "message", "ticket", "error", "cursor")

_REQUEST_FIELDS: Final = {
    "by": "by", "answered_by": "by", "filter": "filter", "facts": "facts", "reason": "reason", "message": "message",
    "ticket": "ticket", "word": "reason", "outcome": "outcome", "approved_filter": "filter",
    "timeouts_filter": "filter",
    "approved_reason": "reason",
}  # fmt: skip
"""Field of a request → the field of the audit with such a text."""

Flat = list[bytes]
"""The fields of a stream entry: field, value, …"""

Rewriter = Callable[[Flat], "list[bytes | str] | None"]
"""Given an entry: the entry as it will be, [] to remove it, None to leave it."""


# -- streams -----------------------------------------------------------------------------------------------------------


def event_rewriter(person: Identity) -> Rewriter:
    """Removes the person's events, and notes which sessions they name."""
    uid = person.uid.encode()

    def rewrite(flat: Flat) -> list[bytes | str] | None:
        ref = dict(pairs(flat)).get(b"r", b"")
        if ref.rpartition(b":")[0] != uid:
            return None
        person.sessions.add(split_ref(text(ref))[1])
        return []

    return rewrite


def audit_rewriter(person: Identity) -> Rewriter:
    """Writes the person's pseudonym into audit entries."""

    def rewrite(flat: Flat) -> list[bytes | str] | None:
        fields = pairs(flat)
        is_own = (b"uid", person.uid.encode()) in fields
        new: list[bytes | str] = []
        for name, value in fields:
            new += (name, _audit_value(person, name, value, is_own))
        return new if new != flat else None

    return rewrite


def _audit_value(person: Identity, name: bytes, value: bytes, is_own: bool) -> bytes:
    if name in (b"uid", b"by", b"was_by"):
        return person.pseudonym.encode() if value == person.uid.encode() else value
    if name == b"session" and is_own:
        return b""
    if name == b"filter":
        return _job_value(person, "filter", value)
    if name == b"facts":
        return _facts_without(person, value, is_own)
    if name in (b"reason", b"message", b"ticket", b"was_ticket", b"tickets", b"outcome", b"session"):
        return _strip(person, value, about=is_own)
    return value


def _strip(person: Identity, value: bytes, *, own: bool = False, about: bool = False) -> bytes:
    """A text without the person; bytes that are no text stay as they are."""
    try:
        before = value.decode()
    except UnicodeDecodeError:
        return value
    return person.strip(before, own=own, about=about).encode()


def _facts_without(person: Identity, value: bytes, is_own: bool) -> bytes:
    """Facts whose texts do not name the person; codes and numbers stay."""

    def without(name: str, item: FactValue) -> FactValue:
        if name in ("name", "by") and item == person.uid:  # a staff member, also one whose uid is a plain word
            return person.pseudonym
        return person.strip(item, own=False, about=is_own) if isinstance(item, str) else item

    facts = [
        AuditFact(fact.code, {name: without(name, item) for name, item in fact.values.items()})
        for fact in read_facts(value)
    ]
    return write_facts(*facts).encode() if facts else value


def changed_since(streams: Sequence[tuple[str, Rewriter]], last_entries: Sequence[Any]) -> Op[bool]:
    """Whether any of these streams names the person behind its last entry of an earlier read."""
    for (key, rewriter), entries in zip(streams, last_entries, strict=True):
        after = next((entry_id for entry_id, _ in entries), b"")
        if (yield from _needs_rewrite(key, rewriter, after)):
            return True
    return False


def rewrite_stream(ctx: Context, shard: Shard, key: str, rewriter: Rewriter) -> Op[int]:
    """Rewrite a stream where an entry needs it. Returns how many entries were changed."""
    for _ in range(TRIES):
        if not (yield from _needs_rewrite(key, rewriter)):
            return 0
        changed = yield from _copy_stream(ctx, shard, key, rewriter)
        if changed is not None:
            return changed
    raise Unavailable("Another process erases people at the same time: call erase again.")


def _needs_rewrite(key: str, rewriter: Rewriter, after: bytes = b"") -> Op[bool]:
    needed = False
    while entries := (yield from _read_entries(key, after)):
        after, _ = entries[-1]
        for _, flat in entries:  # to the end: the sessions that events name are looked for in the audit
            needed = rewriter(flat) is not None or needed
    return needed


def _read_entries(key: str, after: bytes) -> Op[list[tuple[bytes, Flat]]]:
    begin = b"(" + after if after else b"-"
    [entries] = yield [command(key, "XRANGE", key, begin, "+", "COUNT", ENTRIES)]
    return [(entry_id, flat) for entry_id, flat in entries]


def _copy_stream(ctx: Context, shard: Shard, key: str, rewriter: Rewriter) -> Op[int | None]:
    """Copy the stream with its changes, and put the copy in its place. None: another process was first."""
    copy = shard.retold(ctx.new_id())
    [(begun,)] = yield [command(shard.meta, "HMGET", shard.meta, "retold")]
    after, changed, was_empty = b"", 0, False
    while True:
        entries = yield from _read_entries(key, after)
        upto = after
        changes: list[bytes | str | int] = []
        for upto, flat in entries:
            new = rewriter(flat)
            if new is not None:
                changes += (upto, len(new), *new)
                changed += 1
        if not upto:
            return changed
        is_last = len(entries) < ENTRIES
        keys = (key, copy, shard.meta)
        [reply] = yield [
            call_of(REWRITE_STREAM, keys, begun or b"", after, upto, 1 if is_last else 0, KEEP_COPY, *changes)
        ]  # fmt: skip
        rewrite = StreamRewrite(reply)
        # An entry came after the read; empty twice means that the stream is gone.
        is_empty = rewrite is StreamRewrite.NEW_ENTRIES and not entries
        if rewrite is StreamRewrite.RESTART or (is_empty and was_empty):
            return None
        was_empty = is_empty
        if is_last and rewrite is StreamRewrite.DONE:
            return changed
        after = upto


# -- denied attempts ---------------------------------------------------------------------------------------------------


def rewrite_denied(ctx: Context, person: Identity) -> Op[int]:
    """Returns how many rows were changed."""
    key = ctx.keys.common.denied
    [table] = yield [command(key, "HGETALL", key, lenient=True)]
    rows = {text(name): (name, value) for name, value in pairs(table or ())}
    changes: list[bytes | str] = []
    for name, (raw_name, raw_value) in rows.items():
        _, existing = rows.get(_renamed(person, name), (b"", b""))
        new = _denied_row(person, name, text(raw_value), text(existing))
        if new != (name, text(raw_value)):
            changes += (raw_name, raw_value, *new)
    changed = 0
    for first in range(0, len(changes), 4 * BATCH):
        changed += sum((yield [call_of(REWRITE_HASH, (key,), *changes[first : first + 4 * BATCH])]))
    return changed


def _renamed(person: Identity, name: str) -> str:
    """A row's name with the pseudonym in place of the actor."""
    start, line_break, by = name.rpartition("\n")
    return start + line_break + (person.pseudonym if by == person.uid else by)


def _denied_row(person: Identity, name: str, value: str, existing: str) -> tuple[str, str]:
    """A row (staff/count_denied.lua) without the person. ``existing``: the row that already has the new name."""
    parts = value.split("\n", 4)
    if name.count("\n") != 2 or len(parts) != 5:
        return name, value  # another program's
    *numbers, uid, reason = parts
    is_own = uid == person.uid
    new_name = _renamed(person, name)
    if new_name != name:  # an erasure within the same hour may have left a row of that name
        numbers = _add_counts(numbers, existing.split("\n", 4)[:3])
    uid = person.pseudonym if is_own else uid
    return new_name, "\n".join([*numbers, uid, person.strip(reason, about=is_own)])


def _add_counts(numbers: list[str], others: list[str]) -> list[str]:
    """The sum of two rows' (count, first, last); the first where one of them holds no numbers."""
    if not all(part.isdecimal() for part in (*numbers, *others)):
        return numbers
    (count, first, last), (other_count, other_first, other_last) = map(int, numbers), map(int, others)
    return [str(count + other_count), str(min(first, other_first)), str(max(last, other_last))]


def rewrite_alerts(ctx: Context, person: Identity) -> Op[int]:
    """Remove the person from the worker's note of alerts on failed sign-ins. Older versions noted uids, not digests."""
    key = ctx.keys.common.worker
    [raw] = yield [command(key, "HGET", key, "failure_alerts", lenient=True)]
    noted = read_noted(raw)
    if noted.pop(person.uid, None) is None:
        return 0
    [changed] = yield [call_of(REWRITE_HASH, (key,), "failure_alerts", raw, "failure_alerts", json.dumps(noted))]
    return int(changed)


# -- bulk kicks and texts ----------------------------------------------------------------------------------------------


def rewrite_jobs(ctx: Context, person: Identity) -> Op[tuple[int, list[str]]]:
    """How many values of bulk kicks were changed, and the ids of unfinished bulk kicks, which are left alone."""
    shard = ctx.keys.shards[0]
    [ids] = yield [command(shard.jobs, "ZRANGE", shard.jobs, 0, -1)]
    changed, unfinished = 0, []
    for job_id in map(text, ids):
        key = shard.job(job_id)
        [row] = yield [command(key, "HMGET", key, "state", *_JOB_FIELDS, lenient=True)]
        state, *values = row or [None]
        if not state:
            continue
        changes: list[bytes | str] = []
        for name, old in zip(_JOB_FIELDS, values, strict=True):
            new = old and _job_value(person, name, old)
            if new is not None and new != old:
                changes += (name, old, name, new)
        if changes and state in (b"running", b"paused"):
            unfinished.append(job_id)
        elif changes:
            changed += sum((yield [call_of(REWRITE_HASH, (key,), *changes)]))
    return changed, unfinished


def _job_value(person: Identity, name: str, value: bytes) -> bytes:
    if name == "by":
        return person.pseudonym.encode() if value == person.uid.encode() else value
    if name == "cursor":  # it names the last session of a page; a job that has ended needs none
        return b"" if list_sessions.uid_of_cursor(value) == person.uid else value
    if name not in ("filter", "exclude"):
        return _strip(person, value)
    try:
        stored = json.loads(value)
    except (ValueError, RecursionError):
        return value
    new = _exclude_without(person, stored) if name == "exclude" else _filter_without(person, stored)
    return value if new == stored else json.dumps(new, ensure_ascii=False, sort_keys=name == "filter").encode()


def _exclude_without(person: Identity, refs: Any) -> Any:
    if not isinstance(refs, list):
        return refs
    return [ref for ref in refs if not isinstance(ref, str) or split_ref(ref)[0] != person.uid]


def _filter_without(person: Identity, stored: Any) -> Any:
    """The filter of a bulk kick without the person. It stays a valid filter, so that the job can still be read."""
    if not isinstance(stored, dict):
        return stored
    new = {name: person.strip_json(value, own=name in PERSON_FIELDS) for name, value in stored.items()}
    if "uid" in stored:
        new["uid"] = person.pseudonym if stored["uid"] == person.uid else stored["uid"]
    if "without" in stored:
        new["without"] = _filter_without(person, stored["without"])
    if new.get("ip") != stored.get("ip"):  # the person's address: an address that no session has takes its place
        new["ip"] = "::/128" if ":" in stored["ip"] else "0.0.0.0/32"
    return new


def rewrite_rules(ctx: Context, person: Identity) -> Op[int]:
    """Rewrite the texts of block rules. Their networks stay: a rule names no user, and protects all others."""

    def strip(name: str, value: str) -> str:
        if name == "by":
            return person.pseudonym if value == person.uid else value
        return person.strip(value)

    return rewrite_block_rules(ctx, strip)


def rewrite_saved(ctx: Context, person: Identity) -> Op[int]:
    """Remove the person's own saved items, and those that watch them; rewrite the items that name them."""
    key = ctx.keys.shards[0].saved
    changed = 0
    for saved in (yield from saved_items.all_lists(ctx)):
        if saved.owner == person.uid.lower():
            yield [command(key, "HDEL", key, saved.field)]
            changed += 1
        elif (new := _saved_list(person, saved)) != saved.value:
            [rewritten] = yield [call_of(REWRITE_HASH, (key,), saved.field, saved.value, saved.field, new)]
            changed += rewritten
    return changed


def _saved_list(person: Identity, saved: saved_items.SavedList) -> bytes:
    """A list of saved items without the person; as it was, if nothing names them."""
    try:
        stored = json.loads(saved.value)
    except (ValueError, RecursionError):
        return saved.value
    if not isinstance(stored, dict):
        return saved.value
    new = {}
    for name, row in stored.items():
        if saved.kind == "watch" and name == person.uid:
            continue
        is_by = isinstance(row, dict) and row.get("by") == person.uid
        row = person.strip_json(row, own=True)
        stripped = person.strip(name, own=True) if saved.kind != "watch" else name
        free, number = stripped, 2
        while free in new or (free != name and free in stored):  # two names may differ only in case or accents
            free, number = f"{stripped} ({number})", number + 1
        new[free] = row | {"by": person.pseudonym} if is_by else row
    return saved.value if new == stored else json.dumps(new, ensure_ascii=False).encode()


def rewrite_requests(ctx: Context, person: Identity) -> Op[int]:
    """Rewrite requests for approval. An open one whose filter names the person lapses: no one approves another filter
    than was asked."""
    key = ctx.keys.shards[0].approvals
    [table] = yield [command(key, "HGETALL", key, lenient=True)]
    changes: list[bytes | str] = []
    for name, value in pairs(table or ()):
        new = _request_without(person, value)
        if new != value:
            changes += (name, value, name, new)
    return sum((yield [call_of(REWRITE_HASH, (key,), *changes)])) if changes else 0


def _request_without(person: Identity, value: bytes) -> bytes:
    try:
        stored = json.loads(value)
    except (ValueError, RecursionError):
        return value
    if not isinstance(stored, dict):
        return value
    new = dict(stored)
    for name, like in _REQUEST_FIELDS.items():
        if isinstance(before := stored.get(name), str):
            new[name] = _audit_value(person, like.encode(), before.encode(), is_own=False).decode()
    for name in ("exclude", "approved_exclude"):
        if isinstance(before := stored.get(name), str):
            new[name] = _job_value(person, "exclude", before.encode()).decode()
    if new.get("state") == "open" and any(
        new.get(name) != stored.get(name) for name in ("filter", "timeouts_filter", "exclude")
    ):
        new |= {"state": "lapsed", "answered_at": new.get("until", "")}
    return value if new == stored else json.dumps(new, ensure_ascii=False).encode()


def rewrite_notes(shard: Shard, person: Identity, found: Trace) -> Op[int]:
    """Rewrite the texts that staff wrote about the person's ends; other people's ends may share them."""
    changed = 0
    for note in sorted(found.notes):
        key = shard.note(note)
        [value] = yield [command(key, "GET", key, lenient=True)]
        new = _strip(person, value, own=True) if isinstance(value, bytes) else value
        if new != value:
            yield [command(key, "SET", key, new, "XX", "KEEPTTL")]
            changed += 1
    return changed
