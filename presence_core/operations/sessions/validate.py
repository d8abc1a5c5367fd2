"""Requests of a site: validate a token or a session, note that it was seen."""

from __future__ import annotations

import contextlib
import re
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from hmac import digest as hmac_digest
from typing import Final, NamedTuple

from presence_core import validation as check
from presence_core.errors import CorruptData, InvalidArgument, Unavailable
from presence_core.keyspace import Shard
from presence_core.models import Block, Ended, FailureCode, Session, Validation, ValidationFailed, ValidationPassed
from presence_core.models.sessions import optional_text
from presence_core.operations.context import Context, known_label_texts, label_texts, read_notes
from presence_core.operations.sessions.settle import settle_stale, settle_stale_of_shards
from presence_core.schema.record import SessionRow
from presence_core.scripts import sessions as scripts
from presence_core.scripts.calls import CHECKED, Call, Op, call_of, checked_first, command
from presence_core.scripts.staff import READ_BLOCKS
from presence_core.text.labels import NO_LABEL, agent_label

BATCH = 200
"""Refs in one heartbeat script: 2 to 6 ms of the server's time at a million sessions."""

_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_TOKEN: Final = re.compile(
    r"([A-Za-z0-9_-]{1,342})\.([A-Za-z0-9_-]{8,128})"
    r"\.([A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]|[A-Za-z0-9_-]{44})"  # 256 bits in one spelling; with a byte: next_secret
)
_CODES: Final[Mapping[int, FailureCode]] = {
    scripts.SIGN_IN_REQUIRED: "sign_in_required",
    scripts.AUTHENTICATION_TOO_OLD: "authentication_too_old",
}
_DECOY = ("malformed", "malformed-token-0000", b"")

NONCE: Final = 16
"""Bytes of the nonce of a rotate with a grace."""

FOLLOWERS: Final = 15
"""Callers that get a secret of their own from a former one, behind the caller that replaced it; later ones share the
last."""


def make_token(uid: str, session_id: str, secret: bytes) -> str:
    """b64url(uid) . session_id . secret"""
    return f"{_b64(uid.encode())}.{session_id}.{_b64(secret)}"


def secret_digest(secret: bytes) -> bytes:
    """The first 128 bits of the secret's SHA-256: only these are stored."""
    return sha256(secret).digest()[:16]


def next_secret(secret: bytes, nonce: bytes, follower: int = 0) -> bytes:
    """The secret that a rotate with a grace puts in the place of this one, so that every caller that has the old secret
    can make it. Redis has its digest; and the nonce, for as long as the grace lasts.

    Each follower gets a secret of its own: hashed a number of times, which its last byte says, it is the secret of the
    session. So one digest serves all of them, and none can be made of one that was made before it.
    """
    steps = min(follower, FOLLOWERS)
    own = _hashed(hmac_digest(secret, nonce, "sha256"), FOLLOWERS - steps)
    return own + bytes((steps,)) if steps else own


def _session_secret(own: bytes) -> bytes:
    """The secret of the session, from that of a follower. Raises ValueError if its last byte is no number of one."""
    steps = own[-1]
    if not 1 <= steps <= FOLLOWERS:
        raise ValueError("the secret of no follower")
    return _hashed(own[:-1], steps)


def _hashed(secret: bytes, times: int) -> bytes:
    for _ in range(times):
        secret = sha256(secret).digest()
    return secret


def _b64(raw: bytes) -> str:
    return b2a_base64(raw, newline=False).rstrip(b"=").translate(_URL_SAFE).decode()


def _unb64(text: str) -> bytes:
    return a2b_base64(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4), strict_mode=True)


def is_token(text: str) -> bool:
    """Whether this text has the form of a token."""
    return _TOKEN.fullmatch(text) is not None


def parse_token(token: object) -> tuple[str, str, bytes]:
    """uid, session id, digest. A malformed token becomes one that does not exist, so that it costs the same look-up."""
    uid, sid, secret = read_token(token)
    return uid, sid, secret_digest(secret)


def read_token(token: object) -> tuple[str, str, bytes]:
    """The same with the session's secret in the place of its digest."""
    if isinstance(token, bytes | bytearray):  # of a request that was not decoded: its token may well be valid
        raise InvalidArgument("token", "must be text, not bytes: decode it", "wrong_type")
    parts = _TOKEN.fullmatch(token) if isinstance(token, str) else None
    if parts is None:
        return _DECOY
    owner, session_id, written = parts.groups()
    try:
        secret = _unb64(written)
        return _uid_of(owner), session_id, secret if len(secret) == 32 else _session_secret(secret)
    except ValueError:
        return _DECOY


