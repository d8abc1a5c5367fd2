"""The calls that begin sessions: of one login with all that it may need, and of many that need no decision."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from presence_core.keyspace import Shard
from presence_core.models import NO_LABEL, Session, sign_in_text
from presence_core.models.places import read_place
from presence_core.operations.context import Context
from presence_core.operations.failed_login_row import packed_failure
from presence_core.operations.known_devices import digests
from presence_core.operations.sessions.login_row import LoginRow
from presence_core.operations.sessions.validate import secret_digest
from presence_core.schema.record import SessionRow
from presence_core.scripts.calls import Call, call_of, later
from presence_core.scripts.sessions import BEGIN_SESSIONS, LOGIN, LoginReply, RefusedReply
from presence_core.settings import DAY, Settings
from presence_core.text.labels import agent_label, label
from presence_core.text.search_text import entries, id_digest
from presence_core.text.user_agents import families
from presence_core.validation import is_mirrored

MAX_LABELS: Final = 8192
"""Texts that one shard keeps once: a few MB at the very most, and more than the user agents of a real site."""

BEGUN_TOGETHER: Final = 32
"""Sessions that one script begins: it holds Redis for 1 to 2 ms."""

LONG_TEXT: Final = 100
"""Bytes of name and aliases that take as long as a session more, because of their entries in the index of words."""

NO_REPLY: Final = RefusedReply("")

_CORE: Final = struct.Struct(">II16s4s4s")
"""``models.sessions.CORE`` behind the login time, which the script decides."""


@dataclass(slots=True)
class LoginAttempt:
    """One login on its way."""

    shard: Shard
    row: LoginRow
    secret: bytes
    core: bytes = b""  #: of a begin_sessions call: the core of the record behind the login time
    reply: LoginReply | RefusedReply = NO_REPLY
    replaced: list[Session] = field(default_factory=list)


def labels_of(row: LoginRow) -> tuple[tuple[bytes, bytes], tuple[bytes, bytes]]:
    """The labels of the client, as the site named it, and of the user agent, with os and browser."""
    agent = agent_label(row.user_agent, bool(row.recorded_agent))
    return client_label(row.device, row.app, row.app_version), agent


def client_label(device: str, app: str, app_version: str) -> tuple[bytes, bytes]:
    """The label of a client, as the site named it."""
    return label(f"{device}\n{app}\n{app_version}" if device or app or app_version else "")


def login_call(ctx: Context, attempt: LoginAttempt) -> Call:
    """One login, with all keys that its decisions may need."""
    return later(attempt.shard.sessions, LOGIN, partial(_login_call, ctx, attempt.shard, attempt.row, attempt.secret))


def _login_call(ctx: Context, s: Shard, row: LoginRow, secret: bytes) -> Call:
    settings = ctx.settings
    (client_id, client_text), (agent_id, agent_text) = labels_of(row)
    fields = row.given_words()
    keys = (*s.lists, s.labels, s.words, s.block(row.uid), *s.of_user(row.uid), s.record(row.uid, row.session_id),
            s.block_rules, s.ids, s.idp, s.failed, s.failures(row.uid), s.failed_from,
            *_optional_keys(ctx, s, row))  # fmt: skip
    return call_of(
        LOGIN, keys, *fields, *entries(ctx.cache.indexes, row.uid, row.name, row.aliases),
        given_now=ctx.now,
        packed_policy=ctx.cache.policy,
        uid=row.uid,
        sid=row.session_id,
        digest=secret_digest(secret),
        idle=str(row.idle),
        absolute=str(row.absolute),
        ip=row.recorded_ip,
        client_id=client_id,
        client_text=client_text,
        agent_id=agent_id,
        agent_text=agent_text,
        max_labels=str(MAX_LABELS),
        device="" if row.on_behalf_by else row.device,
        max_sessions=str(row.max_sessions),
        max_per_device=str(settings.max_sessions_per_device or 0),
        on_limit=settings.on_limit,
        given_login=str(row.login_at),
        given_seen=str(row.last_seen),
        declared=row.facets,
        index_address="1" if "ip" in ctx.cache.indexes else "0",
        id_digest=id_digest(row.session_id, len(ctx.keys.shards)) if "uid" in ctx.cache.indexes else "",
        methods=row.authentication,
        packed_odd=_odd(ctx, row),
        place=row.place,
        full_ip=row.ip,
        no_address=settings.no_address,
        idp_end=str(row.idp_end),
        sign_in=_sign_in(settings, row),
        failure=_failure(ctx, row),
        link=row.idp if "idp" in ctx.cache.indexes else "",
        number_of_words=str(len(fields)),
    )  # fmt: skip


def _failure(ctx: Context, row: LoginRow) -> bytes:
    """What the script notes if it refuses the login."""
    if row.on_behalf_by or row.login_at != "" or is_mirrored(row.session_id):
        return b""
    return packed_failure(ctx, row.recorded_ip, row.place, row.app, row.user_agent)


def _optional_keys(ctx: Context, s: Shard, row: LoginRow) -> tuple[str, ...]:
    if row.on_behalf_by:
        return s.audit, s.on_behalf
    odd = s.known(row.uid), s.place(row.uid)
    if ctx.settings.keep_sign_ins:
        return *odd, s.sign_ins(row.uid)
    return odd if row.device_id or row.place else ()


def _sign_in(settings: Settings, row: LoginRow) -> bytes:
    """For how many ms the sign-in is kept, and its text; empty if it is not, or is one of staff on behalf of the
    user."""
    if not settings.keep_sign_ins or row.on_behalf_by:
        return b""
    text = sign_in_text(read_place(row.place), row.device, row.app, row.app_version, *families(row.user_agent))
    return b"%d\n%b" % (settings.keep_sign_ins * DAY * 1000, text)


def _odd(ctx: Context, row: LoginRow) -> str:
    """What may be odd about a login, as include/login/odd_login.lua reads it."""
    if row.on_behalf_by:
        return json.dumps({"by": row.on_behalf_by, "reason": row.reason}, ensure_ascii=False)
    if not row.device_id or not (ctx.settings.keep_devices or ctx.settings.max_sessions_per_device):
        return ""
    devices = digests(ctx, row.uid, row.device_id)
    given = {"devices": devices, "rotated": ctx.cache.device_key_at, "keep": ctx.settings.keep_devices}
    return json.dumps(given) if devices else ""


# -- sessions that need no decision -----------------------------------------------------------------------------------


@dataclass(slots=True)
class BeginCall:
    """A call that begins sessions together, and their logins."""

    ctx: Context
    shard: Shard
    max_sessions: int  #: of each login
    attempts: list[LoginAttempt] = field(default_factory=list)
    weight: int = 0

    def call(self) -> Call:
        return later(self.shard.sessions, BEGIN_SESSIONS, self._call)

    def take_reply(self, raw: bytes) -> None:
        """Give each login its reply; those that need a decision keep NO_REPLY."""
        for attempt, begun in zip(self.attempts, BEGIN_SESSIONS.reply(raw), strict=False):
            if begun is not None:
                login, methods = begun.login.to_bytes(8, "big"), attempt.row.authentication
                authentication = login + methods.encode() if methods else None
                stored = SessionRow(b"%d" % begun.seen, login + attempt.core, authentication=authentication)
                attempt.reply = LoginReply(stored, [], [])

    def _call(self) -> Call:
        ctx, s, settings = self.ctx, self.shard, self.ctx.settings
        keys = [s.sessions, s.deadlines, s.users, s.people, s.events, s.totals, s.meta, s.addresses, s.facets, s.labels,
                s.words, s.block_rules, s.ids]  # fmt: skip
        labels: dict[tuple[bytes, bytes], None] = {}
        rows: list[str | bytes] = []
        for attempt in self.attempts:
            row = attempt.row
            keys += s.user(row.uid), s.record(row.uid, row.session_id), s.block(row.uid), s.failures(row.uid)
            client, agent = labels_of(row)
            labels[client] = labels[agent] = None
            secret = secret_digest(attempt.secret)
            attempt.core = _CORE.pack(row.idle, row.absolute, secret, client[0], agent[0]) + row.ip
            words = entries(ctx.cache.indexes, row.uid, row.name, row.aliases)
            fields = row.given_words()
            digest = id_digest(row.session_id, len(ctx.keys.shards)) if "uid" in ctx.cache.indexes else ""
            rows += (attempt.core, str(row.login_at), str(row.last_seen), digest, row.authentication, row.facets,
                     row.place, str(len(fields)), *fields, str(len(words)), *words)  # fmt: skip
        if settings.keep_sign_ins:
            keys += (s.sign_ins(attempt.row.uid) for attempt in self.attempts)
            rows += (_sign_in(settings, attempt.row) for attempt in self.attempts)
        labels.pop((NO_LABEL, b""), None)
        return call_of(
            BEGIN_SESSIONS, keys, *(word for label in labels for word in label), *rows,
            now=ctx.now,
            most_events=str(ctx.events_cap),
            ttl="1" if settings.record_ttl else "0",
            most_sessions=str(self.max_sessions),
            most_labels=str(MAX_LABELS),
            index_addresses="1" if "ip" in ctx.cache.indexes else "0",
            label_count=str(len(labels)),
            keep_sign_ins="1" if settings.keep_sign_ins else "0",
        )  # fmt: skip


def begin_calls(ctx: Context, attempts: Iterable[LoginAttempt]) -> list[BeginCall]:
    """Calls that begin those sessions that seem to need no decision: no login of their users names a device id or an
    identity provider, is on behalf of the user, has a place to compare, has an address of which a part is recorded, or
    counts for a limit per device. All logins of a call have the same limit of sessions.

    The logins of a user are in one call, where they stay in order; those that are too many for it are in none.
    """
    by_user: dict[str, list[LoginAttempt]] = {}
    for attempt in attempts:
        by_user.setdefault(attempt.row.uid, []).append(attempt)
    calls: list[BeginCall] = []
    open_calls: dict[tuple[Shard, int], BeginCall] = {}
    for of_user in by_user.values():
        limit = of_user[0].row.max_sessions
        if not all(_is_plain(ctx, attempt.row) and attempt.row.max_sessions == limit for attempt in of_user):
            continue
        fitting = of_user[: max(1, BEGUN_TOGETHER // max(map(_weight, of_user)))]
        shard, weight = fitting[0].shard, sum(map(_weight, fitting))
        begin = open_calls.get((shard, limit))
        if begin is None or begin.weight + weight > BEGUN_TOGETHER:
            begin = open_calls[shard, limit] = BeginCall(ctx, shard, limit)
            calls.append(begin)
        begin.attempts += fitting
        begin.weight += weight
    return calls


def _weight(attempt: LoginAttempt) -> int:
    return 1 + (len(attempt.row.name) + len(attempt.row.aliases)) // LONG_TEXT


def _is_plain(ctx: Context, row: LoginRow) -> bool:
    counts_for_device = row.device and ctx.settings.max_sessions_per_device
    is_kept_whole = row.recorded_ip == row.ip
    return is_kept_whole and not (
        row.device_id
        or row.on_behalf_by
        or counts_for_device
        or row.idp
        or row.idp_end != ""
        or (row.place and row.login_at == "")
    )
