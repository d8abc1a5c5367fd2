"""Timeouts of all sessions that match a filter: what the preview says is what then happens, to these sessions alone."""

from __future__ import annotations

import time
from typing import Any

import pytest

from presence_core import InvalidArgument, SessionFilter, TimeoutsChange, Unavailable
from presence_core.models.timeouts import predict
from presence_core.operations.bulk_kick import bulk_timeouts
from presence_core.scripts.staff import CHANGE_TIMEOUTS
from tests.conftest import Bed, every_topology, on
from tests.contract.bulk_kick.test_jobs import Held
from tests.support.facade import P

BY: dict[str, Any] = {"by": "Grace Hopper", "reason": "kiosks"}
PHONES = SessionFilter(device="phone")


def crowd(p: P, number: int, **login: Any) -> None:
    p.login_many([{"uid": f"u{n}", "session_id": f"session-{n}", "device": "phone", **login} for n in range(number)])


def idle(p: P) -> dict[str, int]:
    return {session.uid: session.idle_timeout for session in p.iter_sessions()}


def test_the_preview_says_what_the_change_then_does(p: P, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_timeouts, "BATCH", 2)
    p.freeze()
    for n, seconds in enumerate((60, 300, 600, 900, 1200)):
        p.login(f"u{n}", session_id=f"session-{n}", device="phone", idle_timeout=seconds)
    p.login("desk", device="desk")
    p.advance(50)
    preview = p.preview_timeouts(PHONES, idle_timeout=300)
    assert (preview.total, preview.read, preview.shortened, preview.lengthened, preview.ended) == (5, 5, 3, 1, 0)
    expected = {session.uid: predict(session, 300, None, 60).expires_at for session in p.iter_sessions(PHONES)}
    seen: list[TimeoutsChange] = []
    change = p.change_timeouts_where(preview.filter, idle_timeout=300, expected=5, **BY, on_progress=seen.append)
    assert (change.total, change.matched, change.shortened, change.lengthened, change.changed) == (5, 5, 3, 1, 4)
    assert [part.matched for part in seen] == [2, 4, 5]
    assert seen[-1] == change
    assert idle(p) == {**{f"u{n}": 300 for n in range(5)}, "desk": 1800}
    assert {session.uid: session.expires_at for session in p.iter_sessions(PHONES)} == expected
    assert p.repair().repaired == 0


@every_topology
def test_a_session_that_is_older_than_its_new_timeout_ends_as_expired(p: P) -> None:
    p.freeze()
    crowd(p, 3)
    p.advance(600)
    crowd_later = p.login("late", device="phone")
    preview = p.preview_timeouts(PHONES, absolute_timeout=300)
    assert (preview.shortened, preview.ended) == (4, 3)
    change = p.change_timeouts_where(PHONES, absolute_timeout=300, expected=4, **BY)
    assert (change.shortened, change.ended) == (4, 3)
    assert [session.uid for session in p.iter_sessions()] == ["late"]
    assert p.validate(crowd_later.token)
    p.sweep()
    assert {end.reason for end in p.ended().items} == {"expired"}


def test_repeated_it_changes_nothing_more_and_goes_on_where_a_process_died(
    p: P, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_timeouts, "BATCH", 2)
    crowd(p, 5)
    given: dict[str, Any] = {"idle_timeout": 60, "expected": 9, **BY}
    walk = p.internal.run(bulk_timeouts.start(p.context, PHONES, absolute_timeout=None, only_shorten=False, pace=None,
                                              **given))  # fmt: skip
    p.internal.run(walk.step())
    assert sorted(idle(p).values()) == [60, 60, 1800, 1800, 1800]
    again = p.change_timeouts_where(PHONES, **given)
    assert (again.matched, again.changed) == (5, 3)
    assert p.change_timeouts_where(PHONES, **given).changed == 0
    assert set(idle(p).values()) == {60}


def test_with_only_shorten_each_session_that_would_live_longer_is_left_alone(p: P) -> None:
    for n, seconds in enumerate((60, 600)):
        p.login(f"u{n}", device="phone", idle_timeout=seconds)
    change = p.change_timeouts_where(PHONES, idle_timeout=300, expected=2, only_shorten=True, **BY)
    assert (change.matched, change.shortened, change.lengthened, change.skipped) == (2, 1, 0, 1)
    assert idle(p) == {"u0": 60, "u1": 300}
    assert (
        p.audit().items[0].outcome.startswith("2 sessions, 1 shortened, 1 left alone as they would be longer, filter")
    )


