"""Saved items: views, phrases and watched people, that staff keep for themselves or share. On the first shard."""

from __future__ import annotations

from typing import Final, NamedTuple, cast, get_args

from presence_core import validation as check
from presence_core.errors import InvalidArgument
from presence_core.models import SavedItem, SavedKind, text
from presence_core.operations.context import Context
from presence_core.scripts import staff as scripts
from presence_core.scripts.calls import CHECKED, Op, call_of, checked_first, command

MAX_ITEMS: Final = 200
"""Items of one kind that one owner, or everyone together, may have."""

TEXT_BYTES: Final = 4_096

LIST_BYTES: Final = 131_072
"""Of all items of one list: a change reads and writes the whole list."""

LISTS: Final = 30_000

SHARED: Final = ""

PART: Final = 20
"""Lists that one call reads, where all of them are read."""


class SavedList(NamedTuple):
    """The items of one kind and owner, as they are stored."""

    field: bytes
    value: bytes
    kind: SavedKind
    owner: str  #: "": shared

    def items(self) -> list[SavedItem]:
        return SavedItem.from_list(self.kind, self.owner, self.value)


@checked_first
def saved_items(ctx: Context, kind: object, owner: object) -> Op[list[SavedItem]]:
    """The owner's items by name, then the shared ones."""
    known = _kind(kind)
    owners = [SHARED] if owner is None else [owner_name(owner), SHARED]
    yield CHECKED
    key = ctx.keys.shards[0].saved
    [lists] = yield [command(key, "HMGET", key, *(f"{known}\n{name}" for name in owners))]
    return [item for name, raw in zip(owners, lists, strict=True) for item in SavedItem.from_list(known, name, raw)]


@checked_first
def save_item(
    ctx: Context, kind: object, name: object, content: object, by: object, shared: object, instead_of: object
) -> Op[SavedItem]:
    known, title, owner, actor = _kind(kind), item_name(name), _owner(by, shared), check.actor(by)
    former = "" if instead_of is None else item_name(instead_of, "instead_of")
    body = _text(content)
    yield CHECKED
    change = yield from _change(ctx, known, owner, title, "save", body, actor, former)
    return SavedItem.new(known, owner, title, body, actor, change.at)


@checked_first
def remove_item(ctx: Context, kind: object, name: object, by: object, shared: object) -> Op[bool]:
    known, title, owner, actor = _kind(kind), item_name(name), _owner(by, shared), check.actor(by)
    yield CHECKED
    change = yield from _change(ctx, known, owner, title, "remove", "", actor, "")
    return change.code == 1


def _change(
    ctx: Context, kind: str, owner: str, name: str, action: str, body: str, by: str, former: str
) -> Op[scripts.SavedChange]:
    shard = ctx.keys.shards[0]
    [reply] = yield [
        call_of(scripts.SAVE_ITEM, (shard.saved, shard.audit), given_now=ctx.now, audit_cap=ctx.audit_cap, kind=kind,
                owner=owner, name=name, action=action, text=body, by=by, former=former, most=MAX_ITEMS,
                bytes=LIST_BYTES, lists=LISTS)
    ]  # fmt: skip
    change = scripts.SAVE_ITEM.reply(reply)
    if change.code == scripts.TOO_MANY_ITEMS:
        raise InvalidArgument(
            "name", f"cannot be added: the limit of {MAX_ITEMS} saved items is reached, remove one first", "items_full"
        )
    if change.code == scripts.TOO_MANY_BYTES:
        raise InvalidArgument(
            "text",
            f"cannot be added: the limit of {LIST_BYTES:,} bytes of saved items is reached, remove one first",
            "items_full",
        )
    if change.code == scripts.TOO_MANY_LISTS:
        raise InvalidArgument(
            "by", f"cannot save: the limit of {LISTS:,} lists of saved items is reached", "items_full"
        )
    return change


def owner_name(value: object, field: str = "owner") -> str:
    """A staff member as an owner: in lower case, because people write addresses either way."""
    return check.uid(value, field).lower()


def item_name(value: object, field: str = "name") -> str:
    name = check.uid(value, field)
    if name != name.strip():
        raise InvalidArgument(field, "must not begin or end with a space", "malformed")
    return name


def _owner(by: object, shared: object) -> str:
    if not isinstance(shared, bool):
        raise InvalidArgument("shared", "must be True or False", "wrong_type")
    actor = check.actor(by)
    return SHARED if shared else actor.lower()


def _kind(value: object) -> SavedKind:
    check.choice("kind", value, SavedKind)
    return value  # type: ignore[return-value]  # as was just tested


def _text(value: object) -> str:
    rule = f"must be text of at most {TEXT_BYTES:,} bytes"
    return check.lines("text", value, TEXT_BYTES, rule, "not_storable")


def all_lists(ctx: Context) -> Op[list[SavedList]]:
    """Every list, a part at a time."""
    key = ctx.keys.shards[0].saved
    [fields] = yield [command(key, "HKEYS", key, lenient=True)]
    found: list[SavedList] = []
    for first in range(0, len(fields or ()), PART):
        part = fields[first : first + PART]
        [values] = yield [command(key, "HMGET", key, *part, lenient=True)]
        for field, value in zip(part, values or (), strict=False):
            kind, _, owner = text(field).partition("\n")
            if value and kind in get_args(SavedKind):
                found.append(SavedList(field, value, cast("SavedKind", kind), owner))
    return found
