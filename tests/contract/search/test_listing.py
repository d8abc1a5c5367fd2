"""The list: newest login first, in pages that neither repeat nor skip sessions while others log in and out."""

from __future__ import annotations

import random
import threading
from base64 import urlsafe_b64encode
from typing import Any

import pytest

from presence_core import InvalidArgument, Login, Session
from tests.conftest import Bed, every_backend, every_topology, on
from tests.support.facade import P
from tests.support.soak import size


def _fill(p: P, rows: list[tuple[str, float, str]]) -> None:
    """uid, seconds since login, session id."""
    now = p.clock.ms / 1000
    answers = p.login_many(
        (
            {"uid": uid, "session_id": sid, "login_at": now - age, "last_seen": now, "absolute_timeout": 10**6}
            for uid, age, sid in rows
        ),
        imported=True,
    )
    assert all(isinstance(answer, Login) for answer in answers)


def _pages(p: P, limit: int) -> list[list[Session]]:
    pages, cursor = [], None
    while True:
        page = p.list_sessions(limit=limit, cursor=cursor)
        pages.append(page.items)
        cursor = page.next_cursor
        if cursor is None:
            return pages


def _in_order(sessions: list[Session]) -> bool:
    keys = [(session.login_at, session.ref.encode()) for session in sessions]
    return keys == sorted(keys, reverse=True)


def test_an_empty_list_is_one_empty_page(p: P) -> None:
    page = p.list_sessions()
    assert (page.items, page.next_cursor, page.total, page.total_is_exact) == ([], None, 0, True)
    assert list(p.iter_sessions()) == []
    assert p.sessions("ada") == []
    assert (p.counts().users, p.counts().sessions) == (0, 0)


@every_backend
def test_the_list_shows_the_newest_login_first(p: P) -> None:
    p.freeze()
    random.seed(1)
    ages = random.sample(range(1000), 120)
    _fill(p, [(f"u{number}", age, f"session-{number}") for number, age in enumerate(ages)])
    page = p.list_sessions(limit=1000)
    assert [round((p.clock.now - session.login_at).total_seconds()) for session in page] == sorted(ages)
    assert (len(page), page.total, page.next_cursor) == (120, 120, None)
    assert page.as_of == p.clock.now
    assert list(p.iter_sessions()) == page.items


@pytest.mark.parametrize("limit", [1, 2, 7, 40, 41, 1000])
@on("valkey-sync", "cluster-async", soak=("sync", "valkey-async"))
def test_pages_of_any_size_together_are_the_whole_list(p: P, limit: int) -> None:
    p.freeze()
    _fill(p, [(f"u{number % 13}", number % 5, f"session-{number}") for number in range(41)])
    pages = _pages(p, limit)
    everything = [session for page in pages for session in page]
    assert everything == p.list_sessions(limit=1000).items
    assert _in_order(everything)
    assert len({session.ref for session in everything}) == 41
    assert [len(page) for page in pages[:-1]] == [limit] * (len(pages) - 1)
    assert pages[-1], "a page that is known to be the last is not followed by an empty one"
    assert list(p.iter_sessions(page_size=limit)) == everything


@every_topology
def test_logins_of_the_same_millisecond_are_ordered_by_the_bytes_of_their_refs(p: P) -> None:
    p.freeze()
    uids = ["é", "e", "z", "Z", "ÿ", "😀", "\ue000", "a:b", "a", "~", "ab"]
    _fill(p, [(uid, 5, "session-1") for uid in uids])
    expected = sorted((f"{uid}:session-1" for uid in uids), key=str.encode, reverse=True)
    assert [session.ref for session in p.list_sessions()] == expected
    assert [page[0].ref for page in _pages(p, 1)] == expected


@on("valkey-sync", "cluster-sync", soak=("sync",))
def test_pages_through_equal_login_times_stay_correct_while_others_log_in_and_out(p: P, bed: Bed) -> None:
    p.freeze()
    lasting = {f"lasting-{number}" for number in range(size(600, 2000))}
    passing = [f"passing-{number}" for number in range(size(600, 2000))]
    names = [*lasting, *passing]
    random.seed(2)
    random.shuffle(names)
    _fill(p, [(name, 60, "session-1") for name in names])
    other = bed.connect()
    stop = threading.Event()

    def churn() -> None:
        number = 0
        while not stop.is_set():
            if passing:
                for _ in range(10):
                    other.logout(passing.pop(), "session-1")
            number += 10
            now = other.clock.ms / 1000
            # New logins with the same login times, and newer ones.
            other.login_many(
                (
                    {"uid": f"newcomer-{number + step}", "login_at": now - 60 * (step % 2), "last_seen": now}
                    for step in range(10)
                ),
                imported=True,
            )

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for limit in (37, 500):
            seen = [session for page in _pages(p, limit) for session in page]
            assert _in_order(seen)
            uids = [session.uid for session in seen]
            assert len(set(uids)) == len(uids), "one was shown twice"
            assert lasting <= set(uids), "one that lived throughout was missed"
    finally:
        stop.set()
        thread.join()


