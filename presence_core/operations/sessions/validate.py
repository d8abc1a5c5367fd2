"""Requests of a site: validate a token or a session, note that it was seen, change its attributes."""

from __future__ import annotations

import re
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

from presence_core import validation as check
from presence_core.errors import InvalidArgument
from presence_core.filters import facet_members
from presence_core.keyspace import Shard
from presence_core.models import Block, Ended, FailureCode, Session, Validation, ValidationFailed, ValidationPassed
from presence_core.models.sessions import optional_text
from presence_core.operations.context import Context, known_label_texts, label_texts, read_notes
from presence_core.operations.maintenance.sweep import settle_stale, settle_stale_of_shards
from presence_core.scripts import sessions as scripts
from presence_core.scripts.calls import CHECKED, Call, Op, call_of, checked_first, command
from presence_core.scripts.staff import READ_BLOCKS, decode_blocks

BATCH = 200
"""Refs in one heartbeat script: 2 to 6 ms of the server's time at a million sessions."""

_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_TOKEN: Final = re.compile(
    r"([A-Za-z0-9_-]{1,342})\.([A-Za-z0-9_-]{8,128})\.([A-Za-z0-9_-]{42}[AEIMQUYcgkosw048])"  # 256 bits in one spelling
)
_CODES: Final[Mapping[int, FailureCode]] = {
    scripts.SIGN_IN_REQUIRED: "sign_in_required",
    scripts.AUTHENTICATION_TOO_OLD: "authentication_too_old",
}
_DECOY = ("malformed", "malformed-token-0000", sha256(b"").digest()[:16])


def make_token(uid: str, session_id: str, secret: bytes) -> str:
    """b64url(uid) . session_id . secret"""
    return f"{_b64(uid.encode())}.{session_id}.{_b64(secret)}"


def secret_digest(secret: bytes) -> bytes:
    """The first 128 bits of the secret's SHA-256: only these are stored."""
    return sha256(secret).digest()[:16]


def _b64(raw: bytes) -> str:
    return b2a_base64(raw, newline=False).rstrip(b"=").translate(_URL_SAFE).decode()


def _unb64(text: str) -> bytes:
    return a2b_base64(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4), strict_mode=True)


def parse_token(token: object) -> tuple[str, str, bytes]:
    """uid, session id, digest. A malformed token becomes one that does not exist, so that it costs the same look-up."""
    parts = _TOKEN.fullmatch(token) if isinstance(token, str) else None
    if parts is None:
        return _DECOY
    owner, session_id, secret = parts.groups()
    try:
        return _uid_of(owner), session_id, secret_digest(_unb64(secret))
    except ValueError:
        return _DECOY


@lru_cache(maxsize=8192)
def _uid_of(owner: str) -> str:
    """The uid of a token. Cached: a visitor makes many requests."""
    uid = check.uid(_unb64(owner).decode())
    if _b64(uid.encode()) != owner:
        raise ValueError("spelled in another way")
    return uid


def validate(ctx: Context, token: object, touch: bool, ip: object, max_age: object = None) -> Op[Validation]:
    if token is None:
        raise InvalidArgument("token", "must be text")
    return _validate(ctx, *parse_token(token), touch, check.address(ip), check.max_age(max_age))


def validate_session(
    ctx: Context, uid: object, session_id: object, touch: bool, ip: object, max_age: object = None
) -> Op[Validation]:
    owner, sid = check.uid(uid), check.session_id(session_id)
    return _validate(ctx, owner, sid, b"", touch, check.address(ip), check.max_age(max_age))


def _validate(
    ctx: Context, uid: str, sid: str, digest: bytes, touch: bool, ip: bytes, max_age: int | str
) -> Op[Validation]:
    s = ctx.shard(uid)
    keys = (s.sessions, s.deadlines, s.users, s.closing, s.meta, f"{s.record_prefix}{uid}:{sid}",
            *((s.addresses,) if ip and "ip" in ctx.indexes else ()))  # fmt: skip
    [raw] = yield [call_of(scripts.VALIDATE, keys, ctx.now, uid, sid, digest, "1" if touch else "0", ip, max_age)]
    reply = scripts.decode_validate(raw)
    if reply.state == scripts.LIVE:  # nearly every call
        labels = known_label_texts(ctx, s, reply.row.core or b"")
        if labels is not None:
            return ValidationPassed(lambda: Session.from_reply(uid, sid, reply.row, labels), reply.now)
    return (yield from _judge(ctx, s, uid, sid, reply))


