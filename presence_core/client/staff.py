"""Blocks, block rules, the audit, and the staff members with their roles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from presence_core.client.base import AsyncClient, Client, awaited
from presence_core.models import (
    AuditEntry,
    AuditFact,
    Block,
    BlockRule,
    BlockRulePreview,
    Page,
    Session,
    StaffMember,
    StaffRole,
)
from presence_core.operations.staff import audit, block_rules, blocks, members, timeouts


class StaffMethods(Client):
    def change_timeouts(
        self,
        uid: str,
        session_id: str | None = None,
        *,
        idle_timeout: int | None = None,
        absolute_timeout: int | None = None,
        by: str,
        reason: str,
        only_shorten: bool = False,
    ) -> list[Session]:
        """Change the timeouts of one live session of a user, or of all of them: shorter or longer. Returns these
        sessions as they are now, newest login first.

        idle_timeout, absolute_timeout: whole seconds, 1…10 years, at least one of them; a session keeps the one that
        is not given. They count from when the session was last seen, and from its login. The idle timeout of a session
        is never above its absolute one. A session that is older than its new timeout is no longer live; it ends as
        "expired" at the time of this call. by: the staff member, 1-256 bytes. reason: for staff, 1-500 characters; the
        audit has both, and the timeouts.

        only_shorten: raise InvalidArgument, with the code "lengthens", and change nothing, if a timeout of one of
        the sessions would be longer. Roles are not checked here. A session on behalf of the user lives at most
        ``on_behalf_timeout``. Mirrored sessions keep theirs: the site decides. Sessions that begin after this call are
        not affected, nor is a login with the id of a live session. With ``Settings.confirm_replicas`` this client
        applies a change again that a failover has lost; ``unconfirmed`` counts those that too few replicas have. Cost:
        O(S·log N), two round trips; one more if some ended.
        """
        operation = timeouts.change_timeouts(
            self._ctx, uid, session_id,
            idle_timeout=idle_timeout, absolute_timeout=absolute_timeout, by=by, reason=reason,
            only_shorten=only_shorten,
        )  # fmt: skip
        return self._run(operation)

    def block(
        self,
        uid: str,
        *,
        by: str,
        reason: str,
        message: str | None = None,
        duration: int | None = None,
        until: datetime | float | None = None,
        ticket: str | None = None,
        shorten: bool = False,
    ) -> Block:
        """Block a user: once this has returned, no login of theirs begins. Live sessions go on; ``kick`` ends them.

        by: the staff member, 1-256 bytes. reason: for staff, 1-500 characters. message: for the user, who gets it
        with the LoginRefused. duration: whole seconds, 1…10 years; or until: an aware datetime or Unix seconds;
        neither: until unblocked. ticket: up to 64 bytes.

        If the user is blocked already, the block that ends later stays, with its reason, message and ``by``. If both
        end at the same time, the newer one stays. The newest 10 tickets of both are kept. shorten: the new block
        replaces the old one even if it ends sooner. Returns the block that is in force. Cost: O(log N), one round trip.
        """
        operation = blocks.block(
            self._ctx, uid,
            by=by, reason=reason, message=message, duration=duration, ticket=ticket, until=until, shorten=shorten,
        )  # fmt: skip
        return self._run(operation)

    def unblock(self, uid: str, *, by: str, reason: str) -> bool:
        """Unblock a user. False: they were not blocked; the audit records the call anyway. Cost: one round trip."""
        return self._run(blocks.unblock(self._ctx, uid, by, reason))

    def blocked(self, uid: str) -> Block | None:
        """The block of this user, or None. Cost: O(1), one round trip."""
        return self._run(blocks.blocked(self._ctx, uid))

    def blocked_among(self, uids: Iterable[str]) -> dict[str, Block]:
        """Those of these users who are blocked, with their blocks. Cost: O(uids), one round trip.

        A key with data of another program counts as no block here; ``blocked`` raises CorruptData for it.
        """
        return self._run(blocks.blocked_among(self._ctx, uids))

    def blocks(self, *, limit: int = 50, cursor: str | None = None) -> Page[Block]:
        """A page of the blocked users, the latest block first; limit is 1…1000.

        While others are blocked and unblocked, no user is on two pages, and none that is blocked all the time is
        missed. Before the last page ``total`` may include blocks that have ended. Cost: O(P·log N + limit), two round
        trips.
        """
        return self._run(blocks.blocks(self._ctx, limit, cursor))

    def preview_block_rule(
        self,
        *,
        network: str | None = None,
        app: str | None = None,
        app_version: str | None = None,
        country: str | None = None,
    ) -> BlockRulePreview:
        """Whom a block rule would concern now: how many people and sessions match. Changes nothing.

        network: an address or a network in CIDR notation, IPv4 or IPv6; or country: an ISO code; or app and
        app_version, both as given at login. Sessions are counted exactly. People are counted among the newest 10,000 of
        these sessions. Cost: that of ``count_sessions``, and O(sessions read).
        """
        return self._run(block_rules.preview_block_rule(self._ctx, network, app, app_version, country))

    def add_block_rule(
        self,
        *,
        network: str | None = None,
        app: str | None = None,
        app_version: str | None = None,
        country: str | None = None,
        by: str,
        reason: str,
        expected: int,
        message: str | None = None,
        ticket: str | None = None,
        duration: int | None = None,
        until: datetime | float | None = None,
        confirm_wide: str | None = None,
    ) -> BlockRule:
        """Refuse logins from a network or a country, or with a version of an app: once this has returned, none begins.

        Live sessions go on; ``kick_where`` ends them. A login without an address, a known place, or app and version,
        passes. The visitor gets a LoginRefused with the code ``block_rule``. A client can lie about its version. Behind
        carrier-grade NAT an address belongs to many people.

        network, app, app_version, country: as for ``preview_block_rule``. expected: the maximum number of sessions that
        may match now, such as the preview's ``sessions``. If more match, nothing happens (InvalidArgument). by, reason,
        message, ticket, duration, until: as for ``block``. confirm_wide: the country again; or the network, as the
        preview has it, only for one that is wider than /16 (IPv4) or /32 (IPv6).

        There is one rule for a network, country or version. Adding it again replaces its texts and its end;
        InvalidArgument if that would end it sooner. At most 100 rules. If this raises OutcomeUnknown, some shards may
        have the rule: call again, or a sweep completes it. Cost: that of ``count_sessions``, and O(P · rules) in three
        round trips.
        """
        return self._run(
            block_rules.add_block_rule(self._ctx, network, app, app_version, by, reason, expected, message, ticket,
                                       duration, until, confirm_wide, country)
        )  # fmt: skip

    def remove_block_rule(self, rule_id: str, *, by: str, reason: str) -> bool:
        """Remove a block rule: once this has returned, no shard enforces it. False: there is no such rule; the audit
        records the call anyway. Cost: O(P · rules), three round trips."""
        return self._run(block_rules.remove_block_rule(self._ctx, rule_id, by, reason))

    def block_rules(self) -> list[BlockRule]:
        """The block rules in force, the latest first; at most 100.

        Rules that a crash has left on some shards only are copied to all of them; ``everywhere`` is False where that
        failed, or may not be done (``Settings.heal``). Cost: O(P + rules), one round trip.
        """
        return self._run(block_rules.block_rules(self._ctx))

    def audit(
        self,
        *,
        uid: str | None = None,
        by: str | None = None,
        since: datetime | float | None = None,
        until: datetime | float | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[AuditEntry]:
        """A page of what staff did, and tried without the right to, newest first.

        uid: whom it concerns. by: the staff member. since, until: from ``since`` on and before ``until``; aware
        datetimes or Unix seconds. limit: 1…1000.

        One call reads 5,000 entries: a page may be short and still have a ``next_cursor``, which belongs to these
        arguments. Without arguments ``total`` is exact. Else it counts the entries on the pages so far, and is exact on
        the last. Denied attempts of one person and hour are one entry, with their ``count``. Cost: O(P + entries),
        usually two round trips.
        """
        return self._run(audit.audit(self._ctx, uid, by, since, until, limit, cursor))

    def denied(self, *, by: str, what: str, uid: str | None = None, reason: str | None = None) -> None:
        """Record that a staff member tried an action that their role does not permit. ``audit`` shows it.

        what: the action, 1-64 bytes, such as "kick". Attempts are counted by person, action and hour (UTC), with the
        latest uid and reason, so a flood leaves few rows: at most 201 an hour and about 1,000 in all. Cost: O(1), one
        round trip; O(1,000) for the first of its kind in an hour.
        """
        return self._run(audit.denied(self._ctx, by, what, uid, reason))

    def audit_note(
        self,
        *,
        by: str,
        what: str,
        outcome: str | None = None,
        uid: str | None = None,
        reason: str | None = None,
        facts: Sequence[AuditFact] = (),
    ) -> None:
        """Record an action of staff that no other call records, such as an export. ``audit`` shows it.

        what: the action, 1-64 bytes. outcome, reason: 1-500 characters. uid: the user whom it concerns, if it is one
        user. facts: what it did, in place of ``outcome``, so that pages can say it in their language; at most 2,000
        characters as JSON. A repeated call adds a second entry. Cost: O(1), one round trip.
        """
        return self._run(audit.note(self._ctx, by, what, uid, reason, outcome, facts))

    def staff(self) -> list[StaffMember]:
        """All staff members by name; those who were removed have the role None. Cost: O(records), one round trip."""
        return self._run(members.staff(self._ctx))

    def staff_member(self, name: str) -> StaffMember | None:
        """One staff member, or None. Cost: O(1), one round trip."""
        return self._run(members.staff_member(self._ctx, name))

    def set_staff(self, name: str, role: StaffRole, *, by: str, force: bool = False) -> StaffMember:
        """Give a person a role, or another role. Returns the new record.

        name: 1-128 bytes, often an email address; case is ignored. by: the person who does this. The last admin stays
        admin, also under concurrent calls, unless ``force``: else InvalidArgument. ``audit`` shows each change. At most
        10,000 records. Cost: O(records), one round trip.
        """
        return self._run(members.set_staff(self._ctx, name, role, by, force))

    def add_staff(self, name: str, role: StaffRole, *, by: str) -> StaffMember:
        """Give a person who has no role a first one, or one again after they were removed. Returns the new record.

        Raises InvalidArgument for a person who has a role: of two concurrent calls one does. Otherwise as
        ``set_staff``. Cost: O(1), one round trip.
        """
        return self._run(members.add_staff(self._ctx, name, role, by))

    def seed_staff(self, name: str, role: StaffRole, *, by: str) -> StaffMember:
        """Give a person a first role, as a claim at sign-in does. Changes nothing if there is a record, also if
        that says that they were removed: read ``role`` of the result. Cost: O(1), one round trip."""
        return self._run(members.seed_staff(self._ctx, name, role, by))

    def remove_staff(self, name: str, *, by: str, force: bool = False) -> bool:
        """Remove a person's role, and what they saved for themselves. The record stays, so that no claim at sign-in
        seeds it again.

        False: they had no role. Raises InvalidArgument for the last admin, unless ``force``. Cost: O(records), one
        round trip.
        """
        return self._run(members.remove_staff(self._ctx, name, by, force))


class AsyncStaffMethods(AsyncClient):
    change_timeouts = awaited(StaffMethods.change_timeouts)
    block = awaited(StaffMethods.block)
    unblock = awaited(StaffMethods.unblock)
    blocked = awaited(StaffMethods.blocked)
    blocked_among = awaited(StaffMethods.blocked_among)
    blocks = awaited(StaffMethods.blocks)
    preview_block_rule = awaited(StaffMethods.preview_block_rule)
    add_block_rule = awaited(StaffMethods.add_block_rule)
    remove_block_rule = awaited(StaffMethods.remove_block_rule)
    block_rules = awaited(StaffMethods.block_rules)
    audit = awaited(StaffMethods.audit)
    denied = awaited(StaffMethods.denied)
    audit_note = awaited(StaffMethods.audit_note)
    staff = awaited(StaffMethods.staff)
    staff_member = awaited(StaffMethods.staff_member)
    set_staff = awaited(StaffMethods.set_staff)
    add_staff = awaited(StaffMethods.add_staff)
    seed_staff = awaited(StaffMethods.seed_staff)
    remove_staff = awaited(StaffMethods.remove_staff)
