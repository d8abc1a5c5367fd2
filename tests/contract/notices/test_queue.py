"""The queue of notices: each is claimed once, and an answer is taken once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from presence_core import Unavailable
from presence_core.operations.notices import answers, queue
from presence_core.operations.notices.answers import LEASE
from presence_core.operations.notices.queue import HOLD
from presence_core.scripts.calls import Call
from presence_core.scripts.notices import ANSWER_NOTICE
from tests.conftest import Bed, every_topology, on
from tests.support.facade import P
from tests.support.notices import LIMITS, claim, finish, queue_notice
from tests.support.place_file import write_place_file


def due(p: P) -> list[str]:
    found: list[str] = p.internal.run(queue.due(p.internal.context, 10))
    return found


@every_topology
def test_of_many_claims_of_a_notice_one_succeeds(p: P) -> None:
    notice = queue_notice(p, p.login("ada").session)
    assert queue_notice(p, p.sessions("ada")[0]) == notice, "the same event again"
    assert due(p) == ["ada"]
    with ThreadPoolExecutor(8) as pool:
        claims = list(pool.map(lambda _: claim(p, "ada"), range(8)))
    [won] = [claimed for claimed in claims if claimed.notice is not None]
    assert due(p) == []
    assert p.notices().waiting == 1, "until it is known how it went"
    assert finish(p, won)
    assert (p.notices().waiting, p.notices().oldest) == (0, None)
    assert [known.state for known in p.notices_of("ada")] == ["sent"]
    assert queue_notice(p, p.sessions("ada")[0]).state == "sent"
    assert claim(p, "ada").notice is None


@on("valkey-sync")
def test_only_a_sender_that_has_sent_a_mail_ends_the_failure_of_another(p: P) -> None:
    ctx, note = p.internal.context, p.internal.run
    note(queue.note_turn(ctx, {}, "The mail server refuses the password"))
    note(queue.note_turn(ctx, {"limited": 1}, None))
    assert p.notices().failure == "The mail server refuses the password"
    assert [found.level for found in p.health().findings if found.subject == "notices"] == ["warning"]
    note(queue.note_turn(ctx, {"sent": 1}, None, has_sent=True))
    assert (p.notices().failing_since, p.notices().failure) == (None, None)


@on("valkey-sync")
@pytest.mark.parametrize("replicas", [0, 1])
def test_a_claim_waits_for_replicas_if_the_settings_say_so(bed: Bed, raw: Any, replicas: int) -> None:
    p = bed.connect(confirm_replicas=replicas, confirm_timeout=20, confirm_hold=0)
    queue_notice(p, p.login("ada").session)
    raw.config_resetstat()
    assert claim(p, "ada").notice is not None, "also without a replica: a mail is worth more than no second one"
    assert ("cmdstat_wait" in raw.info("commandstats")) == bool(replicas)


def test_a_notice_whose_sender_stopped_is_unsure_and_is_never_claimed_again(p: P) -> None:
    p.freeze()
    queue_notice(p, p.login("ada").session)
    first = claim(p, "ada")
    p.advance(HOLD - 0.001)
    assert (due(p), claim(p, "ada").unsure) == ([], 0)
    p.advance(0.001)
    assert due(p) == ["ada"]
    second = claim(p, "ada")
    assert (second.notice, second.unsure) == (None, 1)
    assert claim(p, "ada").unsure == 0, "it is counted once"
    assert not finish(p, first, "waiting"), "a sender that was only slow may not put it back"
    assert [known.state for known in p.notices_of("ada")] == ["unsure"]
    assert finish(p, first, "sent"), "but it may say that it was sent after all"
    assert [known.state for known in p.notices_of("ada")] == ["sent"]


def test_a_notice_that_is_put_back_waits_for_its_pause_and_for_a_day_at_most(p: P) -> None:
    p.freeze()
    queue_notice(p, p.login("ada").session)
    assert finish(p, claim(p, "ada"), "waiting", 60)
    p.advance(59)
    assert (due(p), claim(p, "ada").notice) == ([], None)
    p.advance(1)
    again = claim(p, "ada")
    assert again.notice is not None
    assert finish(p, again, "waiting", 60)
    p.advance(LIMITS.give_up)
    assert (claim(p, "ada").dropped, p.notices().waiting) == (1, 0)


def test_an_event_that_is_read_too_late_is_not_queued(p: P) -> None:
    p.freeze()
    session = p.login("ada", idle_timeout=200_000, absolute_timeout=200_000).session
    p.advance(LIMITS.give_up)
    run, ctx = p.internal.run, p.internal.context
    odd = queue.Odd("ada", session.session_id, "new_device", round(session.login_at.timestamp() * 1000))
    assert run(queue.queue(ctx, [odd], p.events_end(), LIMITS)) == {"limited": 0, "dropped": 1}
    assert p.notices_of("ada") == []


def test_the_mails_of_a_day_are_counted_when_they_are_sent(p: P) -> None:
    """Else those that waited for a mail server would all come on one day, with those of that day."""
    limits, hour = LIMITS._replace(per_day=2, give_up=7 * 86_400, keep=14 * 86_400), 3600
    p.freeze()

    def odd() -> dict[str, int]:
        session = p.login("ada", idle_timeout=30 * 86_400, absolute_timeout=30 * 86_400).session
        run, ctx = p.internal.run, p.internal.context
        item = queue.Odd("ada", session.session_id, "new_device", round(session.login_at.timestamp() * 1000))
        counts: dict[str, int] = run(queue.queue(ctx, [item], p.events_end(), limits))
        return counts

    odd()
    p.advance(30 * hour)
    odd()
    assert odd()["limited"] == 1, "two wait, one of them of the day before"
    for _ in range(2):
        assert finish(p, claim(p, "ada", limits))
    p.advance(23 * hour)
    assert odd()["limited"] == 1, "both were sent on this day"
    p.advance(hour)
    assert odd()["limited"] == 0


@every_topology
def test_a_notice_of_an_erased_user_is_gone_also_while_it_is_sent(p: P) -> None:
    sessions = [p.login("ada").session for _ in range(2)]
    for session in sessions:
        queue_notice(p, session)
    claimed = claim(p, "ada")
    assert p.erase("ada", by="dpo", reason="asked").complete
    assert not finish(p, claimed)
    assert (p.notices_of("ada"), p.notices().waiting, due(p)) == ([], 0, [])
    assert not p.answer_notice("ada", sessions[0].session_id, sessions[0].login_at, "me", until=4e9)


@every_topology
def test_not_me_ends_that_session_doubts_the_others_and_is_taken_once(p: P) -> None:
    tokens = [p.login("ada", device=device).token for device in ("phone", "tablet")]
    session = p.login("ada", device="laptop").session
    p.login("eve")
    queue_notice(p, session)
    answer: Any = ("ada", session.session_id, session.login_at, "not_me")
    with ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(lambda _: p.answer_notice(*answer, until=4e9), range(4)))
    assert sorted(taken) == [False, False, False, True]
    assert [p.validate(token).code for token in tokens] == ["sign_in_required"] * 2
    assert [(end.session_id, end.cause) for end in p.ended("ada")] == [(session.session_id, "denied")]
    [notice] = p.notices_of("ada")
    assert (notice.answer, notice.state) == ("not_me", "skipped"), "a mail that waits says nothing new"
    assert len(p.sessions("eve")) == 1
    assert claim(p, "ada").notice is None


def test_an_answer_is_kept_as_long_as_its_link_is_valid(p: P) -> None:
    p.freeze()
    session = p.login("ada").session
    until = p.clock.now.timestamp() + 3600
    answer: Any = ("ada", session.session_id, session.login_at, "me")
    assert p.answer_notice(*answer, until=until)
    p.advance(3599)
    p.heartbeat("ada", session.session_id)
    assert not p.answer_notice(*answer, until=until)
    assert not p.notice_is_open("ada", p.notices_of("ada")[0].id)
    assert not p.answer_notice("ada", session.session_id, 1.0, "me", until=1.0), "a link that has lapsed"
    assert not p.answer_notice("ada", "no-such-session", 1.0, "me", until=4e9)


def test_of_two_answers_that_found_the_link_open_one_is_taken(p: P) -> None:
    session = p.login("ada").session
    given: Any = ("ada", session.session_id, session.login_at, "me")
    slow: Any = answers.answer_notice(p.context, "ada", session.session_id, session.login_at, "me", 4e9, None)
    calls = next(slow)
    while calls[0].script is not ANSWER_NOTICE:
        calls = slow.send(p.internal.run(_relay(calls)))
    assert p.answer_notice(*given, until=4e9)
    with pytest.raises(StopIteration) as answered:
        slow.send(p.internal.run(_relay(calls)))
    assert answered.value.value is False
    assert [entry.action for entry in p.audit(uid="ada")] == ["confirm_login"]


def test_not_me_forgets_the_device_that_the_notice_names_also_after_further_logins_on_it(p: P) -> None:
    p.freeze()
    p.login("ada", device_id="device-phone")
    p.advance(1)
    session = p.login("ada", device_id="device-laptop").session
    p.advance(1)
    p.login("ada", device_id="device-laptop")
    notice = queue_notice(p, session)
    assert len(notice.devices) == 1, "the sender came late"
    p.advance(1)
    p.login("ada", device_id="device-tablet")
    p.login("ada", device_id="device-laptop")
    assert p.answer_notice("ada", session.session_id, session.login_at, "not_me", until=4e9)
    new = {device: p.login("ada", device_id=f"device-{device}").session.new_device for device in ("phone", "tablet")}
    assert new == {"phone": False, "tablet": False}
    assert p.login("ada", device_id="device-laptop").session.new_device


def test_not_me_to_a_distant_login_makes_the_next_one_from_there_distant_again(bed: Bed, tmp_path: Path) -> None:
    p = bed.connect(place_file=str(write_place_file(tmp_path / "places.mmdb")))
    p.freeze()
    p.login("ada", ip="192.0.2.7")
    p.advance(60)
    session = p.login("ada", ip="203.0.113.7").session
    assert session.distant
    p.logout("ada", session.session_id)
    assert not p.login("ada", ip="203.0.113.7").session.distant
    assert p.answer_notice("ada", session.session_id, session.login_at, "not_me", until=4e9)
    assert p.login("ada", ip="203.0.113.7").session.distant
    p.login("ada", ip="192.0.2.7")


def test_not_me_blocks_and_is_in_the_audit_also_if_the_session_has_ended(p: P) -> None:
    session = p.login("ada").session
    p.logout("ada", session.session_id)
    assert p.answer_notice("ada", session.session_id, session.login_at, "not_me", until=4e9, block_for=60)
    block = p.blocked("ada")
    assert block is not None
    assert block.reason == answers.REASON
    assert [entry.action for entry in p.audit(uid="ada")] == ["deny_login", "require_sign_in"]


def test_of_many_answers_at_once_one_is_carried_out(p: P) -> None:
    session = p.login("ada").session
    p.login("ada")
    given: Any = [("ada", session.session_id, session.login_at, answer) for answer in ("not_me", "me")] * 10
    with ThreadPoolExecutor(20) as pool:
        taken = list(pool.map(lambda args: p.answer_notice(*args, until=4e9), given))
    assert taken.count(True) == 1
    acts = [entry.action for entry in p.audit(uid="ada")]
    assert acts in (["confirm_login"], ["deny_login", "require_sign_in"])


@pytest.mark.parametrize("is_away", [False, True])
def test_an_answer_that_broke_off_can_be_given_again(p: P, is_away: bool) -> None:
    p.freeze()
    session = p.login("ada").session
    give: Any = partial(p.answer_notice, "ada", session.session_id, session.login_at, until=4e9)
    stopped: Any = answers.answer_notice(p.context, "ada", session.session_id, session.login_at, "not_me", 4e9, None)
    calls = next(stopped)
    while calls[0].script is not ANSWER_NOTICE:
        calls = stopped.send(p.internal.run(_relay(calls)))
    stopped.send(p.internal.run(_relay(calls)))
    assert not give("me"), "it is being carried out"
    calls = stopped.throw(Unavailable("away"))
    with pytest.raises(Unavailable):
        stopped.throw(Unavailable("still away")) if is_away else stopped.send(p.internal.run(_relay(calls)))
    if is_away:
        assert not give("not_me")
        p.advance(LEASE / 1000)
    assert give("not_me")


def _relay(calls: list[Call]) -> Any:
    return (yield calls)
