"""Change what a live session or a person is called, without a new login; facets and searches follow.

A script writes the new values and the entries by which they are found in one step. Then the entries of the former ones
are removed from the index of words, but for those that another session of the user needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from presence_core import validation as check
from presence_core.errors import InvalidArgument, Unavailable
from presence_core.filters import facet_members
from presence_core.keyspace import Shard
from presence_core.models import NO_LABEL, Validation, text
from presence_core.models.sessions import CORE, INLINE
from presence_core.operations.context import Context, label_texts
from presence_core.operations.search.rebuild import remove_stale_words
from presence_core.operations.sessions import login_calls
from presence_core.operations.sessions.validate import judge, parse_token
from presence_core.operations.visitor_fields import LABEL_BYTES, NAME_BYTES
from presence_core.scripts.calls import Call, Op, call_of, command
from presence_core.scripts.search import UPDATE_PERSON
from presence_core.scripts.sessions import LIVE, UPDATE_SESSION
from presence_core.text.search_text import entries, entries_of_person

TRIES: Final = 5
"""How often a change of the client is tried while others change it, too."""

_LABELS: Final[tuple[str, ...]] = ("device", "app", "app_version")


class NewNames(NamedTuple):
    """The new name and aliases, one a line, of a session or a person; None: it stays."""

    name: str | None = None
    aliases: str | None = None

    @property
    def words(self) -> tuple[str, str]:
        """What a script gets of both: an equals sign and the text; "" for what stays."""
        name, aliases = ("" if value is None else f"={value}" for value in self)
        return name, aliases

    def entries(self, ctx: Context, uid: str) -> list[bytes]:
        """By these it is found, also where one of both stays: then its entries stay, too."""
        if self == STAY:
            return []
        return entries(ctx.cache.indexes, uid, self.name or "", self.aliases or "")

    def change(self, name: str, aliases: str) -> bool:
        """Whether these names are others."""
        return self.name not in (None, name) or self.aliases not in (None, aliases)


STAY: Final = NewNames()


class Changes(NamedTuple):
    """The changes of a session."""

    attributes: Mapping[str, Any]
    names: NewNames = STAY
    client: Mapping[str, str] = {}


class _Client(NamedTuple):
    """The client of a session, as the site named it."""

    label: bytes = NO_LABEL
    raw: bytes = b""

    def changed(self, changes: Mapping[str, str]) -> tuple[bytes, bytes]:
        """The label of the same client with these changes, and its text."""
        known = {**dict(zip(_LABELS, [*text(self.raw).split("\n"), "", ""], strict=False)), **changes}
        return login_calls.client_label(*(known[field] for field in _LABELS))


def update(ctx: Context, token: object, attributes: object) -> Op[Validation]:
    if token is None:
        raise InvalidArgument("token", "must be text", "wrong_type")
    return _update(ctx, *parse_token(token), Changes(check.changes(attributes)))


def update_session(ctx: Context, uid: object, session_id: object, given: Mapping[str, object]) -> Op[Validation]:
    """``given``: the arguments by name; ``...`` for one that was not given."""
    owner, sid = check.uid(uid), check.session_id(session_id)
    given = {field: value for field, value in given.items() if value is not ...}
    if not given:
        raise InvalidArgument("attributes", "or another field must be given", "required")
    attributes = check.changes(given["attributes"]) if "attributes" in given else {}
    _refuse_no_text(given)
    client = {field: ctx.visitor.label(field, given[field]) for field in _LABELS if field in given}
    return _update(ctx, owner, sid, b"", Changes(attributes, _names(ctx, given), client))


def _names(ctx: Context, given: Mapping[str, object]) -> NewNames:
    name, aliases = given.get("name", ...), given.get("aliases", ...)
    return NewNames(
        None if name is ... else ctx.visitor.name(name),
        None if aliases is ... else ctx.visitor.aliases(() if aliases is None else aliases),
    )


def _refuse_no_text(given: Mapping[str, object]) -> None:
    """What is no text would remove the stored one: it is a mistake of the caller, and nothing that a visitor wrote."""
    for field, value in given.items():
        if field == "aliases" and value is not None and (isinstance(value, bytes) or not isinstance(value, Iterable)):
            check.aliases(value)
        elif field in ("name", *_LABELS) and not isinstance(value, str | None):
            check.short(field, value, NAME_BYTES if field == "name" else LABEL_BYTES)


def _update(ctx: Context, uid: str, sid: str, digest: bytes, changes: Changes) -> Op[Validation]:
    s = ctx.shard(uid)
    for _ in range(TRIES):
        client = (yield from _read_client(ctx, s, uid, sid)) if changes.client else None
        [raw] = yield [_update_call(ctx, s, uid, sid, digest, changes, client)]
        reply = UPDATE_SESSION.reply(raw)
        if reply.refused != "other client":
            break
    else:
        raise Unavailable("Nothing was changed: others change the client of this session at the same time. Try again.")
    if reply.refused:
        raise InvalidArgument(
            "attributes", f"{check.ATTRIBUTES_RULE}, together with those that the session has", "too_long"
        )
    former = text(reply.name), text(reply.aliases)
    if reply.session.state == LIVE and changes.names.change(*former):
        found = [*entries(ctx.cache.indexes, uid, *former), *changes.names.entries(ctx, uid)]
        yield from remove_stale_words(ctx, s, uid, found)
    return (yield from judge(ctx, s, uid, sid, reply.session))


def _read_client(ctx: Context, s: Shard, uid: str, sid: str) -> Op[_Client]:
    """The client of a session: a part of it may stay, and its label is made of all parts."""
    key = s.record(uid, sid)
    [row] = yield [command(key, "HMGET", key, "c", "C", lenient=True)]
    core, raw = row or (None, None)
    if core is None or len(core) < CORE.size:
        return _Client()
    label = core[32:36]
    if label != INLINE:
        raw = (yield from label_texts(ctx, [(s, core)]))[s].get(label)
    return _Client(label, raw or b"")


def _update_call(
    ctx: Context, s: Shard, uid: str, sid: str, digest: bytes, changes: Changes, client: _Client | None
) -> Call:
    keys = (s.sessions, s.closing, s.meta, s.facets, s.recount, s.counted, s.record(uid, sid), s.labels, s.words,
            s.of_user(uid)[1])  # fmt: skip
    attributes: list[str] = []
    for attribute, value in changes.attributes.items():
        attributes += (attribute, check.as_json(attribute), "" if value is None else check.as_json(value))
    name, aliases = changes.names.words
    words = changes.names.entries(ctx, uid)
    label, client_text = client.changed(changes.client) if client else (NO_LABEL, b"")
    return call_of(
        UPDATE_SESSION, keys, *words, *attributes,
        given_now=ctx.now,
        packed_policy=ctx.cache.policy,
        uid=uid,
        sid=sid,
        digest=digest,
        most_bytes=check.MAX_ATTRIBUTES,
        given=facet_members(ctx.settings.facets, changes.attributes),
        name=name,
        aliases=aliases,
        old_label=client.label if client else "",
        old_client=client.raw if client else "",
        label=label,
        client=client_text,
        max_labels=str(login_calls.MAX_LABELS),
        number_of_words=str(len(words)),
    )  # fmt: skip


def update_person(ctx: Context, uid: object, given: Mapping[str, object]) -> Op[int]:
    """``given``: as of ``update_session``."""
    owner = check.uid(uid)
    given = {field: value for field, value in given.items() if value is not ...}
    if not given:
        raise InvalidArgument("name", "or aliases must be given", "required")
    _refuse_no_text(given)
    return _update_person(ctx, owner, _names(ctx, given))


def _update_person(ctx: Context, uid: str, names: NewNames) -> Op[int]:
    s = ctx.shard(uid)
    key = s.user(uid)
    [members] = yield [command(key, "SMEMBERS", key)]
    [raw] = yield [_person_call(ctx, s, uid, names, sorted(map(text, members)))]
    reply = UPDATE_PERSON.reply(raw)
    changed, former = reply.changed, dict.fromkeys(reply.former)
    if reply.missing:  # they began between the two steps
        [raw] = yield [_person_call(ctx, s, uid, names, reply.missing, reply.stamp)]
        reply = UPDATE_PERSON.reply(raw)
        changed, former = changed + reply.changed, former | dict.fromkeys(reply.former)
    pairs = [(text(name), text(aliases)) for name, aliases in former]
    if any(names.change(*pair) for pair in pairs):
        found = [entry for pair in pairs for entry in entries_of_person(ctx.cache.indexes, uid, *pair)]
        yield from remove_stale_words(ctx, s, uid, [*found, *names.entries(ctx, uid)])
    return changed


def _person_call(ctx: Context, s: Shard, uid: str, names: NewNames, session_ids: list[str], stamp: str = "") -> Call:
    """``stamp``: of the call that these further sessions belong to."""
    keys = (s.sessions, s.meta, s.users, s.people, s.words, s.user(uid), s.person(uid),
            *(s.record(uid, sid) for sid in session_ids))  # fmt: skip
    name, aliases = names.words
    words = names.entries(ctx, uid)
    return call_of(
        UPDATE_PERSON, keys, *words, *session_ids,
        given_now=ctx.now,
        uid=uid,
        keep=ctx.settings.people_kept + 86_400,
        name=name,
        aliases=aliases,
        stamp=stamp,
        number_of_words=str(len(words)),
    )  # fmt: skip
