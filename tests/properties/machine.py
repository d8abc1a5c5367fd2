"""Random histories: the actions of visitors, staff and maintenance, and the expected reply of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import MultipleResults, initialize, multiple, rule

from presence_core import InvalidArgument, Login, LoginRefused, SessionFilter
from presence_core.models import moment
from presence_core.operations.maintenance import leader
from presence_core.operations.search import rebuild
from presence_core.scripts.maintenance import SETTLE_SESSIONS
from presence_core.scripts.script import AnyScript
from presence_core.scripts.search import INDEX_SESSIONS, READ_INDEX, WALK_SESSIONS
from presence_core.scripts.sessions import END_SESSIONS, LOGIN, READ_SESSIONS
from presence_core.validation import is_on_behalf
from tests.properties.drawing import (
    ALL,
    FILTERS,
    UIDS,
    Issued,
    acts,
    addresses,
    arguments,
    changes,
    clients,
    holds,
    kicks,
    logins,
    names,
    new_clients,
    own_ids,
    refs,
    revocations,
    rows,
    staff_ids,
    timeouts,
    uids,
    whys,
)
from tests.properties.ground import relay
from tests.properties.invariants import Agreement
from tests.properties.raw import Raw
from tests.properties.stays import Ref, Stay, said

New = MultipleResults[Issued] | Issued


class Visits(Agreement):
    """Actions of visitors: sessions begin, are used, and end by logout."""

    @initialize(target=logins, uid=uids)
    def a_user_is_online(self, uid: str) -> New:
        return self.a_user_logs_in(0, uid, None, {})

    @rule(target=logins, client=clients, uid=uids, sid=st.none() | own_ids, given=arguments)
    def a_user_logs_in(self, client: int, uid: str, sid: str | None, given: dict[str, Any]) -> New:
        self.act(uid)
        return multiple(*self.log_in(client, uid, sid, given))

    @rule(target=logins, client=clients, login=logins, given=arguments)
    def a_login_is_repeated(self, client: int, login: Issued, given: dict[str, Any]) -> New:
        return self.a_user_logs_in(client, login.uid, login.sid, given)

    @rule(target=logins, client=clients, uid=uids, sid=st.none() | staff_ids, by=st.sampled_from(["sue", "Bob"]))
    def staff_log_in_on_behalf_of_a_user(self, client: int, uid: str, sid: str | None, by: str) -> New:
        self.act(uid)
        return multiple(*self.log_in(client, uid, sid, {"on_behalf_by": by, "reason": "ticket 7"}))

    def log_in(self, client: int, uid: str, sid: str | None, given: dict[str, Any]) -> list[Issued]:
        if sid is not None and is_on_behalf(sid) and "on_behalf_by" not in given:  # a session of staff is repeated
            given = {"on_behalf_by": "sue", "reason": "ticket 7"}
        answer: Login | LoginRefused
        try:
            answer = self.clients[client].login(uid, session_id=sid, **given)
        except LoginRefused as error:
            answer = error
        return list(self.logged_in(answer, uid, sid, given))

    @rule(target=logins, client=clients, many=rows, imported=st.booleans())
    def many_log_in(self, client: int, many: list[dict[str, Any]], imported: bool) -> New:
        self.act(*(row["uid"] for row in many))
        self.mixed = True
        sent, times = [], []
        for row in many:
            login_at = last_seen = None
            given = row["given"] | {"uid": row["uid"], "session_id": row["session_id"]}
            if imported and "ago" in row:
                login_at = last_seen = self.model.now - row["ago"] * 1000
                given["login_at"] = moment(login_at)
                if "seen_ago" in row:
                    last_seen = self.model.now - row["seen_ago"] * 1000
                    given["last_seen"] = last_seen / 1000
            sent.append(given)
            times.append((login_at, last_seen))
        answers = self.clients[client].login_many(sent, imported=imported)
        assert len(answers) == len(many)
        raw = Raw.look(self.bench.look)
        for index, tag in enumerate(self.tags()):
            self.model.labels_after[index] = {text.decode() for text in raw.values.get(f"{tag}:labels", {}).values()}
        new: list[Issued] = []
        for row, answer, (login_at, last_seen) in zip(many, answers, times, strict=True):
            new += self.logged_in(answer, row["uid"], row["session_id"], row["given"], login_at, last_seen)
        self.model.labels_after.clear()
        return multiple(*new)

    def logged_in(
        self,
        answer: Login | LoginRefused,
        uid: str,
        sid: str | None,
        given: dict[str, Any],
        login_at: int | None = None,
        last_seen: int | None = None,
    ) -> Iterator[Issued]:
        token, session_id = "", sid or "none"
        if isinstance(answer, Login):
            token, session_id = answer.token, answer.session.session_id
            assert sid in (None, session_id)
        outcome = self.model.log_in(uid, session_id, token, given, login_at, last_seen)
        if isinstance(outcome, str) and login_at is None and "on_behalf_by" not in given:
            self.model.note_failure(uid)
        if isinstance(answer, LoginRefused):
            assert answer.code == outcome
            hold = self.model.holds.get(uid)
            if outcome == "blocked" and hold:
                assert answer.message == hold.message
                assert answer.until == (None if hold.until is None else moment(hold.until))
            return
        assert not isinstance(outcome, str), f"this should have been refused: {outcome}"
        facts = self.model.facts(self.model.stays[uid, session_id])
        assert said(answer.session, facts) == facts
        self.are(answer.replaced, outcome)
        self.issued.append(Issued(uid, session_id, token))
        yield self.issued[-1]

    @rule(client=clients, login=logins, forged=st.booleans(), touch=st.booleans(), ip=addresses)
    def a_request_comes(self, client: int, login: Issued, forged: bool, touch: bool, ip: str | None) -> None:
        self.act(login.uid)
        token = login.forged if forged else login.token
        answer = self.clients[client].validate(token, touch=touch, ip=ip)
        self.judged(client, answer, self.model.find(login.uid, login.sid, token), touch, ip)

    @rule(client=clients, ref=refs, touch=st.booleans(), ip=addresses)
    def a_request_comes_by_session_id(self, client: int, ref: Ref, touch: bool, ip: str | None) -> None:
        self.act(ref[0])
        answer = self.clients[client].validate_session(*ref, touch=touch, ip=ip)
        self.judged(client, answer, self.model.find(*ref), touch, ip)

    def expired(self, client: int, stay: Stay | None) -> None:
        """This client has reported the expiry, if it happened; while a worker vouches for the clock this is
        recorded."""
        heals = self.clients[client].settings.heal
        if stay and heals and self.model.is_vouched(stay.uid) and not self.model.is_revoked(stay):
            self.reported.add(stay.ref)

    def judged(self, client: int, answer: Any, stay: Stay | None, touch: bool, ip: str | None) -> None:
        live = self.model.is_live(stay)
        if stay is not None and live and stay.demanded is not None:
            assert (bool(answer), answer.code) == (False, "sign_in_required")
            facts = self.model.facts(stay)
            assert said(answer.refused, facts) == facts
            return
        assert bool(answer) == live
        if stay is None:
            assert answer.session is None
            assert answer.ended is None
        elif live:
            if touch:
                self.model.touch(stay, ip)
            facts = self.model.facts(stay)
            assert said(answer.session, facts) == facts
        else:
            self.note_reported(answer.ended, stay)
            self.expired(client, stay)

    @rule(client=clients, login=logins, forged=st.booleans(), by_id=st.booleans(), changes=changes)
    def attributes_are_changed(
        self, client: int, login: Issued, forged: bool, by_id: bool, changes: dict[str, Any]
    ) -> None:
        self.act(login.uid)
        token, driver = login.forged if forged else login.token, self.clients[client]
        if by_id:
            answer = driver.update_session(login.uid, login.sid, attributes=changes)
        else:
            answer = driver.update(token, attributes=changes)
        stay = self.model.find(login.uid, login.sid, None if by_id else token)
        if stay and self.model.is_live(stay) and stay.demanded is None:
            self.model.change(stay, changes)
        self.judged(client, answer, stay, False, None)

    @rule(client=clients, login=logins, names=names, new=new_clients)
    def a_session_is_renamed(self, client: int, login: Issued, names: dict[str, Any], new: dict[str, Any]) -> None:
        self.act(login.uid)
        given = names if is_on_behalf(login.sid) else names | new  # no limit counts a session of staff
        answer = self.clients[client].update_session(login.uid, login.sid, **given)
        stay = self.model.find(login.uid, login.sid)
        if stay and self.model.is_live(stay) and stay.demanded is None:
            self.model.rename(stay, given)
        self.judged(client, answer, stay, False, None)

    @rule(client=clients, uid=uids, names=names)
    def a_person_is_renamed(self, client: int, uid: str, names: dict[str, Any]) -> None:
        self.act(uid)
        assert self.clients[client].update_person(uid, **names) == self.model.rename_person(uid, names)

    @rule(target=logins, client=clients, login=logins, forged=st.booleans())
    def a_secret_is_changed(self, client: int, login: Issued, forged: bool) -> New:
        self.act(login.uid)
        token = login.forged if forged else login.token
        stay = self.model.find(login.uid, login.sid, token)
        answer: Login | LoginRefused
        try:
            answer = self.clients[client].rotate(token)
        except LoginRefused as error:
            answer = error
        if isinstance(answer, LoginRefused) and answer.code == "sign_in_required":
            assert stay is not None
            assert stay.demanded is not None
            return multiple()
        return self.secret_changed(client, login, stay, answer)

    @rule(target=logins, client=clients, login=logins, forged=st.booleans(), ago=st.sampled_from([None, 0, 1, 5000]))
    def a_visitor_authenticates_again(self, client: int, login: Issued, forged: bool, ago: int | None) -> New:
        self.act(login.uid)
        token = login.forged if forged else login.token
        stay = self.model.find(login.uid, login.sid, token)
        began = None if ago is None else self.model.now - ago
        if is_on_behalf(login.sid):
            with pytest.raises(InvalidArgument):
                self.clients[client].reauthenticated(token)
            return multiple()
        answer: Login | LoginRefused
        try:
            answer = self.clients[client].reauthenticated(token, began=None if began is None else began / 1000)
        except LoginRefused as error:
            answer = error
        if stay is not None and self.model.is_live(stay):
            self.model.authenticate(stay, began)
        return self.secret_changed(client, login, stay, answer)

    def secret_changed(self, client: int, login: Issued, stay: Stay | None, answer: Login | LoginRefused) -> New:
        if isinstance(answer, LoginRefused):
            assert answer.code == "ended"
            assert not self.model.is_live(stay)
            self.expired(client, stay)
            return multiple()
        assert stay is not None
        assert self.model.is_live(stay)
        stay.token = answer.token
        facts = self.model.facts(stay)
        assert said(answer.session, facts) == facts
        self.issued.append(Issued(login.uid, login.sid, answer.token))
        return multiple(self.issued[-1])

    @rule(client=clients, ref=refs)
    def a_session_is_seen(self, client: int, ref: Ref) -> None:
        self.act(ref[0])
        stay = self.model.find(*ref)
        live = self.model.is_live(stay)
        assert self.clients[client].heartbeat(*ref) is live
        if stay and live:
            self.seen(stay)
        else:
            self.expired(client, stay)

    def seen(self, stay: Stay) -> None:
        if stay.demanded is None:
            self.model.touch(stay)

    @rule(client=clients, seen=st.lists(refs, max_size=6))
    def many_sessions_are_seen(self, client: int, seen: list[Ref]) -> None:
        self.act(*(uid for uid, _ in seen))
        gone = self.clients[client].heartbeats([f"{uid}:{sid}" for uid, sid in seen])
        dead = []
        for uid, sid in seen:
            stay = self.model.find(uid, sid)
            if stay and self.model.is_live(stay):
                self.seen(stay)
            else:
                dead.append(f"{uid}:{sid}")
                self.expired(client, stay)
        assert sorted(gone) == sorted(dead)

    @rule(client=clients, ref=refs)
    def a_user_logs_out(self, client: int, ref: Ref) -> None:
        self.act(ref[0])
        assert self.clients[client].logout(*ref) is self.model.log_out(*ref)


class Staff(Visits):
    """Actions of staff."""

    def time_passes(self, ms: int) -> None:
        self.act()
        self.model.now += ms
        self.clock.set(self.model.now)

    @rule(client=clients, ref=refs, why=kicks)
    def staff_kick_a_session(self, client: int, ref: Ref, why: dict[str, Any]) -> None:
        uid, sid = ref
        self.act(uid)
        stay = self.model.find(uid, sid)
        live = self.model.is_live(stay)
        result = self.clients[client].kick(uid, sid, **why)
        self.model.kick(uid, [stay] if stay and live else [], why)
        self.are(result.kicked, [stay] if stay and live else [])
        if stay is None or live:
            assert result.already_ended == []
        elif result.already_ended or self.model.keep(self.model.ending(stay).reason):
            [ended] = result.already_ended
            self.note_reported(ended, stay)

    @rule(client=clients, uid=uids, why=kicks, keep=st.lists(refs, max_size=3))
    def staff_kick_a_user(self, client: int, uid: str, why: dict[str, Any], keep: list[Ref]) -> None:
        self.act(uid)
        self.clean = {uid} if not keep else set()
        kept = [sid for _, sid in keep]
        victims = [stay for stay in self.model.live(uid) if stay.sid not in kept]
        result = self.clients[client].kick(uid, keep=kept, **why)
        self.model.kick(uid, victims, why)
        self.are(result.kicked, victims)
        assert result.already_ended == []

    @rule(
        client=clients,
        asked=st.sampled_from([*FILTERS, *[ALL] * 5]),
        why=whys,
        first=st.lists(st.tuples(uids, st.none() | own_ids, arguments), max_size=4),
        spare=st.integers(0, 2),
    )
    def staff_kick_all_that_match(
        self, client: int, asked: dict[str, Any], why: dict[str, Any], first: list[Any], spare: int
    ) -> None:
        """Some log in within the same millisecond, and are kicked, too."""
        for newcomer in first:
            self.log_in(client, *newcomer)
        self.act(*UIDS)
        self.mixed = True
        model = self.model
        model.ask_for_all()
        victims = model.matching(asked)
        refs, victims = [stay.name for stay in victims[:spare]], victims[spare:]
        most = len(victims) + (99 if model.stale else 0)  # entries of a lost record may be counted
        result = self.clients[client].kick_where(SessionFilter(**asked), expected=most, exclude=refs, **why)
        assert result.job is not None
        assert (result.job.state, result.count) == ("done", len(victims))
        self.are(result.kicked, victims)
        model.kick_job(result.job.id, victims, why)

    @rule(client=clients, ref=refs, why=whys, is_all=st.booleans())
    def staff_require_a_sign_in(self, client: int, ref: Ref, why: dict[str, Any], is_all: bool) -> None:
        uid, sid = ref
        self.act(uid)
        if not is_all and is_on_behalf(sid):
            with pytest.raises(InvalidArgument):
                self.clients[client].require_sign_in(uid, sid, **why)
            return
        asked = [stay for stay in self.model.own_live(uid) if is_all or stay.sid == sid]
        result = self.clients[client].require_sign_in(uid, None if is_all else sid, **why)
        self.model.require_sign_in(uid, asked, why)
        assert result.skipped == (len(self.model.live(uid)) - len(asked) if is_all else 0)
        self.are(result.sessions, asked)
        assert all(session.sign_in_required_at == moment(self.model.now) for session in result.sessions)

    @rule(client=clients, ref=refs, given=timeouts.filter(bool), is_all=st.booleans())
    def staff_change_timeouts(self, client: int, ref: Ref, given: dict[str, Any], is_all: bool) -> None:
        uid, sid = ref
        self.act(uid)
        asked = [stay for stay in self.model.live(uid) if is_all or stay.sid == sid]
        changed = self.clients[client].change_timeouts(
            uid, None if is_all else sid, by="sue", reason="shared device", **given
        )
        self.model.change_timeouts(uid, asked, **given)
        self.are(changed, asked)

    @rule(client=clients, uid=uids, why=holds)
    def staff_block_a_user(self, client: int, uid: str, why: dict[str, Any]) -> None:
        self.act(uid)
        block = self.clients[client].block(uid, **why)
        self.model.block(uid, why)
        hold = self.model.holds[uid]
        assert (block.at, block.until) == (moment(hold.at), None if hold.until is None else moment(hold.until))
        assert (block.by, block.reason, tuple(block.tickets)) == (hold.by, hold.reason, hold.tickets)

    @rule(client=clients, uid=uids)
    def staff_unblock_a_user(self, client: int, uid: str) -> None:
        self.act(uid)
        assert self.clients[client].unblock(uid, by="sue", reason="paid") is self.model.unblock(uid)

    @rule(client=clients, ago=revocations, why=whys)
    def staff_sign_everybody_out(self, client: int, ago: int | None, why: dict[str, Any]) -> None:
        self.act()
        at = None if ago is None else (self.model.now - ago) / 1000
        upto = self.model.signed_out_up_to(ago)
        killed = self.clients[client].revoke_before(at, **why)
        assert killed == sum(self.model.revoke(shard, upto, why) for shard in range(self.model.shards))


class History(Staff):
    """Time, maintenance, and reads that heal."""

    def healed(self, client: int, *who: str) -> None:
        """This client has read these users."""
        if self.clients[client].settings.heal:
            self.clean = set(filter(self.model.is_vouched, who))

    @rule(ms=st.sampled_from([1, 999, 1000, 2000, 5000, 21_000, 60_000]))
    def some_time_passes(self, ms: int) -> None:
        self.time_passes(ms)

    @rule(which=st.integers(0, 9), off=st.sampled_from([-1, 0, 1]))
    def time_comes_to_a_deadline(self, which: int, off: int) -> None:
        moments = sorted({stay.deadline + off for stay in self.model.live()} - {self.model.now})
        self.time_passes(moments[which % len(moments)] - self.model.now if moments else 0)

    @rule(client=clients)
    def a_worker_speaks_for_the_clock(self, client: int) -> None:
        self.act()
        driver, now = self.clients[client], self.model.now
        driver.internal.run(leader.vouch(driver.context, now, 1, 15_000, True))
        self.model.vouched = dict.fromkeys(range(self.model.shards), (now, now + 15_000))

    @rule(client=clients, limit=st.none() | st.integers(1, 3))
    def upkeep_sweeps(self, client: int, limit: int | None) -> None:
        self.act(*UIDS)
        due, unburied = len(self.model.due()), len(self.unburied)
        report = self.clients[client].sweep(limit=limit)
        assert report.has_more == (limit is not None and limit < due + unburied)
        if report.has_more:
            assert report.expired + report.repaired == limit
        else:
            assert (report.expired, report.repaired) == (due, unburied)
            self.swept()

    @rule(client=clients, twice=st.booleans())
    def upkeep_repairs(self, client: int, twice: bool) -> None:
        """On intact data a repair does what a sweep does, and removes unneeded index entries."""
        self.act(*UIDS)
        due, unburied = len(self.model.due()), len(self.unburied)
        report = self.clients[client].repair()
        assert (report.expired, report.has_more) == (due, False)
        assert report.repaired >= unburied
        self.repaired()
        if twice:
            report = self.clients[client].repair()
            assert (report.expired, report.repaired, report.has_more) == (0, 0, False)

    @rule(client=clients)
    def indexes_are_rebuilt(self, client: int) -> None:
        self.act(*(uid for uid, _ in self.unburied))
        self.clients[client].reindex()
        self.reindexed()
        self.indexed = True

    @rule(target=logins, client=clients, other=clients, more=st.lists(st.tuples(st.integers(1, 40), acts), max_size=4))
    def others_act_during_a_rebuild(self, client: int, other: int, more: list[tuple[int, Any]]) -> New:
        self.act(*UIDS)
        self.mixed = True
        driver = self.clients[client]
        op = rebuild.reindex(driver.context)
        new: list[Issued] = []
        calls, step = next(op), 0
        while True:
            replies = driver.internal.run(relay(calls))
            step += 1
            for place, (what, *how) in more:
                if place == step:
                    new += self.meanwhile(other, what, *how)
            try:
                calls = op.send(replies)
            except StopIteration:
                break
        self.reindexed()
        self.clean = set()
        return multiple(*new)

    def meanwhile(self, client: int, what: str, *how: Any) -> list[Issued]:
        if what == "login":
            return self.log_in(client, *how)
        if what == "login again":
            return self.log_in(client, how[0].uid, how[0].sid, how[1])
        if what == "logout":
            assert self.clients[client].logout(*how[0]) is self.model.log_out(*how[0])
        else:
            uid, why = how
            victims = self.model.live(uid)
            self.are(self.clients[client].kick(uid, **why).kicked, victims)
            self.model.kick(uid, victims, why)
        return []

    @rule(
        known=st.sets(
            st.sampled_from(
                [LOGIN, READ_SESSIONS, END_SESSIONS, SETTLE_SESSIONS, WALK_SESSIONS, READ_INDEX, INDEX_SESSIONS]
            )
        )
    )
    def the_server_forgets_its_scripts(self, known: set[AnyScript]) -> None:
        """As a failover does; some users return with other clients."""
        self.act()
        self.bench.raw.script_flush()
        for script in known:
            self.bench.raw.script_load(script.text)

    @rule(client=clients, uid=uids)
    def a_client_reads_a_user(self, client: int, uid: str) -> None:
        self.act(uid)
        self.healed(client, uid)
        self.are(self.clients[client].sessions(uid), self.model.live(uid))
        assert (self.clients[client].blocked(uid) is not None) == self.model.is_held(uid)

    @rule(client=clients, ref=refs)
    def a_client_reads_a_session(self, client: int, ref: Ref) -> None:
        self.act(ref[0])
        stay = self.model.find(*ref)
        session = self.clients[client].get(*ref)
        if stay and self.model.is_live(stay):
            assert session is not None
            self.are([session], [stay])
        else:
            assert session is None

    @rule(client=clients)
    def a_client_reads_the_whole_list(self, client: int) -> None:
        self.act(*UIDS)
        self.read = self.clients[client].settings.heal and all(map(self.model.is_vouched, UIDS))
        self.are(self.clients[client].iter_sessions(), self.model.live())

    @rule(client=clients, limit=st.integers(1, 4))
    def a_client_reads_the_next_page(self, client: int, limit: int) -> None:
        """Other steps happen in between: the next page still begins after the last one."""
        self.act(*UIDS)
        cursor, behind = self.page
        rest = [stay for stay in self.model.live() if behind is None or stay.key < behind]
        page = self.clients[client].list_sessions(limit=limit, cursor=cursor)
        self.are(page.items, rest[:limit])
        assert (page.next_cursor is not None) == (len(rest) > limit)
        assert (page.total, page.total_is_exact) == (len(self.model.live()), True)
        self.page = (page.next_cursor, rest[limit - 1].key) if page.next_cursor else (None, None)