@lru_cache(maxsize=8192)
def _uid_of(owner: str) -> str:
    """The uid of a token. Cached: a visitor makes many requests."""
    uid = check.uid(_unb64(owner).decode())
    if _b64(uid.encode()) != owner:
        raise ValueError("spelled in another way")
    return uid


class RequestSource(NamedTuple):
    """Where a request comes from."""

    ip: bytes = b""  #: packed, as a record has it
    place: bytes = b""  #: packed
    agent: tuple[bytes, bytes] = (NO_LABEL, b"")  #: the label of its user agent


def source_of(ctx: Context, touch: bool, ip: object, user_agent: object) -> RequestSource:
    """Where a request comes from; of one that does not count as seen the address alone."""
    address = ctx.visitor.address(ip)
    agent = ctx.visitor.user_agent(user_agent) if user_agent is not None else ""
    recorded = ctx.visitor.recorded(address)
    if not touch or not recorded:
        return RequestSource(recorded)
    return RequestSource(recorded, ctx.place_of(address), agent_label(agent, ctx.settings.record_user_agent))


def validate(
    ctx: Context, token: object, touch: bool, ip: object, max_age: object = None, user_agent: object = None
) -> Op[Validation]:
    if token is None:
        raise InvalidArgument("token", "must be text", "wrong_type")
    return _validate(ctx, *parse_token(token), touch, source_of(ctx, touch, ip, user_agent), check.max_age(max_age))


def validate_session(
    ctx: Context, uid: object, session_id: object, touch: bool, ip: object, max_age: object = None,
    user_agent: object = None,
) -> Op[Validation]:  # fmt: skip
    owner, sid = check.uid(uid), check.session_id(session_id)
    return _validate(ctx, owner, sid, b"", touch, source_of(ctx, touch, ip, user_agent), check.max_age(max_age))


@lru_cache(maxsize=4096)
def _family(agent: bytes) -> bytes:
    """os and browser of a label, a line each."""
    return b"".join(part + b"\n" for part in (agent or b"\n\n").split(b"\n", 2)[:2])


def validate_call(
    ctx: Context, s: Shard, uid: str, sid: str, digest: bytes, touch: bool, source: RequestSource, max_age: int | str
) -> Call:
    """The call that asks for one session; ``VALIDATE.reply`` reads its reply."""
    ip, place, (agent, agent_text) = source
    is_indexed = "ip" in ctx.cache.indexes
    keys = (s.sessions, s.deadlines, s.users, s.closing, s.meta, f"{s.record_prefix}{uid}:{sid}")
    given = (ctx.now, uid, sid, digest, "1" if touch else "0", ip, max_age)
    if place or agent_text:
        staff_or_mirrored = check.is_on_behalf(sid) or check.is_mirrored(sid)
        on_move = "flag" if staff_or_mirrored else ctx.settings.on_move
        head = f"{1 if is_indexed else 0}{on_move}\n{ctx.events_cap}\n".encode()
        request = b"".join((agent, head, _family(agent_text), place))
        return call_of(scripts.VALIDATE, (*keys, s.addresses, s.events, s.totals, s.labels), *given, request)
    return call_of(scripts.VALIDATE, (*keys, s.addresses) if ip and is_indexed else keys, *given)


def _validate(
    ctx: Context, uid: str, sid: str, digest: bytes, touch: bool, source: RequestSource, max_age: int | str
) -> Op[Validation]:
    s = ctx.shard(uid)
    [raw] = yield [validate_call(ctx, s, uid, sid, digest, touch, source, max_age)]
    reply = scripts.VALIDATE.reply(raw)
    if reply.state == scripts.LIVE:  # nearly every call
        labels = known_label_texts(ctx, s, reply.row.core or b"")
        if labels is not None:
            return ValidationPassed(lambda: Session.from_reply(uid, sid, reply.row, labels), reply.now, reply.has_moved)
    return (yield from judge(ctx, s, uid, sid, reply))


