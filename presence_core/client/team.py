"""What staff save, which staff members have a person open, and what a second person must approve."""

from __future__ import annotations

from collections.abc import Iterable

from presence_core.client.base import AsyncClient, Client, awaited
from presence_core.filters import SessionFilter
from presence_core.models import ApprovalAnswer, ApprovalRequest, ApprovedAct, Remark, SavedItem, SavedKind, Viewer
from presence_core.operations.staff import approvals, remarks, saved_items, viewers


class TeamMethods(Client):
    def saved_items(self, kind: SavedKind, *, owner: str | None = None) -> list[SavedItem]:
        """The items that a staff member saved, by name, then those that are shared with everyone.

        kind: "view", "phrase" or "watch". owner: the staff member; None: only the shared items. Cost: O(items), one
        round trip; a list has at most 200 items and 131,072 bytes.
        """
        return self._run(saved_items.saved_items(self._ctx, kind, owner))

    def save_item(
        self,
        kind: SavedKind,
        name: str,
        text: str,
        *,
        by: str,
        shared: bool = False,
        instead_of: str | None = None,
    ) -> SavedItem:
        """Save an item, or replace the one of this name. Returns it as it is stored.

        kind: "view", "phrase" or "watch". name: 1-256 bytes; of a watched person the uid. text: at most 4,096 bytes.
        by: the staff member, whose item it is unless ``shared``. shared: for all staff; ``audit`` shows the change.
        instead_of: the former name, to rename an item.

        Raises InvalidArgument if the list is full (200 items, or 131,072 bytes). Of two concurrent calls with the same
        name the later wins. Cost: O(items of the list), one round trip.
        """
        return self._run(saved_items.save_item(self._ctx, kind, name, text, by, shared, instead_of))

    def remove_item(self, kind: SavedKind, name: str, *, by: str, shared: bool = False) -> bool:
        """Remove a saved item. False: there is none of this name. ``audit`` shows the removal of a shared item.

        by: the staff member, whose item it is unless ``shared``. Cost: O(items of the list), one round trip.
        """
        return self._run(saved_items.remove_item(self._ctx, kind, name, by, shared))

    def note_viewer(self, uid: str, *, by: str, closed: bool = False) -> list[Viewer]:
        """Note that a staff member has this user open. Returns the others who have, the earliest first.

        A note expires after 30 seconds: repeat the call while the user stays open. closed: the member has closed the
        user. At most 50 members are noted for a user. Cost: O(members), one round trip.
        """
        return self._run(viewers.note_viewer(self._ctx, uid, by, closed))

    def add_remark(self, uid: str, text: str, *, by: str) -> Remark:
        """Leave a remark on a user for colleagues, for ``Settings.keep_remarks``. ``audit`` shows that, not the text.

        text: 1-500 characters. by: the staff member. Raises InvalidArgument if the user has 10 remarks, or 10,000 users
        have some. An interrupted call may have added it. Cost: O(1), one round trip.
        """
        return self._run(remarks.add_remark(self._ctx, uid, text, by))

    def remove_remark(self, uid: str, remark_id: str, *, by: str) -> bool:
        """Remove a remark. False: it is not there, or has lapsed. ``audit`` shows the removal. One round trip."""
        return self._run(remarks.remove_remark(self._ctx, uid, remark_id, by))

    def remarks(self, uid: str | None = None, *, limit: int = 100) -> list[Remark]:
        """The remarks on a user, newest first; without a uid the newest on all users. Lapsed ones are left out.

        limit: 1…1000. Cost: one round trip for a user; two for all, O(P·limit).
        """
        return self._run(remarks.remarks(self._ctx, uid, limit))

    def remarks_among(self, uids: Iterable[str]) -> dict[str, list[Remark]]:
        """The remarks on those of these users, at most 1,000, who have some; of each newest first.

        Cost: O(uids), one round trip to all shards at once, and one more if some have remarks.
        """
        return self._run(remarks.remarks_among(self._ctx, uids))

    def ask_approval(
        self,
        *,
        by: str,
        reason: str,
        sessions: int,
        filter: SessionFilter | None = None,
        exclude: Iterable[str] = (),
        network: str | None = None,
        app: str | None = None,
        app_version: str | None = None,
        country: str | None = None,
        duration: int | None = None,
        message: str | None = None,
        ticket: str | None = None,
        lapse_after: int = 3_600,
        idle_timeout: int | None = None,
        absolute_timeout: int | None = None,
    ) -> ApprovalRequest:
        """Ask for a bulk kick, a block rule or both, or a bulk change of timeouts, which a second person approves.
        Nothing is kicked, blocked or changed.

        by: the staff member who asks. filter: of the bulk kick, as a preview returns it; None: only the rule. exclude:
        at most 200 refs. sessions: how many match, as the member saw it. network, app with app_version, country,
        duration (seconds): as for ``add_block_rule``. reason, message, ticket: of both. lapse_after: seconds until it
        lapses, 60…604,800. idle_timeout, absolute_timeout: as for ``change_timeouts_where``; ``filter`` is then that of
        the change, without ``exclude`` and a rule.

        Raises InvalidArgument beyond 50 open requests, 10 of one person, or 16,384 bytes. ``audit`` shows each request.
        The library does not know roles: a dashboard decides who may approve. Cost: O(requests), one round trip.
        """
        operation = approvals.ask(
            self._ctx, by=by, reason=reason, filter=filter, exclude=exclude, sessions=sessions, network=network,
            app=app, app_version=app_version, country=country, duration=duration, message=message, ticket=ticket,
            lapse_after=lapse_after, idle_timeout=idle_timeout, absolute_timeout=absolute_timeout,
        )  # fmt: skip
        return self._run(operation)

    def approval_requests(self) -> list[ApprovalRequest]:
        """All requests, the latest first: at most 50 open ones, and the latest 50 that were answered within 7 days.

        One that is past its end is ``lapsed``; this writes that, for the audit, unless ``settings.heal`` is off. Cost:
        O(requests), one round trip; one more for some that lapsed.
        """
        return self._run(approvals.requests(self._ctx))

    def answer_request(
        self,
        request_id: str,
        answer: ApprovalAnswer,
        *,
        by: str,
        word: str | None = None,
        approved: ApprovedAct | None = None,
    ) -> ApprovalRequest:
        """Approve, refuse or withdraw a request. Of two concurrent answers one wins; the other raises InvalidArgument
        (code "answered").

        answer: "approve" only records the answer: the caller does next what was asked, and then calls
        ``finish_request``. "approve" and "refuse" need another person than the one who asked, "withdraw" needs the
        same: else InvalidArgument (code "own_request"). word: why, 1-500 characters; "refuse" needs it. approved: with
        "approve", if it is not exactly what was asked. It may leave out sessions, and change the reason and the
        duration; a filter without a condition of the request raises InvalidArgument (code "conflicts").

        ``audit`` shows each answer. Cost: O(1), one round trip; with ``approved`` one more, O(requests).
        """
        return self._run(approvals.answer(self._ctx, request_id, answer, by, word, approved))

    def finish_request(self, request_id: str, *, by: str, outcome: str, failed: bool = False) -> ApprovalRequest:
        """Write the result of an approved request, once: it is ``done``, or ``failed``, which ``audit`` shows.

        by: the person who approved. outcome: 1-500 characters. A request that stays ``approved`` was begun by a process
        that died: whether its act happened is in ``jobs`` and ``block_rules``. Cost: O(1), one round trip.
        """
        return self._run(approvals.finish(self._ctx, request_id, by, outcome, failed))


class AsyncTeamMethods(AsyncClient):
    saved_items = awaited(TeamMethods.saved_items)
    save_item = awaited(TeamMethods.save_item)
    remove_item = awaited(TeamMethods.remove_item)
    note_viewer = awaited(TeamMethods.note_viewer)
    add_remark = awaited(TeamMethods.add_remark)
    remove_remark = awaited(TeamMethods.remove_remark)
    remarks = awaited(TeamMethods.remarks)
    remarks_among = awaited(TeamMethods.remarks_among)
    ask_approval = awaited(TeamMethods.ask_approval)
    approval_requests = awaited(TeamMethods.approval_requests)
    answer_request = awaited(TeamMethods.answer_request)
    finish_request = awaited(TeamMethods.finish_request)
