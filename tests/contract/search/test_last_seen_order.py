"""The list, last seen first: the order of a plain sort, on one shard and on many, with any timeouts and any filter."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from presence_core import InvalidArgument, Session, SessionFilter
from presence_core.operations.search import last_seen_merge, list_sessions, planner
from tests.conftest import Bed, every_topology, on
from tests.support.facade import P

IDLE = [600, 1800, 86_400, 90 * 86_400]
AGE = 100 * 86_400


def _rows(rng: random.Random, now: float, users: int) -> list[dict[str, Any]]:
    """Users with one to six sessions, several last seen in the same millisecond, with several timeouts."""
    rows = []
    for number in range(users):
        for each in range(rng.choice([1, 1, 1, 2, 3, 6])):
            idle = rng.choice(IDLE)
            seen = now - rng.randrange(0, min(idle, 7200) - 60, 5)
            rows.append(
                {"uid": f"u{number}", "session_id": f"session-{each}", "login_at": seen - rng.choice([0, 50, 3000]),
                 "last_seen": seen, "idle_timeout": idle, "absolute_timeout": rng.choice([AGE, max(idle, 10_800)]),
                 "name": rng.choice(["Ada Lovelace", "Grace Hopper", "Alan Turing"]),
                 "device": rng.choice(["phone", "desktop", "tablet"]), "app": f"app-{rng.randrange(40)}"}
            )  # fmt: skip
    rng.shuffle(rows)
    return rows


def _place(session: Session) -> tuple[Any, ...]:
    return session.last_seen, session.uid.encode(), session.session_id.encode()


def _expected(p: P, asked: SessionFilter | None = None) -> list[Session]:
    return sorted(p.iter_sessions(asked), key=_place, reverse=True)


def _pages(p: P, limit: int, asked: SessionFilter | None = None) -> list[list[Session]]:
    pages, cursor = [], None
    while True:
        page = p.list_sessions(asked, order="last_seen", limit=limit, cursor=cursor)
        pages.append(page.items)
        cursor = page.next_cursor
        if cursor is None:
            return pages


def _joined(pages: list[list[Session]]) -> list[Session]:
    return [session for page in pages for session in page]


@pytest.mark.parametrize("limit", [1, 7, 50, 1000])
@on("valkey-sync", "redis7-sync", "cluster-async", soak=("sync",))
def test_pages_by_last_seen_are_the_list_in_the_order_of_a_plain_sort(p: P, limit: int) -> None:
    rng = random.Random(limit)
    p.login_many(_rows(rng, p.freeze() / 1000, 60), imported=True)
    expected = _expected(p)
    pages = _pages(p, limit)
    assert _joined(pages) == expected
    assert [len(page) for page in pages[:-1]] == [limit] * (len(pages) - 1)
    assert pages[-1]
    assert list(p.iter_sessions(order="last_seen", page_size=limit)) == expected
    page = p.list_sessions(order="last_seen", limit=limit)
    assert (page.total, page.total_is_exact) == (len(expected), True)


@pytest.mark.parametrize("carried", [0, 1, 4, 50])
@on("valkey-sync", "cluster-sync", soak=("sync",))
def test_a_page_finds_what_waits_at_its_position_in_the_cursor_or_by_another_walk(
    p: P, carried: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(last_seen_merge, "MAX_CARRIED", carried)
    p.login_many(_rows(random.Random(2), p.freeze() / 1000, 80), imported=True)
    assert _joined(_pages(p, 9)) == _expected(p)


FILTERS = [
    SessionFilter(device="phone"),
    SessionFilter(app="app-7"),
    SessionFilter(app="no-app"),
    SessionFilter(text="lovelace"),
    SessionFilter(name_contains="ing"),
    SessionFilter(name_prefix="ada", device="tablet"),
    SessionFilter(uid="u5"),
    SessionFilter(idle_for=1200),
]


@pytest.mark.parametrize("filter_number", range(len(FILTERS)))
@pytest.mark.parametrize("reads", ["as planned", "by walks", "in short steps"])
@on("valkey-sync", "cluster-sync", soak=("sync",))
def test_a_filter_combines_with_the_order_on_any_way_to_the_sessions(
    bed: Bed, filter_number: int, reads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    p = bed.connect(indexes=("uid", "name", "alias", "ip") if reads == "as planned" else ())
    if reads != "as planned":
        monkeypatch.setattr(planner, "MAX_REORDERED", 0)
    if reads == "in short steps":
        monkeypatch.setattr(list_sessions, "BUDGET", 15)
    asked = FILTERS[filter_number]
    now = p.freeze() / 1000
    p.login_many(_rows(random.Random(3), now, 80), imported=True)
    for every in (asked, replace(asked, logged_in_after=now - 4000)):
        expected = _expected(p, every)
        assert _joined(_pages(p, 7, every)) == expected
        assert list(p.iter_sessions(every, order="last_seen", page_size=7)) == expected
        page = p.list_sessions(every, order="last_seen", limit=1000)
        assert page.total == len(expected) or not page.total_is_exact
        assert 0 <= page.progress <= 1


@on("valkey-sync", "cluster-sync")
def test_sessions_seen_in_the_same_millisecond_are_in_the_order_of_uid_then_session_id(p: P) -> None:
    now = p.freeze() / 1000
    uids = ["é", "e", "z", "Z", "😀", "a:b", "a", "~", "ab", "a-b", "a0"]
    p.login_many(
        [
            {"uid": uid, "session_id": f"session-{n}", "login_at": now - 1800, "last_seen": now - 9}
            for uid in uids
            for n in (1, 10, 2)
        ],
        imported=True,
    )
    expected = _expected(p)
    assert len(expected) == 33
    for limit in (1, 2, 5, 1000):
        assert _joined(_pages(p, limit)) == expected


@on("valkey-sync", soak=("sync",))
def test_a_user_with_a_thousand_sessions_is_one_of_the_list(p: P) -> None:
    now = p.freeze() / 1000
    rows = [
        {"uid": "crowd", "session_id": f"session-{n}", "login_at": now - 1800, "last_seen": now - n % 700}
        for n in range(1000)
    ]
    rows += [
        {"uid": f"u{n}", "session_id": "session-1", "login_at": now - 1800, "last_seen": now - n} for n in range(300)
    ]
    p.login_many(rows, imported=True)
    expected = _expected(p)
    assert _joined(_pages(p, 150)) == expected
    assert list(p.iter_sessions(order="last_seen")) == expected


@on("valkey-sync", "cluster-async", soak=("async",))
def test_a_user_whose_latest_session_has_ended_is_where_the_others_were_seen(p: P) -> None:
    now = p.freeze() / 1000
    rows = [
        {"uid": f"u{n}", "session_id": "session-1", "login_at": now - 1800, "last_seen": now - 10 * n}
        for n in range(20)
    ]
    rows += [
        {"uid": f"u{n}", "session_id": "session-2", "login_at": now - 1800, "last_seen": now} for n in range(0, 20, 2)
    ]
    p.login_many(rows, imported=True)
    for n in range(0, 20, 4):
        p.logout(f"u{n}", "session-2")
    p.kick("u2", by="sam", reason="test")
    p.revoke_before(p.clock.now - timedelta(seconds=3600), by="sam", reason="test")
    expected = _expected(p)
    assert len(expected) == 23
    assert _joined(_pages(p, 4)) == expected
    p.advance(1_790)  # no sweep has ended those past their deadline
    assert _joined(_pages(p, 4)) == _expected(p)


@on("valkey-sync", "cluster-async", soak=("async",))
def test_sessions_on_behalf_of_users_are_in_the_order_too(p: P) -> None:
    now = p.freeze() / 1000
    p.login_many(
        [
            {"uid": f"u{n}", "session_id": "session-1", "login_at": now - 1800, "last_seen": now - 5 - n}
            for n in range(9)
        ],
        imported=True,
    )
    for uid in ("u3", "never-online"):
        p.advance(1)
        p.login(uid, on_behalf_by="sam", reason="ticket 7")
    ended = p.login("u4", on_behalf_by="sam", reason="ticket 8").session
    p.logout(ended.uid, ended.session_id)
    expected = _expected(p)
    assert [session.uid for session in expected[:2]] == ["never-online", "u3"]
    assert (expected[0].on_behalf_by, len(expected)) == ("sam", 11)
    for limit in (1, 3, 50):
        assert _joined(_pages(p, limit)) == expected
    staff = SessionFilter(on_behalf=True)
    assert _joined(_pages(p, 1, staff)) == expected[:2]
    p.advance(20)
    p.heartbeat("u0", "session-1")
    assert [session.uid for session in p.list_sessions(order="last_seen", limit=2)] == ["u0", "never-online"]


@every_topology
def test_the_first_call_of_a_client_may_be_the_list_by_last_seen(p: P, bed: Bed) -> None:
    session = p.login("ada").session
    for wanted in (None, SessionFilter(uid="ada"), SessionFilter(text="ada"), SessionFilter(device="phone")):
        found = list(bed.connect().iter_sessions(wanted, order="last_seen"))
        assert found == ([] if wanted and wanted.device else [session])


@on("valkey-sync", "cluster-sync", soak=("sync",))
def test_a_session_of_a_user_who_is_not_seen_meanwhile_is_on_exactly_one_page(p: P) -> None:
    rng = random.Random(4)
    p.login_many(_rows(rng, p.freeze() / 1000, 120), imported=True)
    quiet = {session.ref for session in p.iter_sessions() if int(session.uid[1:]) % 2}
    others = [session.ref for session in p.iter_sessions() if session.ref not in quiet]
    for ways in ("pages", "iterator"):
        shown: list[str] = []
        if ways == "pages":
            cursor, more = None, True
            while more:
                page = p.list_sessions(order="last_seen", limit=8, cursor=cursor)
                shown += [session.ref for session in page]
                cursor, more = page.next_cursor, page.next_cursor is not None
                p.advance(1)
                p.heartbeats(rng.sample(others, 5))
        else:
            for session in p.iter_sessions(order="last_seen", page_size=8):
                shown.append(session.ref)
                if not len(shown) % 8:
                    p.advance(1)
                    p.heartbeats(rng.sample(others, 5))
        live = quiet & {session.ref for session in p.iter_sessions()}  # the others have ended meanwhile
        assert sorted(ref for ref in shown if ref in live) == sorted(live)


@on("valkey-sync")
def test_the_order_and_its_cursor_are_checked(p: P) -> None:
    p.login_many([{"uid": f"u{n}"} for n in range(3)])
    with pytest.raises(InvalidArgument) as refused:
        p.list_sessions(order="name")  # type: ignore[arg-type]
    assert str(refused.value) == 'order must be "login" or "last_seen".'
    with pytest.raises(InvalidArgument, match="order must be"):
        list(p.iter_sessions(order="Login"))  # type: ignore[arg-type]
    by_login = p.list_sessions(limit=1).next_cursor
    by_last_seen = p.list_sessions(order="last_seen", limit=1).next_cursor
    for cursor, order in ((by_login, "last_seen"), (by_last_seen, "login"), ("!", "last_seen")):
        with pytest.raises(InvalidArgument, match="cursor must be one that list_sessions gave"):
            p.list_sessions(order=order, cursor=cursor)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="cursor must be"):
        p.list_sessions(SessionFilter(uid="u1"), order="last_seen", cursor=by_last_seen)