def judge(ctx: Context, s: Shard, uid: str, sid: str, reply: scripts.ValidateReply) -> Op[Validation]:
    """The Validation of a reply: of a session that has ended with its end, which is read."""
    state, row, is_overdue, now, has_moved = reply
    if state == scripts.LIVE:
        labels = (yield from label_texts(ctx, [(s, row.core)]))[s]
        return ValidationPassed(lambda: Session.from_reply(uid, sid, row, labels), now, has_moved)
    if state == scripts.ENDED:
        return (yield from _ended(ctx, s, uid, sid, row, is_overdue))
    if state in _CODES:
        return (yield from _refused(ctx, s, uid, sid, row, _CODES[state]))
    if state == scripts.NO_RECORD:
        yield from settle_stale(ctx, s, [(uid, sid)])
    if state == scripts.OLD_SECRET:
        yield from note_old_secret(ctx, s, uid, sid)
    return ValidationFailed()


def note_old_secret(ctx: Context, s: Shard, uid: str, sid: str) -> Op[None]:
    """Note that a secret was used after its grace: best effort, and only where the settings allow it."""
    if ctx.settings.heal:
        keys = (s.sessions, s.closing, s.meta, s.record(uid, sid), s.events)
        with contextlib.suppress(Unavailable, CorruptData):
            yield [call_of(scripts.NOTE_OLD_SECRET, keys, ctx.now, f"{uid}:{sid}", str(ctx.events_cap))]


def _refused(ctx: Context, s: Shard, uid: str, sid: str, row: SessionRow, code: FailureCode) -> Op[Validation]:
    """A live session whose visitor must authenticate again; with staff's message, if there is one."""
    labels = (yield from label_texts(ctx, [(s, row.core)]))[s]
    note, message = s.note(row.demand_message), None
    if code == "sign_in_required" and row.demand_message:
        [message] = yield [command(note, "GET", note, lenient=True)]
    return ValidationFailed(None, code, Session.from_reply(uid, sid, row, labels), optional_text(message))


def _ended(ctx: Context, s: Shard, uid: str, sid: str, row: SessionRow, is_overdue: bool) -> Op[Validation]:
    """How a session ended, for its holder; and of a kick the block, if there is one."""
    labels = (yield from label_texts(ctx, [(s, row.core)]))[s]
    reads = [call_of(READ_BLOCKS, (s.block(uid),), ctx.now, "lenient")] if row.end_reason == b"kicked" else []
    notes, replies = yield from read_notes(s, [row], *reads)
    if is_overdue:  # its holder learns that it has ended, so that must be final
        yield from settle_stale(ctx, s, [(uid, sid)])
    blocks = [found for reply in replies for found in READ_BLOCKS.reply(reply) if found.blocks]
    block = next((Block.from_reply(uid, found.row).public for found in blocks), None)
    return ValidationFailed(lambda: replace(Ended.from_reply(uid, sid, row, labels, notes), block=block))


@checked_first
def heartbeat(ctx: Context, uid: object, session_id: object) -> Op[bool]:
    pair = check.uid(uid), check.session_id(session_id)
    yield CHECKED
    gone = yield from _heartbeats(ctx, [pair])
    return not gone


def heartbeats(ctx: Context, refs: Iterable[object]) -> Op[list[str]]:
    if isinstance(refs, str | bytes) or not isinstance(refs, Iterable):
        raise InvalidArgument("refs", "must be a list of refs", "wrong_type")
    return _heartbeats(ctx, [check.ref(ref) for ref in refs])


def _heartbeats(ctx: Context, pairs: list[tuple[str, str]]) -> Op[list[str]]:
    parts = ctx.parts(pairs, lambda pair: pair[0], BATCH)
    if not parts:
        return []
    replies = yield [_heartbeat_call(ctx, s, part) for s, part in parts]
    gone = [
        (s, part[place], is_overdue)
        for (s, part), reply in zip(parts, replies, strict=True)
        for place, is_overdue in scripts.HEARTBEAT.reply(reply)
    ]
    yield from settle_stale_of_shards(ctx, ((s, pair) for s, pair, is_overdue in gone if is_overdue))
    return [f"{uid}:{sid}" for _, (uid, sid), _ in gone]


def _heartbeat_call(ctx: Context, s: Shard, pairs: list[tuple[str, str]]) -> Call:
    prefix = s.record_prefix
    keys = [s.sessions, s.deadlines, s.users, s.meta, *(f"{prefix}{uid}:{sid}" for uid, sid in pairs)]
    return call_of(scripts.HEARTBEAT, keys, ctx.now, *(uid for uid, _ in pairs))
