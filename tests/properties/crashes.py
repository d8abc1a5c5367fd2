"""Clients also die, after any command to Redis; the sweep or the next client completes what they began."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import rule

from presence_core import LoginRefused, OutcomeUnknown
from presence_core.operations.maintenance import repair, sweep
from presence_core.operations.search import rebuild
from presence_core.operations.sessions import end, login, validate
from presence_core.operations.staff import blocks
from presence_core.scripts.calls import Call, Op
from tests.properties.drawing import (
    UIDS,
    arguments,
    clients,
    holds,
    kicks,
    logins,
    own_ids,
    refs,
    revocations,
    uids,
    whys,
)
from tests.properties.ground import relay
from tests.properties.machine import History, New
from tests.properties.raw import Raw
from tests.properties.stays import Ref

T = TypeVar("T")


RECOUNT: Final = "search/rebuild/recount_facets"


class Crashes(History):
    """Only ``survives`` commands of an operation reach the server."""

    @rule(client=clients, ref=refs, survives=st.integers(0, 4))
    def a_client_dies_in_a_logout(self, client: int, ref: Ref, survives: int) -> None:
        self.act(ref[0])
        if self.cut_short(client, end.logout(self.clients[client].context, *ref), survives, "sessions/end_sessions"):
            self.leave(lambda: self.model.log_out(*ref))

    @rule(client=clients, ref=refs, why=kicks, survives=st.integers(0, 4))
    def a_client_dies_in_a_kick(self, client: int, ref: Ref, why: dict[str, Any], survives: int) -> None:
        uid, sid = ref
        self.act(uid)
        if self.cut_short(client, self.kick(client, uid, sid, why), survives, "sessions/end_sessions"):
            stay = self.model.find(*ref)
            self.leave(lambda: self.model.kick(uid, [stay] if stay and self.model.is_live(stay) else [], why))

    @rule(client=clients, uid=uids, why=kicks, survives=st.integers(0, 6))
    def a_client_dies_in_a_kick_of_all(self, client: int, uid: str, why: dict[str, Any], survives: int) -> None:
        self.act(uid)
        if self.cut_short(client, self.kick(client, uid, None, why), survives, "sessions/end_sessions"):
            self.leave(lambda: self.model.kick(uid, self.model.live(uid), why))

    @rule(client=clients, uid=uids, sid=own_ids, given=arguments, survives=st.integers(0, 6))
    def a_client_dies_in_a_login(self, client: int, uid: str, sid: str, given: dict[str, Any], survives: int) -> None:
        self.act(uid)
        context = self.clients[client].context
        secret = context.new_secret()
        usual, context.new_secret = context.new_secret, lambda: secret
        op = login.login(context, given | {"uid": uid, "session_id": sid})
        sent = self.cut_short(client, op, survives, "sessions/login")
        context.new_secret = usual
        if sent:
            outcome = self.leave(lambda: self.model.log_in(uid, sid, validate.make_token(uid, sid, secret), given))
            assert sent[-1][1][0].decode() == (outcome if isinstance(outcome, str) else "ok")
            for _, reply in sent:
                if reply[0] != b"ok" and "on_behalf_by" not in given:
                    self.model.note_failure(uid)

    @rule(client=clients, survives=st.integers(0, 9))
    def a_client_dies_in_a_sweep(self, client: int, survives: int) -> None:
        self.act(*UIDS)
        self.cut_short(client, sweep.sweep(self.clients[client].context, None), survives, "maintenance/settle_sessions")

    @rule(client=clients, ago=revocations, why=whys, survives=st.integers(0, 4))
    def a_client_dies_while_it_signs_everybody_out(
        self, client: int, ago: int | None, why: dict[str, Any], survives: int
    ) -> None:
        """Some shards have received it, others have not; a repetition reaches all."""
        self.act()
        now = self.model.now
        at = None if ago is None else (now - ago) / 1000
        op = end.revoke_before(self.clients[client].context, at, why["by"], why["reason"], why.get("message"))
        upto = self.model.signed_out_up_to(ago)
        for call, reply in self.cut_short(client, op, survives, "sessions/revoke_before"):
            shard = self.tags().index(call.key.partition("}")[0] + "}")
            assert reply[2] == self.model.revoke(shard, upto, why)

    @rule(client=clients, survives=st.integers(0, 60))
    def a_client_dies_during_a_rebuild(self, client: int, survives: int) -> None:
        self.act(*(uid for uid, _ in self.unburied))
        if self.cut_short(client, rebuild.reindex(self.clients[client].context), survives, RECOUNT):
            self.counting = True

    @rule(client=clients, survives=st.integers(0, 90))
    def a_client_dies_in_a_repair(self, client: int, survives: int) -> None:
        self.act(*UIDS)
        if self.cut_short(client, repair.repair(self.clients[client].context), survives, RECOUNT):
            self.counting = True

    @rule(client=clients, uid=uids, why=kicks, ms=st.sampled_from([0, 100_000]))
    def what_they_left_is_lost_as_well(self, client: int, uid: str, why: dict[str, Any], ms: int) -> None:
        """These sessions have no tombstone, but they have ended nevertheless, and once."""
        self.a_client_dies_in_a_kick_of_all(client, uid, why, 2)
        self.model.forsaken |= self.notice(Raw.look(self.bench.look))
        self.unburied = set()
        self.bench.raw.delete(*(f"{tag}:closing" for tag in self.tags()))
        self.time_passes(ms)
        self.upkeep_repairs(client, False)
        for issued in self.issued:
            self.token_agrees(issued)
        for ref in self.model.forsaken:
            assert not self.clients[client].logout(*ref)
            assert not self.clients[client].heartbeat(*ref)

    # -- only a reply is lost: the caller reads, or calls again
    # -----------------------------------------------------------

    @rule(client=clients, ref=refs, lost=st.integers(1, 2))
    def a_logout_is_repeated_as_its_reply_was_lost(self, client: int, ref: Ref, lost: int) -> None:
        self.act(ref[0])
        if self.unheard(end.logout(self.clients[client].context, *ref), client, lost, "sessions/end_sessions"):
            self.leave(lambda: self.model.log_out(*ref))
        self.a_user_logs_out(client, ref)

    @rule(client=clients, ref=refs, why=kicks, lost=st.integers(1, 2))
    def a_kick_is_repeated_as_its_reply_was_lost(self, client: int, ref: Ref, why: dict[str, Any], lost: int) -> None:
        uid, sid = ref
        self.act(uid)
        if self.unheard(self.kick(client, uid, sid, why), client, lost, "sessions/end_sessions"):
            stay = self.model.find(*ref)
            self.leave(lambda: self.model.kick(uid, [stay] if stay and self.model.is_live(stay) else [], why))
        self.staff_kick_a_session(client, ref, why)

    @rule(client=clients, uid=uids, why=kicks, lost=st.integers(1, 4))
    def a_kick_of_all_is_repeated_as_its_reply_was_lost(
        self, client: int, uid: str, why: dict[str, Any], lost: int
    ) -> None:
        self.act(uid)
        if self.unheard(self.kick(client, uid, None, why), client, lost, "sessions/end_sessions"):
            self.leave(lambda: self.model.kick(uid, self.model.live(uid), why))
        self.staff_kick_a_user(client, uid, why, [])

    @rule(target=logins, client=clients, uid=uids, sid=own_ids, given=arguments, lost=st.integers(1, 2))
    def a_login_is_repeated_as_its_reply_was_lost(
        self, client: int, uid: str, sid: str, given: dict[str, Any], lost: int
    ) -> New:
        self.act(uid)
        context = self.clients[client].context
        secret = context.new_secret()
        usual, context.new_secret = context.new_secret, lambda: secret
        op = login.login(context, given | {"uid": uid, "session_id": sid})
        self.unheard(op, client, lost, "sessions/login")
        context.new_secret = usual
        outcome = self.leave(lambda: self.model.log_in(uid, sid, validate.make_token(uid, sid, secret), given))
        if isinstance(outcome, str):
            self.model.note_failure(uid)
        return self.a_user_logs_in(client, uid, sid, given)

    @rule(client=clients, uid=uids, why=holds)
    def a_block_is_repeated_as_its_reply_was_lost(self, client: int, uid: str, why: dict[str, Any]) -> None:
        self.act(uid)
        self.unheard(blocks.block(self.clients[client].context, uid, **why), client, 1, "block")
        self.model.block(uid, why)
        self.staff_block_a_user(client, uid, why)

    def unheard(self, op: Op[Any], client: int, lost: int, script: str) -> bool:
        """All calls arrive, but the reply to the ``lost``-th batch does not. Returns whether the script ran."""
        ran = False
        try:
            calls = next(op)
            while True:
                replies = self.clients[client].internal.run(relay(calls))
                ran = ran or any(call.script and call.script.name == script for call in calls)
                lost -= 1
                calls = op.send(replies) if lost else op.throw(OutcomeUnknown("Its answer was lost."))
        except (StopIteration, OutcomeUnknown, LoginRefused):
            return ran

    def kick(self, client: int, uid: str, sid: str | None, why: dict[str, Any]) -> Op[Any]:
        return end.kick(self.clients[client].context, uid, sid, **why)

    def cut_short(self, client: int, op: Op[Any], survives: int, script: str) -> list[tuple[Call, Any]]:
        """Send this many of its commands and no more. Returns the calls of the given script, with replies."""
        found: list[tuple[Call, Any]] = []
        calls = next(op)
        while True:
            part = calls[:survives]
            if any(call.words[0] in ("HSET", "HDEL") for call in part):  # a sweep, or a recount, that was complete
                part = []
            replies = self.clients[client].internal.run(relay(part)) if part else []
            pairs = zip(part, replies, strict=True)
            found += [(call, reply) for call, reply in pairs if call.script and call.script.name == script]
            survives -= len(part)
            if len(part) < len(calls):
                op.close()
                return found
            try:
                calls = op.send(replies)
            except (StopIteration, LoginRefused):  # it was done: only its reply is lost
                return found

    def leave(self, change: Callable[[], T]) -> T:
        """Sessions that end now may have no tombstone; nor may those found past their deadline."""
        before = {stay.ref for stay in self.model.listed()}
        due = {stay.ref for stay in self.model.due()}
        answer = change()
        self.unburied |= before - {stay.ref for stay in self.model.listed()} | due
        return answer