@every_topology
def test_if_more_match_than_expected_nothing_happens_or_it_stops_there(p: P, monkeypatch: pytest.MonkeyPatch) -> None:
    crowd(p, 5)
    with pytest.raises(InvalidArgument, match="must be at least 5") as refused:
        p.change_timeouts_where(PHONES, idle_timeout=60, expected=4, **BY)
    assert (refused.value.field, refused.value.code) == ("expected", "more_match")
    assert set(idle(p).values()) == {1800}
    assert p.audit().items == []

    monkeypatch.setattr(bulk_timeouts, "BATCH", 2)
    walk = p.internal.run(bulk_timeouts.start(p.context, PHONES, idle_timeout=60, absolute_timeout=None, expected=5,
                                              only_shorten=False, pace=None, **BY))  # fmt: skip
    walk._limit = 3  # as if two more had begun to match
    p.internal.run(walk.step())
    with pytest.raises(InvalidArgument, match="more sessions match by now"):
        p.internal.run(walk.step())
    assert sorted(idle(p).values()) == [60, 60, 60, 1800, 1800]
    assert "stopped, as more sessions match than expected" in p.audit().items[0].outcome


def test_sessions_that_begin_after_the_preview_are_left_alone_also_with_the_id_of_one_that_matched(bed: Bed) -> None:
    p = bed.connect(keep_logout=0)
    p.login("ada", device="phone", session_id="session-1")
    preview = p.preview_timeouts(PHONES, idle_timeout=60)
    p.advance(1)
    p.login("bob", device="phone")
    walk = p.internal.run(bulk_timeouts.start(p.context, preview.filter, idle_timeout=60, absolute_timeout=None,
                                              expected=1, only_shorten=False, pace=None, **BY))  # fmt: skip
    held = Held(p, walk.step(), CHANGE_TIMEOUTS)
    p.logout("ada", "session-1")
    p.advance(1)
    p.login("ada", device="phone", session_id="session-1")
    held.wake()
    assert (walk.over, walk.change.matched, walk.change.changed) == (True, 1, 0)
    assert idle(p) == {"ada": 1800, "bob": 1800}


def test_idle_sessions_are_those_idle_when_it_began(p: P, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_timeouts, "BATCH", 1)
    p.freeze()
    p.login("old", device="phone")
    p.advance(50)
    p.login("new", device="phone")
    p.advance(50)
    change = p.change_timeouts_where(SessionFilter(idle_for=100), absolute_timeout=7200, expected=9, **BY,
                                     on_progress=lambda _: p.advance(60))  # fmt: skip
    assert (change.total, change.changed) == (1, 1)


def test_the_audit_has_the_filter_and_the_count_before_the_first_change_and_the_outcome_after_the_last(p: P) -> None:
    crowd(p, 2)
    change = p.change_timeouts_where(PHONES, idle_timeout=60, absolute_timeout=7200, expected=3, **BY)
    end, begin = p.audit().items
    filter = f"filter {change.filter.to_json()}"
    assert (begin.action, end.action) == ("change_timeouts_where_start", "change_timeouts_where")
    assert begin.outcome == (
        f"2 sessions match, at most 3 may change, idle timeout 60 s, absolute timeout 7200 s, {filter}"
    )
    assert end.outcome == f"2 sessions, 2 shortened, {filter}"
    assert {(entry.by, entry.reason, entry.uid) for entry in (begin, end)} == {("Grace Hopper", "kiosks", None)}


def test_the_erasure_of_a_person_also_rewrites_the_filter_in_the_audit(p: P) -> None:
    p.login("ada", name="Ada Lovelace", device="phone")
    p.change_timeouts_where(SessionFilter(text="Ada Lovelace"), idle_timeout=60, expected=1, **BY)
    report = p.erase("ada", by="sam", reason="asked")
    assert report.complete
    outcomes = [entry.outcome for entry in p.audit().items if entry.action.startswith("change_timeouts_where")]
    assert len(outcomes) == 2
    assert all(report.pseudonym in outcome and "Lovelace" not in outcome for outcome in outcomes)


def test_while_redis_is_away_the_error_says_how_far_it_came(p: P, monkeypatch: pytest.MonkeyPatch) -> None:
    crowd(p, 3)
    monkeypatch.setattr(bulk_timeouts, "BATCH", 2)

    def step(self: bulk_timeouts.Walk) -> Any:
        if self.change.matched:
            raise Unavailable("no reply")
        return (yield from steps(self))

    steps = bulk_timeouts.Walk.step
    monkeypatch.setattr(bulk_timeouts.Walk, "step", step)
    with pytest.raises(Unavailable) as failed:
        p.change_timeouts_where(PHONES, idle_timeout=60, expected=3, **BY)
    assert failed.value.__notes__ == [
        "Of 3 sessions, 2 were reached, perhaps some more: call again to change the rest."
    ]


@on("valkey-sync", "valkey-async")
def test_the_requested_pace_is_kept(p: P) -> None:
    crowd(p, 30)
    p.clock.run_freely()
    begin = time.monotonic()
    assert p.change_timeouts_where(PHONES, idle_timeout=60, expected=30, pace=20, **BY).changed == 30
    assert time.monotonic() - begin > 0.9, "two batches of ten went before the last"
