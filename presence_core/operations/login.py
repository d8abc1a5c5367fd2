"""Sessions begin: one at a time, or many for imports and load."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Any, Final

from presence_core import settings as check
from presence_core.agents import families
from presence_core.errors import CorruptData, InvalidArgument, LoginRefused, OutcomeUnknown, Unavailable
from presence_core.filters import entries, facet_members
from presence_core.keyspace import Shard
from presence_core.models import NO_LABEL, Login, PublicBlock, Session, attributes_of, in_words, moment, text
from presence_core.operations.access import make_token, secret_digest
from presence_core.operations.context import LIVE, Context, Found, found_rows
from presence_core.operations.ending import Why
from presence_core.operations.holding import Replicas, answered, beats, hold_end, login_of
from presence_core.operations.reading import read_call
from presence_core.operations.upkeep import heal, heal_all, tidy_calls
from presence_core.scripts import LOGIN, Call, Op, later, run
from presence_core.settings import Settings

BATCH: Final = 500
"""Logins in one pipeline."""

MAX_LABELS: Final = 8192
"""Texts that one shard keeps once: a few MB at the very most, and more than the user agents of a real site."""

_FIELDS: Final = frozenset(
    ("uid", "name", "aliases", "device", "app", "app_version", "ip", "user_agent", "attributes", "session_id",
     "idle_timeout", "absolute_timeout")
)  # fmt: skip
_PAST: Final = frozenset(("login_at", "last_seen"))


@dataclass(slots=True)
class Row:
    """A login whose arguments have been checked, ready to send."""

    uid: str
    session_id: str
    idle: int
    absolute: int
    name: str
    aliases: str
    ip: bytes
    attributes: bytes
    device: str
    app: str
    app_version: str
    user_agent: str
    facets: str
    login_at: int | str = ""
    last_seen: int | str = ""


def check_row(settings: Settings, given: Mapping[str, Any], new_id: str) -> Row:
    """Check every argument of one login."""
    idle, absolute = check.timeouts(settings, given.get("idle_timeout"), given.get("absolute_timeout"))
    session_id = given.get("session_id")
    return Row(
        check.uid(given.get("uid")),
        new_id if session_id is None else check.session_id(session_id),
        idle,
        absolute,
        check.short("name", given.get("name"), 256) or "",
        check.aliases(given.get("aliases", ())),
        check.address(given.get("ip")),
        check.attributes(given.get("attributes")),
        check.short("device", given.get("device"), 64) or "",
        check.short("app", given.get("app"), 64) or "",
        check.short("app_version", given.get("app_version"), 64) or "",
        check.user_agent(given.get("user_agent")),
        facet_members(settings.facets, attributes_of(check.attributes(given.get("attributes"))))
        if settings.facets
        else "",
    )


def login(ctx: Context, given: Mapping[str, Any]) -> Op[Login]:
    row = check_row(ctx.settings, given, ctx.new_id())

    def steps() -> Op[Login]:
        [answer] = yield from _login(ctx, [row])
        if isinstance(answer, LoginRefused):
            raise answer
        return answer

    return steps()


def login_many(ctx: Context, rows: Iterable[Mapping[str, Any]], imported: bool) -> Op[list[Login | LoginRefused]]:
    allowed = _FIELDS | _PAST if imported else _FIELDS
    if not isinstance(rows, Iterable):
        raise InvalidArgument("rows", "must be dicts of login's arguments")
    ready = []
    for number, given in enumerate(rows, 1):
        try:
            if not isinstance(given, Mapping):
                raise InvalidArgument("rows", "must be dicts of login's arguments")
            if not given.keys() <= allowed:
                unknown = sorted(str(key) for key in given.keys() - allowed)[0]
                raise InvalidArgument(unknown, "is not an argument of login")
            row = check_row(ctx.settings, given, ctx.new_id())
            if imported and given.get("login_at") is not None:
                row.login_at = check.past("login_at", given["login_at"])
                seen = given.get("last_seen")
                row.last_seen = row.login_at if seen is None else check.past("last_seen", seen)
            elif given.get("last_seen") is not None:
                raise InvalidArgument("last_seen", "must come with login_at")
        except InvalidArgument as error:
            raise InvalidArgument(f"row {number}: {error.field}", error.rule) from None
        ready.append(row)

    def steps() -> Op[list[Login | LoginRefused]]:
        answers: list[Login | LoginRefused] = []
        for first in range(0, len(ready), BATCH):
            try:
                answers += yield from _login(ctx, ready[first : first + BATCH])
            except Unavailable as error:
                if not answers:
                    raise
                raise OutcomeUnknown(f"The first {first} logins were made. {error}", error.server) from error
        return answers

    return steps()


def _login(ctx: Context, rows: list[Row]) -> Op[list[Login | LoginRefused]]:
    secrets = [ctx.new_secret() for _ in rows]
    shards = [ctx.shard(row.uid) for row in rows]
    requests = [
        later(s.sessions, LOGIN, partial(_call, ctx, s, row, secret))
        for s, row, secret in zip(shards, rows, secrets, strict=True)
    ]
    replies = yield requests
    full = [i for i, reply in enumerate(replies) if reply[0] in (b"limit", b"device_limit")]
    if full:  # an entry without a record must not keep its owner out: look once more when some were found
        retry: list[int] = []
        for i in full:
            retry += [i] if (yield from _heal_user(ctx, shards[i], rows[i].uid)) else []
        if retry:
            for i, reply in zip(retry, (yield [requests[i] for i in retry]), strict=True):
                replies[i] = reply
    told = [(s, (row.uid, row.session_id)) for s, row, reply in zip(shards, rows, replies, strict=True)
            if reply[0] == b"ended" and len(reply) > 1]  # fmt: skip
    yield from heal_all(ctx, told)
    return (yield from _answers(ctx, rows, secrets, shards, replies))


def _answers(
    ctx: Context, rows: list[Row], secrets: list[bytes], shards: list[Shard], replies: list[Any]
) -> Op[list[Login | LoginRefused]]:
    replaced: dict[int, list[Session]] = {}
    follow_up: list[Call] = []
    over = [(i, [sid.decode() for sid in reply[3]]) for i, reply in enumerate(replies) if len(reply) > 3 and reply[3]]
    for i, sids in over:
        follow_up.append(read_call(ctx, shards[i], rows[i].uid, sids))
    for i, reply in enumerate(replies):
        if len(reply) > 3 and (ended := [*reply[3], *reply[4]]):
            follow_up += tidy_calls(ctx, shards[i], [(rows[i].uid, sid.decode()) for sid in ended])
    ended_at = [shards[i] for i, _ in over]
    told, ends = Replicas(False if ctx.settings.confirm_replicas else None, {}), {}
    if follow_up:
        try:
            looked = yield [*follow_up, *beats(ctx, ended_at)]
            told = answered(ctx, ended_at, looked)
            for (i, _), reply in zip(over, looked, strict=False):
                ends[i] = {found.session_id: found for found in found_rows(rows[i].uid, reply) if found.row[1]}
                replaced[i] = [found.session() for found in ends[i].values()]
        except (Unavailable, CorruptData):
            pass  # the logins stand, and their tokens are given only once: a sweep writes the tombstones
    for i, sids in over:
        _hold(ctx, told, rows[i].uid, sids, ends.get(i, {}), login_of(replies[i][1:]))
    answers: list[Login | LoginRefused] = []
    for i, (row, reply) in enumerate(zip(rows, replies, strict=True)):
        if reply[0] != b"ok":
            answers.append(_refusal(ctx, reply))
            continue
        token = make_token(row.uid, row.session_id, secrets[i])
        answers.append(Login(partial(_session, row, reply), token, replaced.get(i, [])))
    return answers


def _hold(ctx: Context, told: Replicas, uid: str, sids: list[str], ends: dict[str, Found], login: int) -> None:
    """Hold the ends of the sessions that a login has replaced. Those whose records could not be read began before it;
    one that lives after all has met another master."""
    for sid in sids:
        found = ends.get(sid)
        cause = (found.row[10] if found and len(found.row) > 10 else None) or b"limit"
        here = replace(told, sure=False) if told.sure and found and found.state == LIVE else told
        upto = login_of(found.row) if found else login
        hold_end(ctx, here, Why("replaced", cause.decode(), uid), uid, sid, upto)


def _session(row: Row, reply: list[Any]) -> Session:
    (_, client), (_, agent) = _labels(row)
    values = (row.name.encode(), row.aliases.encode(), None, row.attributes, client, agent)
    return Session.from_reply(row.uid, row.session_id, (reply[1], reply[2], *values))


@lru_cache(maxsize=8192)
def _label(text: str) -> tuple[bytes, bytes]:
    """An id and the text itself. Two texts with one id cost memory, never truth: see login.lua."""
    raw = text.encode()
    return (blake2b(raw, digest_size=4).digest() if raw else NO_LABEL), raw


def _labels(row: Row) -> tuple[tuple[bytes, bytes], tuple[bytes, bytes]]:
    """What the site said of its client, and the user agent with what was parsed from it."""
    client = f"{row.device}\n{row.app}\n{row.app_version}" if row.device or row.app or row.app_version else ""
    os, browser = families(row.user_agent)
    return _label(client), _label(f"{os}\n{browser}\n{row.user_agent}" if row.user_agent else "")


def _call(ctx: Context, s: Shard, row: Row, secret: bytes) -> Call:
    settings = ctx.settings
    client, agent = _labels(row)
    keys = (*s.lists, s.labels, s.words, s.block(row.uid), *s.of_user(row.uid), s.record(row.uid, row.session_id))
    return run(
        LOGIN, keys, ctx.now, ctx.policy, row.uid, row.session_id, secret_digest(secret), str(row.idle),
        str(row.absolute), row.name, row.aliases, row.ip, row.attributes, *client, *agent, str(MAX_LABELS),
        row.device, str(settings.max_sessions), str(settings.max_sessions_per_device or 0), settings.on_limit,
        str(row.login_at), str(row.last_seen), row.facets, "1" if "ip" in ctx.indexes else "0",
        *entries(ctx.indexes, row.uid, row.name, row.aliases),
    )  # fmt: skip


def _heal_user(ctx: Context, shard: Shard, uid: str) -> Op[bool]:
    """End what the user's lists name but no record backs. Says whether there was any."""
    [reply] = yield [read_call(ctx, shard, uid)]
    dirty = [(uid, found.session_id) for found in found_rows(uid, reply) if found.state != LIVE]
    if dirty:
        yield from heal(ctx, shard, dirty)
    return bool(dirty)


def _refusal(ctx: Context, reply: list[Any]) -> LoginRefused:
    settings, code = ctx.settings, reply[0]
    if code == b"blocked":
        block = PublicBlock(text(reply[1]) or None, moment(int(reply[2])) if reply[2].isdigit() else None)
        return LoginRefused("blocked", in_words(block.message, block), block.message, block.until)
    sentence = {
        b"limit": f"This user already has {settings.max_sessions} live sessions, the most that are allowed.",
        b"device_limit": f"This user already has {settings.max_sessions_per_device} live sessions on this device, "
        "the most that are allowed.",
        b"ended": "This session id has ended; a session never comes back. Log in with a new id.",
        b"expired": "This session would already be past its deadline.",
    }[code]
    return LoginRefused(code.decode(), sentence)
