"""Who may work with the dashboard, and as what. Written and audited by one script, on the first shard."""

from __future__ import annotations

from typing import Final

from presence_core import settings as check
from presence_core.errors import InvalidArgument
from presence_core.models import STAFF_ROLES, StaffMember
from presence_core.operations.context import Context, pairs
from presence_core.scripts import STAFF, Op, command, run

MOST: Final = 10_000
"""Records that there may be, of those who were removed too: one act of staff looks at all of them."""

_REMOVED: Final = "removed"
_LAST, _FULL = -1, -2  # what staff.lua answers


def staff(ctx: Context) -> Op[list[StaffMember]]:
    """All records by name, also of those who were removed."""
    key = ctx.keys.shards[0].staff
    [reply] = yield [command(key, "HGETALL", key)]
    found = (StaffMember.from_reply(name, raw) for name, raw in pairs(reply))
    return sorted((one for one in found if one), key=lambda one: one.name)


def staff_member(ctx: Context, name: object) -> Op[StaffMember | None]:
    known = staff_name(name)

    def steps() -> Op[StaffMember | None]:
        key = ctx.keys.shards[0].staff
        [[raw]] = yield [command(key, "HMGET", key, known)]
        return StaffMember.from_reply(known.encode(), raw) if raw else None

    return steps()


def set_staff(ctx: Context, name: object, role: object, by: object, force: object) -> Op[StaffMember]:
    known, wanted, actor = staff_name(name), staff_role(role), check.actor(by)

    def steps() -> Op[StaffMember]:
        raw, _ = yield from _write(ctx, known, wanted, actor, "force" if force else "set")
        return _decoded(known, raw)

    return steps()


def seed_staff(ctx: Context, name: object, role: object, by: object) -> Op[StaffMember]:
    known, wanted, actor = staff_name(name), staff_role(role), check.actor(by)

    def steps() -> Op[StaffMember]:
        raw, _ = yield from _write(ctx, known, wanted, actor, "seed")
        return _decoded(known, raw)

    return steps()


def remove_staff(ctx: Context, name: object, by: object, force: object) -> Op[bool]:
    known, actor = staff_name(name), check.actor(by)

    def steps() -> Op[bool]:
        _, is_new = yield from _write(ctx, known, _REMOVED, actor, "force" if force else "set")
        return is_new

    return steps()


def staff_name(value: object) -> str:
    """A name as it is stored: without capitals, for people write their addresses now with and now without."""
    name = check.short("name", value, 128)
    if name is None or not name.isprintable() or name != name.strip():
        raise InvalidArgument("name", "must be text of 1 to 128 bytes, all of it printable, with no space at its ends")
    return str(check.short("name", name.lower(), 128))


def staff_role(value: object) -> str:
    if value not in STAFF_ROLES:
        raise InvalidArgument("role", f"must be one of {', '.join(STAFF_ROLES)}")
    return str(value)


def _write(ctx: Context, name: str, role: str, by: str, how: str) -> Op[tuple[bytes, bool]]:
    """The record that holds now, and whether it was written just now."""
    s = ctx.keys.shards[0]
    [(state, raw)] = yield [run(STAFF, (s.staff, s.audit), ctx.now, ctx.audit_cap, name, role, by, how, MOST)]
    if state == _LAST:
        raise InvalidArgument("name", "must not be the last admin: make somebody else admin first")
    if state == _FULL:
        raise InvalidArgument("name", f"must not be one more than {MOST:,}: there is no room for new records")
    return raw, state == 1


def _decoded(name: str, raw: bytes) -> StaffMember:
    member = StaffMember.from_reply(name.encode(), raw)
    if member is None:
        raise InvalidArgument("name", "must have a record that can be read: set its role anew")
    return member