def _judge(ctx: Context, s: Shard, uid: str, sid: str, reply: scripts.ValidateReply) -> Op[Validation]:
    state, row, is_overdue, now = reply
    if state == scripts.LIVE:
        labels = (yield from label_texts(ctx, [(s, row.core)]))[s]
        return ValidationPassed(lambda: Session.from_reply(uid, sid, row, labels), now)
    if state == scripts.ENDED:
        return (yield from _ended(ctx, s, uid, sid, row, is_overdue))
    if state in _CODES:
        return (yield from _refused(ctx, s, uid, sid, row, _CODES[state]))
    if state == scripts.NO_RECORD:
        yield from settle_stale(ctx, s, [(uid, sid)])
    return ValidationFailed()


def _refused(ctx: Context, s: Shard, uid: str, sid: str, row: scripts.SessionRow, code: FailureCode) -> Op[Validation]:
    """A live session whose visitor must authenticate again; with staff's message, if there is one."""
    labels = (yield from label_texts(ctx, [(s, row.core)]))[s]
    note, message = s.note(row.demand_message), None
    if code == "sign_in_required" and row.demand_message:
        [message] = yield [command(note, "GET", note, lenient=True)]
    return ValidationFailed(None, code, Session.from_reply(uid, sid, row, labels), optional_text(message))


def _ended(ctx: Context, s: Shard, uid: str, sid: str, row: scripts.SessionRow, is_overdue: bool) -> Op[Validation]:
    """How a session ended, for its holder; and of a kick the block, if there is one."""
    labels = (yield from label_texts(ctx, [(s, row.core)]))[s]
    reads = [call_of(READ_BLOCKS, (s.block(uid),), ctx.now, "lenient")] if row.end_reason == b"kicked" else []
    notes, replies = yield from read_notes(s, [row], *reads)
    if is_overdue:  # its holder learns that it has ended, so that must be final
        yield from settle_stale(ctx, s, [(uid, sid)])
    blocks = [found for reply in replies for found in decode_blocks(reply) if found.blocks]
    block = next((Block.from_reply(uid, found.row).public for found in blocks), None)
    return ValidationFailed(lambda: replace(Ended.from_reply(uid, sid, row, labels, notes), block=block))


def update(ctx: Context, token: object, attributes: object) -> Op[Validation]:
    if token is None:
        raise InvalidArgument("token", "must be text")
    return _update(ctx, *parse_token(token), check.changes(attributes))


def update_session(ctx: Context, uid: object, session_id: object, attributes: object) -> Op[Validation]:
    return _update(ctx, check.uid(uid), check.session_id(session_id), b"", check.changes(attributes))


def _update(ctx: Context, uid: str, sid: str, digest: bytes, changes: Mapping[str, Any]) -> Op[Validation]:
    s = ctx.shard(uid)
    keys = (s.sessions, s.closing, s.meta, s.facets, s.recount, s.counted, s.record(uid, sid))
    words: list[str] = []
    for name, value in changes.items():
        words += (name, check.as_json(name), "" if value is None else check.as_json(value))
    declared = facet_members(ctx.settings.facets, changes)
    call = call_of(scripts.UPDATE_ATTRIBUTES, keys, ctx.now, uid, sid, digest, check.MAX_ATTRIBUTES, declared, *words)
    [raw] = yield [call]
    reply = scripts.decode_update(raw)
    if reply is None:
        raise InvalidArgument("attributes", f"{check.ATTRIBUTES_RULE}, together with those that the session has")
    return (yield from _judge(ctx, s, uid, sid, reply))


@checked_first
def heartbeat(ctx: Context, uid: object, session_id: object) -> Op[bool]:
    pair = check.uid(uid), check.session_id(session_id)
    yield CHECKED
    gone = yield from _heartbeats(ctx, [pair])
    return not gone


def heartbeats(ctx: Context, refs: Iterable[object]) -> Op[list[str]]:
    if isinstance(refs, str | bytes) or not isinstance(refs, Iterable):
        raise InvalidArgument("refs", "must be a list of refs")
    return _heartbeats(ctx, [check.ref(ref) for ref in refs])


def _heartbeats(ctx: Context, pairs: list[tuple[str, str]]) -> Op[list[str]]:
    parts = ctx.parts(pairs, lambda pair: pair[0], BATCH)
    if not parts:
        return []
    replies = yield [_heartbeat_call(ctx, s, part) for s, part in parts]
    gone = [
        (s, part[place], is_overdue)
        for (s, part), reply in zip(parts, replies, strict=True)
        for place, is_overdue in scripts.decode_heartbeat(reply)
    ]
    yield from settle_stale_of_shards(ctx, ((s, pair) for s, pair, is_overdue in gone if is_overdue))
    return [f"{uid}:{sid}" for _, (uid, sid), _ in gone]


def _heartbeat_call(ctx: Context, s: Shard, pairs: list[tuple[str, str]]) -> Call:
    prefix = s.record_prefix
    keys = [s.sessions, s.deadlines, s.users, s.meta, *(f"{prefix}{uid}:{sid}" for uid, sid in pairs)]
    return call_of(scripts.HEARTBEAT, keys, ctx.now, *(uid for uid, _ in pairs))
