"""Requests that a second person approves: two answers race, one wins; no one approves their own."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from presence_core import ApprovalRequest, ApprovedAct, CorruptData, InvalidArgument, SessionFilter
from presence_core.operations.staff import approvals as limits
from tests.conftest import Bed, every_backend, on
from tests.support.facade import P

WHY: dict[str, Any] = {"by": "sam", "reason": "Stolen cards", "sessions": 1234}
WHO = SessionFilter(device="iPhone")
PERSON = "ada@home"  # no hexadecimal digest can hold it


def states(p: P) -> list[str]:
    return [request.state for request in p.approval_requests()]


def audited(p: P) -> list[tuple[str, str | None, str]]:
    return [(entry.action, entry.by, entry.outcome) for entry in p.audit()]


@every_backend
def test_a_request_is_asked_approved_and_done_and_the_audit_has_both_names(bed: Bed) -> None:
    p = bed.connect()
    p.freeze()
    assert p.approval_requests() == []
    asked = p.ask_approval(
        filter=WHO, exclude=["ada:session-1"], country="fr", duration=3600, message="Bye.", ticket="T-1", **WHY
    )
    assert asked == ApprovalRequest(
        id=asked.id, state="open", by="sam", reason="Stolen cards", message="Bye.", ticket="T-1", filter=WHO,
        exclude=("ada:session-1",), sessions=1234, country="FR", duration=3600, at=p.clock.now, until=asked.until,
    )  # fmt: skip
    assert (asked.until - asked.at).total_seconds() == 3600
    assert asked.blocks == "FR"
    assert p.approval_requests() == [asked]
    p.advance(10)
    approved = p.answer_request(asked.id, "approve", by="grace")
    assert (approved.state, approved.answered_by, approved.answered_at) == ("approved", "grace", p.clock.now)
    done = p.finish_request(asked.id, by="grace", outcome="job 7")
    assert (done.state, done.outcome, done.by) == ("done", "job 7", "sam")
    assert p.approval_requests() == [done]
    summary = "1,234 sessions to kick, logins of FR to block"
    assert audited(p) == [
        ("approve_request", "grace", f"request {asked.id} of sam, {summary}"),
        ("ask_approval", "sam", f"request {asked.id} of sam, {summary}, filter {WHO.to_json()}"),
    ]
    assert "approvals" in bed.families()


@on("valkey-sync", "redis7-async", "cluster-sync")
def test_no_one_approves_or_refuses_their_own_request_and_only_the_asker_withdraws_it(p: P) -> None:
    asked = p.ask_approval(filter=WHO, **WHY)
    for answer in ("approve", "refuse"):
        with pytest.raises(InvalidArgument, match=r"^by must not be the person who asks") as refused:
            p.answer_request(asked.id, answer, by="Sam", word="why not")
        assert refused.value.code == "own_request"
    with pytest.raises(InvalidArgument, match=r"^by must be the person who asked"):
        p.answer_request(asked.id, "withdraw", by="grace")
    assert states(p) == ["open"]
    assert p.answer_request(asked.id, "withdraw", by="sam").state == "withdrawn"
    assert [entry.action for entry in p.audit()] == ["withdraw_request", "ask_approval"]


@on("valkey-sync", "redis7-async", "cluster-sync")
def test_of_several_answers_the_first_wins(p: P) -> None:
    for first in ("approve", "refuse", "withdraw"):
        asked = p.ask_approval(filter=WHO, **WHY)
        answered = p.answer_request(asked.id, first, by="sam" if first == "withdraw" else "grace", word="no")
        for late, by in (("approve", "eve"), ("approve", "grace"), ("refuse", "eve"), ("withdraw", "sam")):
            with pytest.raises(InvalidArgument, match=f"^request_id .*: this one is {answered.state}") as refused:
                p.answer_request(asked.id, late, by=by, word="no")  # type: ignore[arg-type]
            assert refused.value.code == "answered"
        assert answered in p.approval_requests()
    with pytest.raises(InvalidArgument, match="must be of a known request"):
        p.answer_request("unknown-request", "approve", by="grace")


@on("valkey-sync", "cluster-sync")
def test_of_many_admins_who_approve_at_the_same_time_one_succeeds(bed: Bed) -> None:
    asked = bed.connect().ask_approval(filter=WHO, **WHY)
    admins = [bed.connect() for _ in range(6)]
    start = threading.Barrier(len(admins))

    def approve(number: int) -> str:
        start.wait()
        try:
            return admins[number].answer_request(asked.id, "approve", by=f"admin {number}").answered_by or ""
        except InvalidArgument as error:
            return error.code

    with ThreadPoolExecutor(len(admins)) as pool:
        results = list(pool.map(approve, range(len(admins))))
    [winner] = [result for result in results if result != "answered"]
    assert bed.connect().approval_requests()[0].answered_by == winner
    assert [entry.action for entry in bed.connect().audit()] == ["approve_request", "ask_approval"]


@on("valkey-sync", "redis7-async")
def test_only_the_person_who_approved_writes_the_result_and_once(p: P) -> None:
    asked = p.ask_approval(network="203.0.113.0/24", **WHY)
    with pytest.raises(InvalidArgument, match="this one is open"):
        p.finish_request(asked.id, by="grace", outcome="job 7")
    p.answer_request(asked.id, "approve", by="grace")
    with pytest.raises(InvalidArgument, match="who approved"):
        p.finish_request(asked.id, by="sam", outcome="job 7")
    assert states(p) == ["approved"], "a process that dies here leaves a request that says so"
    assert p.finish_request(asked.id, by="grace", outcome="More match now.", failed=True).state == "failed"
    with pytest.raises(InvalidArgument, match="this one is failed"):
        p.finish_request(asked.id, by="grace", outcome="job 7")
    assert audited(p)[0] == (
        "failed_request", "grace",
        f"request {asked.id} of sam, logins of 203.0.113.0/24 to block, it failed: More match now.",
    )  # fmt: skip


@on("valkey-sync", "redis7-async", "cluster-sync")
def test_a_request_lapses_by_the_clock_of_redis_and_no_late_answer_counts(bed: Bed) -> None:
    p = bed.connect()
    p.freeze()
    first = p.ask_approval(filter=WHO, lapse_after=60, **WHY)
    p.advance(1)
    p.ask_approval(filter=WHO, lapse_after=60, **WHY)
    p.advance(59)
    with pytest.raises(InvalidArgument, match="this one is lapsed"):
        p.answer_request(first.id, "approve", by="grace")
    assert states(p) == ["open", "lapsed"]
    p.advance(1)
    reader = bed.connect(heal=False)
    reader.set_now(p.clock.ms)
    assert states(reader) == ["lapsed", "lapsed"]
    assert [entry.action for entry in p.audit()].count("lapse_request") == 1, "a reader writes nothing"
    assert states(p) == states(p) == ["lapsed", "lapsed"]
    assert p.approval_requests()[1].answered_at == first.until
    assert [(entry.action, entry.by) for entry in p.audit()] == [
        ("lapse_request", "sam"), ("lapse_request", "sam"), ("ask_approval", "sam"), ("ask_approval", "sam"),
    ]  # fmt: skip


@on("valkey-sync", "redis7-async")
def test_requests_are_bounded_in_number_and_size_and_answered_ones_go_after_a_week(
    p: P, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_OPEN", 3)
    monkeypatch.setattr(limits, "MAX_OWN", 2)
    monkeypatch.setattr(limits, "MAX_ANSWERED", 2)
    p.freeze()
    first = p.ask_approval(filter=WHO, **WHY)
    p.advance(1)
    second = p.ask_approval(filter=WHO, **WHY)
    p.advance(1)
    with pytest.raises(InvalidArgument, match="limit of 2 open requests of one person") as refused:
        p.ask_approval(filter=WHO, **WHY)
    assert refused.value.code == "requests_full"
    third = p.ask_approval(filter=WHO, **WHY | {"by": "ada"})
    with pytest.raises(InvalidArgument, match="limit of 3 open requests is reached"):
        p.ask_approval(filter=WHO, **WHY | {"by": "bea"})
    for request in (first, second, third):
        p.advance(1)
        p.answer_request(request.id, "refuse", by="grace", word="No.")
    p.ask_approval(filter=WHO, **WHY)
    assert [request.id for request in p.approval_requests()][1:] == [third.id, second.id], "the oldest answer went"
    p.advance(8 * 86_400)
    p.ask_approval(filter=WHO, **WHY)
    assert states(p) == ["open"]
    monkeypatch.setattr(limits, "MAX_BYTES", 100)
    with pytest.raises(InvalidArgument, match="makes a request of more than 100 bytes"):
        p.ask_approval(filter=SessionFilter(text="x" * 100), **WHY)


@on("valkey-sync", "redis7-async")
def test_damaged_requests_are_left_out_and_another_programs_key_is_not_overwritten(p: P, bed: Bed) -> None:
    asked = p.ask_approval(filter=WHO, **WHY)
    key = p.context.keys.shards[0].approvals
    good = json.loads(bed.raw.hget(key, asked.id))
    for number, changed in enumerate((
        {"state": "other"}, {"at": "x"}, {"until": None}, {"filter": "{"}, {"exclude": "[1]"}, {"sessions": "many"},
        {"filter": '{"unknown": 1}'}, {"network": 5},
    )):  # fmt: skip
        bed.raw.hset(key, f"damaged-{number}", json.dumps(good | changed))
    bed.raw.hset(key, "damaged", "{")
    assert p.approval_requests() == [asked]
    with pytest.raises(InvalidArgument, match="must be of a known request"):
        p.answer_request("damaged-", "approve", by="grace")
    bed.raw.delete(key)
    bed.raw.set(key, "theirs")
    for act in (
        lambda: p.ask_approval(filter=WHO, **WHY),
        lambda: p.answer_request(asked.id, "approve", by="grace"),
        p.approval_requests,
    ):
        with pytest.raises(CorruptData):
            act()


def test_a_change_of_timeouts_is_asked_for_and_a_process_that_does_not_know_it_finds_nothing_to_kick(
    p: P, bed: Bed
) -> None:
    asked = p.ask_approval(filter=WHO, idle_timeout=300, absolute_timeout=7200, **WHY)
    assert (asked.changes_timeouts, asked.idle_timeout, asked.absolute_timeout) == (True, 300, 7200)
    assert (asked.filter, asked.sessions, asked.blocks) == (WHO, 1234, None)
    assert p.approval_requests() == [asked]
    [stored] = bed.raw.hvals(p.context.keys.shards[0].approvals)
    assert "filter" not in json.loads(stored)
    words = "timeouts of 1,234 sessions to change, idle timeout 300 s, absolute timeout 7200 s"
    assert audited(p) == [
        ("ask_approval", "sam", f"request {asked.id} of sam, {words}, filter {WHO.to_json()}"),
    ]
    with pytest.raises(InvalidArgument, match="approved"):
        p.answer_request(asked.id, "refuse", by="grace", word="no", approved=ApprovedAct(sessions=1, reason="x"))
    approved = p.answer_request(asked.id, "approve", by="grace")
    assert (approved.state, approved.changes_timeouts) == ("approved", True)


@on("valkey-sync", "redis7-async")
def test_an_erased_person_leaves_requests_and_an_open_one_that_named_them_lapses(p: P, bed: Bed) -> None:
    p.login(PERSON, name="Ada Lovelace", session_id="session-1")
    p.login("bob", session_id="session-2")
    by_uid = p.ask_approval(filter=SessionFilter(uid=PERSON), **WHY | {"reason": "Ada Lovelace asked"})
    refs = [f"{PERSON}:session-1", "bob:session-2"]
    by_text = p.ask_approval(filter=SessionFilter(text="lovelace"), exclude=refs, **WHY)
    by_times = p.ask_approval(filter=SessionFilter(uid=PERSON), idle_timeout=60, **WHY)
    other = p.ask_approval(filter=WHO, **WHY)
    as_staff = p.ask_approval(filter=WHO, **WHY | {"by": PERSON})
    p.answer_request(as_staff.id, "refuse", by="sam", word="Ada Lovelace, no.")
    exported = p.export_person(PERSON)["requests"]
    assert {request["id"] for request in exported} == {by_uid.id, by_times.id}
    assert p.erase(PERSON, by="dpo", reason="asked").complete
    assert not any(PERSON.encode() in value.lower() for value in bed.raw.hvals(p.context.keys.shards[0].approvals))
    found = {request.id: request for request in p.approval_requests()}
    assert found[by_uid.id].state == found[by_text.id].state == found[by_times.id].state == "lapsed"
    assert found[by_text.id].exclude == ("bob:session-2",)
    assert found[other.id] == other
    assert found[as_staff.id].by.startswith("forgotten:")
    assert p.export_person(PERSON)["requests"] == []


@on("valkey-sync", "redis7-async", "cluster-sync")
def test_who_approves_may_leave_sessions_out_and_the_audit_has_what_was_asked_and_what_was_approved(p: P) -> None:
    p.login(PERSON, name="Ada Lovelace", session_id="session-1")
    wide = SessionFilter(device="iPhone", attributes={"plan": "free"})
    asked = p.ask_approval(filter=wide, exclude=["ada:session-1"], country="FR", duration=3600, **WHY)
    narrow = replace(wide, uid=PERSON, attributes={"plan": "free", "site": 2})
    act = ApprovedAct(
        sessions=12, reason="Only these", filter=narrow, exclude=("ada:session-1", f"{PERSON}:session-1"), duration=60
    )
    approved = p.answer_request(asked.id, "approve", by="grace", approved=act)
    assert approved == replace(
        asked, state="approved", answered_by="grace", answered_at=approved.answered_at, approved=act
    ), "what was asked stays as it was"
    assert p.approval_requests() == [approved]
    [later, earlier] = p.audit()
    assert (later.reason, earlier.reason) == ("Only these", "Stolen cards")
    assert later.outcome.endswith(f", narrowed to 12 sessions, filter {narrow.to_json()}")
    assert earlier.outcome.endswith(f"filter {wide.to_json()}")
    assert p.erase(PERSON, by="dpo", reason="asked").complete
    [request] = p.approval_requests()
    assert request.approved is not None
    assert request.approved.exclude == ("ada:session-1",)
    assert request.approved.filter is not None
    assert request.approved.filter.uid != PERSON


@on("valkey-sync", "redis7-async")
def test_no_one_approves_a_kick_that_reaches_a_session_beyond_the_request(p: P) -> None:
    wide = SessionFilter(device="iPhone", attributes={"plan": "free"}, idle_for=60)
    asked = p.ask_approval(filter=wide, exclude=["ada:session-1"], **WHY)
    good = ApprovedAct(sessions=1, reason="why", filter=wide, exclude=("ada:session-1",))
    for field, wrong in (
        ("filter", {"filter": SessionFilter(device="iPhone", attributes={"plan": "free"})}),
        ("filter", {"filter": replace(wide, device="Android")}),
        ("filter", {"filter": replace(wide, attributes={"site": 2})}),
        ("filter", {"filter": None}),
        ("exclude", {"exclude": ("bob:session-2",)}),
        ("duration", {"duration": 60}),
    ):
        with pytest.raises(InvalidArgument) as refused:
            p.answer_request(asked.id, "approve", by="grace", approved=replace(good, **wrong))
        assert (refused.value.field, refused.value.code) == (field, "conflicts")
    rule = p.ask_approval(network="203.0.113.0/24", **WHY)
    with pytest.raises(InvalidArgument, match=r"^filter must have each condition"):
        p.answer_request(rule.id, "approve", by="grace", approved=good)
    assert states(p) == ["open", "open"]
    for kept in (good, ApprovedAct(sessions=1, reason="why", duration=60)):
        request = asked if kept.filter else rule
        assert p.answer_request(request.id, "approve", by="grace", approved=kept).approved == kept
    with pytest.raises(InvalidArgument, match="must be of a known request"):
        p.answer_request("unknown-request", "approve", by="grace", approved=good)