@every_topology
def test_a_cursor_whose_session_has_ended_keeps_its_position(p: P) -> None:
    p.freeze()
    _fill(p, [(f"u{number:02}", 60, "session-1") for number in range(30)])
    first = p.list_sessions(limit=10)
    assert [session.uid for session in first] == [f"u{number:02}" for number in range(29, 19, -1)]
    for uid in ("u20", "u21", "u19"):
        p.kick(uid, by="staff", reason="test")
    p.login("u20", session_id="session-2")
    rest = p.list_sessions(limit=50, cursor=first.next_cursor)
    assert [session.uid for session in rest] == [f"u{number:02}" for number in range(18, -1, -1)]


@every_topology
def test_new_logins_appear_before_a_page_and_never_in_it(p: P) -> None:
    p.freeze()
    _fill(p, [(f"u{number}", 10 + number, "session-1") for number in range(6)])
    first = p.list_sessions(limit=3)
    p.login("newest")
    second = p.list_sessions(limit=3, cursor=first.next_cursor)
    assert [session.uid for session in [*first, *second]] == ["u0", "u1", "u2", "u3", "u4", "u5"]
    assert (second.total, second.next_cursor) == (7, None)
    assert p.list_sessions(limit=1).items[0].uid == "newest"


def test_a_page_is_full_with_any_number_of_stale_entries_in_between(bed: Bed) -> None:
    for heal in (False, True):
        p = bed.connect(heal=heal)
        p.freeze()
        rows = [(f"u{number}", float(number), f"session-{heal}") for number in range(60)]
        _fill(p, rows)
        now = p.clock.ms / 1000
        p.login_many(
            (
                {"uid": f"short{number}", "login_at": now - number / 30, "last_seen": now, "idle_timeout": 5}
                for number in range(size(600, 1500))
            ),
            imported=True,
        )
        p.advance(5)
        page = p.list_sessions(limit=20)
        assert [session.uid for session in page] == [f"u{number}" for number in range(20)]
        assert page.total == 60
        assert page.scanned >= 20
        second = p.list_sessions(limit=100, cursor=page.next_cursor)
        assert [session.uid for session in second] == [f"u{number}" for number in range(20, 60)]
        assert second.next_cursor is None
        p.sweep()
        for uid, _, _ in rows:
            p.kick(uid, by="staff", reason="test")


@every_backend
def test_a_cursor_works_for_every_client_and_in_a_url(p: P, bed: Bed) -> None:
    p.freeze()
    _fill(p, [(f"ü😀:{number}", number, "session-1") for number in range(6)])
    cursor = p.list_sessions(limit=2).next_cursor
    assert cursor is not None
    assert set(cursor) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
    assert [session.uid for session in bed.connect().list_sessions(limit=2, cursor=cursor)] == ["ü😀:2", "ü😀:3"]


def _forged(text: str) -> str:
    return urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "cursor",
    [
        "", " ", "!!!", "50", "abc", "é", "\ud800", "x" * 3000, 5, b"", True, [],
        *map(_forged, (
            "5", "[5]", "[]", "{}", "null", "[" * 1000, "[5,5]", '[5,""]', '[5,"a"]', '[5,"a:b"]', '[5,":session-1"]',
            '[-1,"a:session-1"]', '["5","a:session-1"]', '[5.5,"a:session-1"]', '[99999999999999999999,"a:session-1"]',
            '[5,"a:session-1",1]', '[true,"a:session-1"]', '[NaN,"a:session-1"]',
        )),
    ],
)  # fmt: skip
@on("valkey")
def test_an_invalid_cursor_is_refused(p: P, cursor: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"^cursor must be one that list_sessions gave\.$") as refused:
        p.list_sessions(cursor=cursor)
    assert refused.value.field == "cursor"


@every_topology
def test_a_users_sessions_are_listed_newest_login_first(p: P) -> None:
    p.freeze()
    _fill(p, [("ada", 30, "session-1"), ("ada", 10, "session-2"), ("ada", 10, "session-3"), ("bob", 5, "session-4")])
    p.login("ada", session_id="session-5", idle_timeout=1)
    assert [session.session_id[-1] for session in p.sessions("ada")] == ["5", "3", "2", "1"]
    p.advance(1)
    assert [session.session_id[-1] for session in p.sessions("ada")] == ["3", "2", "1"]


@every_backend
def test_counts_have_users_sessions_and_totals(p: P) -> None:
    p.freeze()
    assert p.counts().swept_at is None
    for uid in ("ada", "ada", "bob"):
        p.login(uid)
    p.login("eve", idle_timeout=10)
    p.logout("bob", p.sessions("bob")[0].session_id)
    counts = p.counts()
    assert (counts.users, counts.sessions) == (2, 3)
    assert counts.as_of == p.clock.now
    assert counts.totals == {"login": 4, "logout": 1, "expired": 0, "kicked": 0, "replaced": 0}
    p.advance(10)
    assert p.counts().sessions == 2, "sessions are counted by deadline, right even if no sweeper runs"
    p.sweep()
    counts = p.counts()
    assert (counts.users, counts.sessions, counts.totals["expired"]) == (1, 2, 1)
    assert counts.swept_at == p.clock.now


@on("valkey-sync", soak=("redis7-sync",))
def test_a_deep_page_reads_no_more_entries_than_the_first(p: P) -> None:
    p.freeze()
    _fill(p, [(f"u{number}", number // 100, "session-1") for number in range(3000)])
    cursor, looked = None, set()
    while True:
        page = p.list_sessions(limit=100, cursor=cursor)
        looked.add(page.scanned)
        cursor = page.next_cursor
        if cursor is None:
            break
    assert max(looked) <= 102
