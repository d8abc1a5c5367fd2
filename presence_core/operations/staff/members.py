"""Staff members: who may use the dashboard, in which role. One script writes a record and its audit entry, on the first
shard."""

from __future__ import annotations

from typing import Final, get_args

from presence_core import validation as check
from presence_core.errors import InvalidArgument
from presence_core.models import STAFF_ROLES, SavedKind, StaffMember
from presence_core.operations.context import Context
from presence_core.scripts import staff as scripts
from presence_core.scripts.calls import CHECKED, Op, call_of, checked_first, command, pairs

MAX_MEMBERS: Final = 10_000
"""Records that there may be, removed members included: removing an admin reads all of them."""

_REMOVED: Final = "removed"


def staff(ctx: Context) -> Op[list[StaffMember]]:
    """All records by name, removed members included."""
    key = ctx.keys.shards[0].staff
    [reply] = yield [command(key, "HGETALL", key)]
    found = (StaffMember.from_reply(name, raw) for name, raw in pairs(reply))
    return sorted((member for member in found if member), key=lambda member: member.name)


@checked_first
def staff_member(ctx: Context, name: object) -> Op[StaffMember | None]:
    known = staff_name(name)
    yield CHECKED
    key = ctx.keys.shards[0].staff
    [[raw]] = yield [command(key, "HMGET", key, known)]
    return StaffMember.from_reply(known.encode(), raw) if raw else None


@checked_first
def set_staff(ctx: Context, name: object, role: object, by: object, force: object) -> Op[StaffMember]:
    known, wanted, actor = staff_name(name), staff_role(role), check.actor(by)
    yield CHECKED
    reply = yield from _write(ctx, known, wanted, actor, "force" if force else "set")
    return _decoded(known, reply.record)


@checked_first
def add_staff(ctx: Context, name: object, role: object, by: object) -> Op[StaffMember]:
    known, wanted, actor = staff_name(name), staff_role(role), check.actor(by)
    yield CHECKED
    reply = yield from _write(ctx, known, wanted, actor, "add")
    member = _decoded(known, reply.record)
    if reply.code == scripts.HAS_ROLE_ALREADY:
        raise InvalidArgument("name", f"must be new: {known} has the role {member.role} already", "exists")
    return member


@checked_first
def seed_staff(ctx: Context, name: object, role: object, by: object) -> Op[StaffMember]:
    known, wanted, actor = staff_name(name), staff_role(role), check.actor(by)
    yield CHECKED
    reply = yield from _write(ctx, known, wanted, actor, "seed")
    return _decoded(known, reply.record)


@checked_first
def remove_staff(ctx: Context, name: object, by: object, force: object) -> Op[bool]:
    known, actor = staff_name(name), check.actor(by)
    yield CHECKED
    reply = yield from _write(ctx, known, _REMOVED, actor, "force" if force else "set")
    return reply.code == 1


def staff_name(value: object) -> str:
    """A name as it is stored: in lower case, because people write addresses either way."""
    name = check.short("name", value, 128, "not_a_staff_name")
    if name is None or not name.isprintable() or name != name.strip():
        raise InvalidArgument(
            "name", "must be 1 to 128 bytes of printable text, with no space at either end", "not_a_staff_name"
        )
    return str(check.short("name", name.lower(), 128, "not_a_staff_name"))


def staff_role(value: object) -> str:
    if value not in STAFF_ROLES:
        raise InvalidArgument("role", f"must be one of {', '.join(STAFF_ROLES)}", "not_a_choice")
    return str(value)


def _write(ctx: Context, name: str, role: str, by: str, mode: str) -> Op[scripts.MemberWrite]:
    shard = ctx.keys.shards[0]
    keys = (shard.staff, shard.audit, shard.saved)
    kinds = get_args(SavedKind)
    [reply] = yield [
        call_of(scripts.SET_MEMBER, keys, *kinds, given_now=ctx.now, audit_cap=ctx.audit_cap, name=name, role=role,
                by=by, mode=mode, most=MAX_MEMBERS)
    ]  # fmt: skip
    written = scripts.SET_MEMBER.reply(reply)
    if written.code == scripts.LAST_ADMIN:
        raise InvalidArgument("name", "must not be the last admin: make another member admin first", "last_admin")
    if written.code == scripts.TOO_MANY_MEMBERS:
        raise InvalidArgument(
            "name", f"cannot be added: the limit of {MAX_MEMBERS:,} staff records is reached", "list_full"
        )
    return written


def _decoded(name: str, raw: bytes) -> StaffMember:
    member = StaffMember.from_reply(name.encode(), raw)
    if member is None:
        raise InvalidArgument("name", "has a record that cannot be read: set the role again", "damaged")
    return member
