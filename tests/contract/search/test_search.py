"""Search: each field of a filter, the index that is used, how many entries a call reads, and the facets."""

from __future__ import annotations

import itertools
import random
import threading
from collections import Counter
from collections.abc import Iterable
from hashlib import sha1
from typing import Any

import pytest

from presence_core import CorruptData, InvalidArgument, Login, Page, Session
from presence_core.filters import SessionFilter
from presence_core.operations.search import list_sessions, planner, shard_merge
from presence_core.operations.sessions import login_calls
from presence_core.schema.conditions import CONDITIONS
from presence_core.scripts.search import WALK_SESSIONS
from presence_core.text.search_text import id_digest
from tests.conftest import Bed, every_backend, every_topology, on
from tests.support.expected.oracle import found_by
from tests.support.facade import P
from tests.support.soak import size

PIXEL = (
    "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 "
    "Mobile Safari/537.36"
)
MAC = "Mozilla/5.0 (Macintosh; Intel Mac OS X 14.5; rv:127.0) Gecko/20100101 Firefox/127.0"

# uid, seconds since login, and the other fields of a login.
CAST: list[tuple[str, int, dict[str, Any]]] = [
    ("emeka", 10, {"name": "Emeka Okafor", "aliases": ["emeka@example.org", "+234 803 5550100"], "device": "phone",
                   "app": "shop", "app_version": "2.1", "ip": "192.0.2.7", "user_agent": PIXEL,
                   "methods": ["pwd", "otp"],
                   "attributes": {"plan": "pro", "beta": True}}),
    ("emeka", 20, {"name": "Emeka O.", "device": "desktop", "app": "shop", "ip": "198.51.100.7", "user_agent": MAC,
                   "attributes": {"plan": "free"}}),
    ("zoë", 30, {"name": "Zoë  Ångström", "device": "phone", "app": "news", "app_version": "2.10", "ip": "192.0.2.200",
                 "methods": ["hwk"], "mfa": True}),
    ("ZOE2", 40, {"name": "zoe angstrom", "aliases": ["ZOE@EXAMPLE.ORG"], "ip": "192.0.3.1", "device": "Phone",
                  "app_version": "2.9-beta", "methods": ["pwd"]}),
    ("a:b", 50, {"name": "山田 太郎", "ip": "2001:db8::7", "attributes": {"plan": "pro", "seats": 5}}),
    ("ü😀", 60, {"name": "Nguyễn Thị Hương", "ip": "2001:db8:1::1", "attributes": {"plan": None}}),
    ("kim", 70, {"name": "김철수", "aliases": ["철수"], "ip": "::ffff:192.0.2.9"}),
    (" padded", 80, {"name": " Padded Name", "aliases": [" padded@example.org"]}),
    ("plain", 90, {}),
    ("x" * 100, 100, {"name": "y" * 60 + " tail", "aliases": ["n1 n2 n3 n4 n5 n6 n7 n8 n9"]}),
    ("192.0.2.7-box", 110, {"name": "Rack 192.0. top", "ip": "10.0.0.1",
                            "attributes": {"beta": 1, "tags": [True, "a"]}}),
    ("späth", 120, {"name": "STRASSE Straße", "ip": "10.0.0.2", "attributes": {"beta": False, "tags": [1, "a"]}}),
]  # fmt: skip


def fill(p: P, rows: Iterable[tuple[str, float, dict[str, Any]]], idle: dict[str, int] | None = None) -> None:
    now = p.clock.ms / 1000
    answers = p.login_many(
        [
            {"session_id": f"session-{number}", "login_at": now - age, "last_seen": now - (idle or {}).get(uid, 0),
             "absolute_timeout": 10**6, **given, "uid": uid}
            for number, (uid, age, given) in enumerate(rows)
        ],
        imported=True,
    )  # fmt: skip
    assert all(isinstance(answer, Login) for answer in answers)


def pages(p: P, asked: SessionFilter | None, limit: int = 50) -> list[Page[Session]]:
    out, cursor = [], None
    for _ in range(10_000):
        page = p.list_sessions(asked, limit=limit, cursor=cursor)
        assert len(page) <= limit
        assert 0 <= page.progress <= 1
        out.append(page)
        cursor = page.next_cursor
        if cursor is None:
            return out
    raise AssertionError("the cursor goes round and round")


def find(p: P, limit: int = 50, sessions: list[Session] | None = None, **asked: Any) -> list[str]:
    """Refs that a filter finds. Its pages, count and total agree, and so does the plain implementation of the
    design. ``sessions``: all of them, if they were read already."""
    session_filter = SessionFilter(**asked)
    every = pages(p, session_filter, limit)
    refs = [session.ref for page in every for session in page]
    everyone = list(p.iter_sessions()) if sessions is None else sessions
    assert refs == [session.ref for session in everyone if found_by(session, p.clock.ms, asked)], asked
    assert p.count_sessions(session_filter) == len(refs), asked
    for page in every:
        assert page.total >= len(page)
        if page.total_is_exact:
            assert page.total == len(refs), asked
    return refs


def uids(p: P, sessions: list[Session] | None = None, **asked: Any) -> list[str]:
    return [ref.rpartition(":")[0] for ref in find(p, sessions=sessions, **asked)]


EACH_FIELD: list[tuple[dict[str, Any], list[str]]] = [
    ({"uid": "emeka"}, ["emeka", "emeka"]),
    ({"uid": "a:b"}, ["a:b"]),
    ({"uid": "Emeka"}, []),
    ({"uid": "a"}, []),
    ({"text": "eme"}, ["emeka", "emeka"]),
    ({"text": "oka"}, ["emeka"]),
    ({"text": "OKÁ"}, ["emeka"]),
    ({"text": "kafor"}, []),
    ({"text": "emeka okafor"}, ["emeka"]),
    ({"text": "  emeka   OKAFOR "}, ["emeka"]),
    ({"text": "zoe"}, ["zoë", "ZOE2"]),
    ({"text": "angstrom"}, ["zoë", "ZOE2"]),
    ({"text": "zoe@example"}, ["ZOE2"]),
    ({"text": "+234 803"}, ["emeka"]),
    ({"text": "803"}, ["emeka"]),
    ({"text": "a:"}, ["zoë", "ZOE2", "a:b"]),
    ({"text": "b"}, []),
    ({"text": "太郎"}, ["a:b"]),
    ({"text": "山"}, ["a:b"]),
    ({"text": "郎"}, []),
    ({"text": "huong"}, ["ü😀"]),
    ({"text": "nguyen thi"}, ["ü😀"]),
    ({"text": "Nguyễn Thị H"}, ["ü😀"]),
    ({"text": "u😀"}, ["ü😀"]),
    ({"text": "김철"}, ["kim"]),
    ({"text": "철수"}, ["kim"]),
    ({"text": "padded"}, [" padded"]),
    ({"text": "padded@"}, [" padded"]),
    ({"text": "x" * 80}, ["x" * 100]),
    ({"text": "x" * 101}, []),
    ({"text": "y" * 55}, ["x" * 100]),
    ({"text": "y" * 60 + " tail"}, ["x" * 100]),
    ({"text": "tail"}, ["x" * 100]),
    ({"text": "n8"}, ["x" * 100]),
    ({"text": "n8 n9"}, ["x" * 100]),
    ({"text": "n9"}, []),
    ({"text": "strasse s"}, ["späth"]),
    ({"text": "192.0.2.7"}, ["emeka", "192.0.2.7-box"]),
    ({"text": "192.0.2."}, ["emeka", "zoë", "kim", "192.0.2.7-box"]),
    ({"text": "192.0."}, ["emeka", "zoë", "ZOE2", "kim", "192.0.2.7-box"]),
    ({"text": "192.0.2.0/24"}, ["emeka", "zoë", "kim"]),
    ({"text": "192.0.2"}, ["emeka", "zoë", "kim", "192.0.2.7-box"]),
    ({"text": "2001:db8::/32"}, ["a:b", "ü😀"]),
    ({"text": "2001:DB8::7"}, ["a:b"]),
    ({"text": "2001:db8:"}, ["a:b", "ü😀"]),
    ({"name_prefix": "oka"}, ["emeka"]),
    ({"name_prefix": "emeka o"}, ["emeka", "emeka"]),
    ({"name_prefix": "thi huong"}, ["ü😀"]),
    ({"name_prefix": "太"}, ["a:b"]),
    ({"name_prefix": "padded"}, [" padded"]),
    ({"name_prefix": "y" * 60 + " ta"}, ["x" * 100]),
    ({"name_contains": "meka"}, ["emeka", "emeka"]),
    ({"name_contains": "a ok"}, ["emeka"]),
    ({"name_contains": "ng"}, ["zoë", "ZOE2", "ü😀"]),
    ({"name_contains": "郎"}, ["a:b"]),
    ({"name_contains": "철"}, ["kim"]),
    ({"name_contains": "ss"}, ["späth"]),
    ({"name_contains": "y tail"}, ["x" * 100]),
    ({"name_contains": "nobody"}, []),
    ({"ip": "192.0.2.7"}, ["emeka"]),
    ({"ip": "192.0.2.0/24"}, ["emeka", "zoë", "kim"]),
    ({"ip": "192.0.2.0/23"}, ["emeka", "zoë", "ZOE2", "kim"]),
    ({"ip": "0.0.0.0/0"}, ["emeka", "emeka", "zoë", "ZOE2", "kim", "192.0.2.7-box", "späth"]),
    ({"ip": "::/0"}, ["a:b", "ü😀"]),
    ({"ip": "2001:db8::/48"}, ["a:b"]),
    ({"ip": "::ffff:192.0.2.0/120"}, ["emeka", "zoë", "kim"]),
    ({"device": "phone"}, ["emeka", "zoë"]),
    ({"device": "Phone"}, ["ZOE2"]),
    ({"device": "tablet"}, []),
    ({"app": "shop"}, ["emeka", "emeka"]),
    ({"app_version": "2.1"}, ["emeka"]),
    ({"os": "Android"}, ["emeka"]),
    ({"browser": "Firefox"}, ["emeka"]),
    ({"idle_for": 25}, ["zoë", "plain"]),
    ({"idle_for": 26}, ["plain"]),
    ({"idle_for": 0, "uid": "plain"}, ["plain"]),
    ({"attributes": {"plan": "pro"}}, ["emeka", "a:b"]),
    ({"attributes": {"plan": "pro", "seats": 5}}, ["a:b"]),
    ({"attributes": {"seats": 5.0}}, ["a:b"]),
    ({"attributes": {"plan": None}}, ["ü😀"]),
    ({"attributes": {"beta": True}}, ["emeka"]),
    ({"attributes": {"beta": 1}}, ["192.0.2.7-box"]),
    ({"attributes": {"tags": [1, "a"]}}, ["späth"]),
    ({"attributes": {"tags": (True, "a")}}, ["192.0.2.7-box"]),
    ({"attributes": {"missing": None}}, []),
    ({"seen_within": 84, "device": "phone"}, ["emeka", "zoë"]),
    ({"app_version_below": "2.10"}, ["emeka", "ZOE2"]),
    ({"app_version_below": "2.9"}, ["emeka", "ZOE2"]),
    ({"app_version_below": "2.9-alpha"}, ["emeka"]),
    ({"app_version_below": "2.1"}, []),
    ({"app_version_below": "11", "app_version": "2.10"}, ["zoë"]),
    ({"app_version_below": "2.10", "device": "phone"}, ["emeka"]),
    ({"methods": ["pwd"]}, ["emeka", "ZOE2"]),
    ({"methods": ["otp", "pwd"]}, ["emeka"]),
    ({"methods": ["ot"]}, []),
    ({"mfa": True}, ["emeka", "zoë"]),
    ({"mfa": True, "methods": ["hwk"]}, ["zoë"]),
    ({"mfa": False, "device": "Phone"}, ["ZOE2"]),
    ({"mfa": False, "uid": "emeka"}, ["emeka"]),
    ({"device": "phone", "without": SessionFilter(uid="zoë")}, ["emeka"]),
    ({"device": "phone", "without": SessionFilter(app="news")}, ["emeka"]),
    ({"device": "phone", "without": SessionFilter(app_version_below="2.10")}, ["zoë"]),
    ({"device": "phone", "without": SessionFilter(device="phone")}, []),
    ({"device": "phone", "without": SessionFilter(device="tablet")}, ["emeka", "zoë"]),
    ({"device": "phone", "without": SessionFilter(device="phone", app="shop")}, ["zoë"]),
    ({"device": "phone", "without": SessionFilter(attributes={"plan": "pro"})}, ["zoë"]),
    ({"device": "phone", "without": SessionFilter(attributes={"plan": "free"})}, ["emeka", "zoë"]),
    ({"ip": "192.0.2.0/24", "without": SessionFilter(ip="192.0.2.7")}, ["zoë", "kim"]),
    ({"text": "192.0.2.", "without": SessionFilter(text="zoe")}, ["emeka", "kim", "192.0.2.7-box"]),
    ({"name_contains": "ng", "without": SessionFilter(name_prefix="nguyen")}, ["zoë", "ZOE2"]),
    ({"uid": "emeka", "without": SessionFilter(mfa=True)}, ["emeka"]),
    ({"mfa": True, "without": SessionFilter(methods=["pwd"])}, ["zoë"]),
    ({"without": SessionFilter(mfa=False)}, ["emeka", "zoë"]),
    ({"device": "phone", "without": SessionFilter(methods=["ot"])}, ["emeka", "zoë"]),
    (
        {"without": SessionFilter(device="phone")},
        [
            "emeka",
            "ZOE2",
            "a:b",
            "ü😀",
            "kim",
            " padded",
            "plain",
            "x" * 100,
            "192.0.2.7-box",
            "späth",
        ],
    ),
    # Combinations.
    ({"text": "zoe", "device": "phone"}, ["zoë"]),
    ({"text": "emeka", "os": "Android", "attributes": {"plan": "pro"}}, ["emeka"]),
    ({"text": "emeka", "os": "Android", "attributes": {"plan": "free"}}, []),
    ({"uid": "emeka", "device": "desktop"}, ["emeka"]),
    ({"uid": "emeka", "name_prefix": "oka"}, ["emeka"]),
    ({"name_prefix": "zoe", "ip": "192.0.2.0/24", "name_contains": "ång"}, ["zoë"]),
    ({"device": "phone", "app": "news"}, ["zoë"]),
    ({"device": "phone", "browser": "Firefox"}, []),
]


TIMED = {"idle_for", "seen_within"}
"""Here the answers of EACH_FIELD are those to sessions that were last seen when ``check_each_field`` says."""


def names_a_label(asked: dict[str, Any]) -> bool:
    return any(CONDITIONS[name].label or (name == "without" and names_a_label(vars_of(asked[name]))) for name in asked)


def vars_of(session_filter: SessionFilter) -> dict[str, Any]:
    return {name: getattr(session_filter, name) for name in session_filter.given}


def times(p: P) -> list[tuple[dict[str, Any], int]]:
    now = p.clock.ms / 1000
    return [
        ({"logged_in_after": now - 30}, 3),
        ({"logged_in_after": now - 29.999}, 2),
        ({"logged_in_before": now - 30}, 9),
        ({"logged_in_before": now - 29.999}, 10),
        ({"logged_in_after": now - 60, "logged_in_before": now - 30}, 3),
        ({"logged_in_after": now + 5}, 0),
        ({"text": "zoe", "logged_in_before": now - 30}, 1),
        ({"text": "zoe", "without": SessionFilter(logged_in_before=now - 30)}, 1),
        ({"device": "phone", "without": SessionFilter(logged_in_after=now - 29.999, logged_in_before=now)}, 1),
        ({"without": SessionFilter(logged_in_after=now - 29.999)}, 10),
        ({"seen_within": 25}, 11),
        ({"seen_within": 24}, 10),
        ({"seen_within": 84, "idle_for": 25}, 1),
        ({"without": SessionFilter(seen_within=24)}, 2),
        ({"without": SessionFilter(idle_for=26)}, 11),
        ({"ip": "192.0.2.0/24", "logged_in_after": now - 30}, 2),
        ({"uid": "emeka", "logged_in_before": now - 10}, 1),
        ({"device": "phone", "logged_in_before": now - 10}, 1),
        ({"name_contains": "ng", "logged_in_after": now - 40, "logged_in_before": now - 30}, 1),
    ]


def check_each_field(p: P) -> None:
    p.freeze()
    fill(p, CAST, idle={"zoë": 25, "plain": 85})
    sessions = list(p.iter_sessions())
    for asked, expected in EACH_FIELD:
        assert uids(p, sessions, **asked) == expected, asked
    for asked, number in times(p):
        assert len(uids(p, sessions, **asked)) == number, asked


@on("valkey-sync", "cluster-async", soak=("sync", "async"))
def test_each_field_finds_its_sessions_newest_login_first(p: P) -> None:
    check_each_field(p)
    assert p.count_sessions() == p.count_sessions(SessionFilter()) == len(CAST)


@pytest.mark.parametrize("indexes", [(), ("uid", "name", "alias"), ("name",), ("ip",)], ids=str)
@on("valkey-sync", "redis7-async")
def test_with_other_indexes_or_none_the_results_are_the_same(bed: Bed, indexes: tuple[str, ...]) -> None:
    p = bed.connect(indexes=indexes)
    check_each_field(p)
    if not indexes:
        assert bed.families().keys().isdisjoint({"words", "addresses"})
        assert p.explain(SessionFilter(text="oka")).index == "list"


@on("valkey-sync")
def test_a_client_configured_for_fewer_indexes_still_updates_those_in_use(bed: Bed) -> None:
    bed.connect().counts()
    p = bed.connect(indexes=())
    p.freeze()
    fill(p, CAST)
    assert uids(bed.connect(), text="oka") == ["emeka"]
    late = bed.connect(namespace=f"{bed.namespace}-2", indexes=())
    late.counts()
    every = bed.connect(namespace=f"{bed.namespace}-2")
    fill(late, CAST[:6])
    assert every.explain(SessionFilter(text="oka")).index == "list", "not whole until it has been built"
    assert uids(every, text="oka") == ["emeka"]


# -- names ------------------------------------------------------------------------------------------------------------


def test_a_user_with_several_names_is_found_by_each_but_only_the_session_that_has_it(p: P) -> None:
    p.freeze()
    names = ["Maria Silva", "Maria da Silva", "M. Souza"]
    fill(p, [("maria", age, {"name": name}) for age, name in enumerate(names)])
    assert find(p, name_prefix="maria") == ["maria:session-0", "maria:session-1"]
    assert find(p, name_prefix="silva") == ["maria:session-0", "maria:session-1"]
    assert find(p, name_prefix="da silva") == ["maria:session-1"]
    assert find(p, name_prefix="souza") == ["maria:session-2"]
    assert len(find(p, text="maria")) == 3, "the uid is every session's"


def test_a_name_changed_by_a_repeated_login_is_no_longer_found(p: P) -> None:
    p.freeze()
    old: dict[str, Any] = {"name": "Olga Old", "aliases": ["old@example.org"], "ip": "192.0.2.1", "device": "phone",
           "attributes": {"plan": "old"}}  # fmt: skip
    new: dict[str, Any] = {"name": "Nina New", "aliases": ["new@example.org"], "ip": "192.0.2.2", "device": "desk",
           "attributes": {"plan": "new"}}  # fmt: skip
    p.login("u1", session_id="session-1", **old)
    p.login("u2", session_id="session-2", name="Olga Other")
    p.login("u1", session_id="session-1", **new)
    for asked in ({"name_prefix": "olga old"}, {"name_contains": "ga ol"}, {"text": "old@"}, {"text": "olga old"},
                  {"ip": "192.0.2.1"}, {"device": "phone"}, {"attributes": {"plan": "old"}}):  # fmt: skip
        assert find(p, **asked) == [], asked
    for asked in ({"name_prefix": "nina"}, {"name_contains": "na ne"}, {"text": "new@"}, {"text": "nina new"},
                  {"ip": "192.0.2.2"}, {"device": "desk"}, {"attributes": {"plan": "new"}}):  # fmt: skip
        assert find(p, **asked) == ["u1:session-1"], asked
    assert find(p, text="olga") == ["u2:session-2"]
    p.login("u1", session_id="session-1")
    assert find(p, text="n") == find(p, ip="192.0.2.0/24") == []


def test_a_login_removes_stale_entries_from_its_bucket_of_session_ids(p: P, bed: Bed) -> None:
    p.counts()  # reads the layout
    made, shards = map("session-{}".format, itertools.count()), len(p.context.keys.shards)
    ids = list(itertools.islice((sid for sid in made if id_digest(sid, shards)[:2] == b"\0\0"), 14))
    p.login("u1", session_id=ids[0])
    for sid in ids[1:]:
        p.login("u1", session_id=sid)
        p.logout("u1", sid)
    p.login("u2", session_id="session-of-u2")
    bucket = max(bed.raw.hvals(p.context.keys.shard("u1").ids), key=len)
    assert len(bucket) <= 9 * 8, "bytes"
    assert find(p, text=ids[0]) == [f"u1:{ids[0]}"]
    assert find(p, text=ids[-1]) == []


@every_backend
def test_an_ended_session_is_never_found(p: P) -> None:
    p.freeze()
    rows: list[tuple[str, float, dict[str, Any]]]
    rows = [(uid, age, {"name": "Same Name", "ip": "192.0.2.1", "device": "phone", "attributes": {"plan": "pro"}})
            for age, uid in enumerate(("gone", "kicked", "kicked", "stays"))]  # fmt: skip
    fill(p, rows)
    p.login("late", session_id="session-9", idle_timeout=10, **rows[0][2])
    p.logout("gone", "session-0")
    p.kick("kicked", by="staff", reason="test")
    questions: list[dict[str, Any]] = [
        {"text": "same"}, {"text": "192.0.2.1"}, {"name_prefix": "name"}, {"name_contains": "am"},
        {"ip": "192.0.2.0/30"}, {"device": "phone"}, {"attributes": {"plan": "pro"}}, {"idle_for": 1},
        {"logged_in_after": p.clock.ms / 1000 - 99},
    ]  # fmt: skip
    p.advance(5)
    for asked in questions:
        assert sorted(uids(p, **asked)) == ["late", "stays"], asked
    p.advance(5)
    for asked in questions:
        assert uids(p, **asked) == ["stays"], "past its deadline, and no sweep yet"
    assert uids(p, uid="late") == uids(p, text="late") == []


# -- pages ------------------------------------------------------------------------------------------------------------


def _crowd(p: P, number: int, **more: Any) -> None:
    fill(p, [(f"u{n:04}", n // 3, {"name": f"Person {n % 7} Group{n % 5}", "ip": f"10.0.{n % 4}.{n % 250}",
                                   "device": ("phone", "tablet")[n % 2]} | more) for n in range(number)])  # fmt: skip


@pytest.mark.parametrize("limit", [1, 7, 100])
@on("valkey-sync", "cluster-async", soak=("sync", "valkey-async"))
def test_pages_of_any_size_together_are_all_matches_of_the_filter(p: P, limit: int) -> None:
    p.freeze()
    _crowd(p, size(30, 60))
    questions: list[dict[str, Any]] = [
        {"text": "group3"}, {"ip": "10.0.2.0/24"}, {"device": "phone"}, {"name_contains": "on 4"}, {"uid": "u0007"},
        {"logged_in_before": p.clock.ms / 1000 - 5}, {"name_prefix": "person", "device": "tablet"},
    ]  # fmt: skip
    for asked in questions:
        find(p, limit, **asked)


@on("valkey-sync", "cluster-sync")
def test_a_cursor_of_another_filter_is_refused_in_one_sentence(p: P) -> None:
    p.freeze()
    _crowd(p, 20)
    plain, phones = (
        p.list_sessions(limit=2).next_cursor,
        p.list_sessions(SessionFilter(device="phone"), limit=2).next_cursor,
    )
    mine = p.list_sessions(SessionFilter(uid="u0001"), limit=1).next_cursor
    assert plain
    assert phones
    assert mine is None
    tablets, user = SessionFilter(device="tablet"), SessionFilter(uid="u0001")
    for asked, cursor in ((SessionFilter(device="phone"), plain), (None, phones), (tablets, phones), (user, phones)):
        with pytest.raises(InvalidArgument, match=r"^cursor must be one that list_sessions gave for this filter\.$"):
            p.list_sessions(asked, cursor=cursor)
    with pytest.raises(InvalidArgument, match=r"^cursor must be one that list_sessions gave\.$"):
        p.list_sessions(SessionFilter(device="phone"), cursor="nonsense")


@on("valkey-sync", "cluster-sync", soak=("sync", "valkey-async"))
def test_cursors_of_a_filter_are_stable_while_others_log_in_and_out(p: P, bed: Bed) -> None:
    p.freeze()
    _crowd(p, size(60, 120), attributes={"stays": True})
    questions: list[dict[str, Any]] = [
        {"text": "group"},
        {"ip": "10.0.0.0/16"},
        {"device": "phone"},
        {"name_contains": "p"},
    ]
    for number, asked in enumerate(questions):
        session_filter = SessionFilter(**asked)
        lasting = [session.ref for session in p.iter_sessions(session_filter) if session.attributes.get("stays")]
        other, seen, cursor, step = bed.connect(), [], None, 0
        while True:
            page = p.list_sessions(session_filter, limit=9, cursor=cursor)
            seen += [session.ref for session in page]
            cursor = page.next_cursor
            if cursor is None:
                break
            step += 1
            now = p.clock.ms / 1000
            other.login_many(
                [{"uid": f"new{number}-{step}-{age}", "name": "p group0", "ip": "10.0.0.1", "device": "phone",
                  "login_at": now - age, "last_seen": now, "absolute_timeout": 10**6} for age in (0, 5, 20, 30)],
                imported=True,
            )  # fmt: skip
            other.kick(f"new{number}-{step - 1}-5", by="staff", reason="test")
            if step % 2:  # the session that the cursor names
                uid = page.items[-1].uid
                other.kick(uid, by="staff", reason="test")
                lasting = [ref for ref in lasting if ref.rpartition(":")[0] != uid or ref in seen]
        assert len(set(seen)) == len(seen), "shown twice"
        assert [ref for ref in seen if ref in set(lasting)] == lasting, "missed"


@on("valkey-sync", "cluster-async", soak=("redis7-sync",))
def test_a_rare_filter_gives_short_pages_and_loses_nothing(p: P, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_sessions, "BUDGET", 40)
    monkeypatch.setattr(list_sessions, "PROBE", 20, raising=False)
    monkeypatch.setattr(shard_merge, "STEP", 10)
    p.freeze()
    _crowd(p, 1500)
    fill(p, [(f"rare{age}", age, {"attributes": {"rare": True}}) for age in (3, 77, 78, 300, 499.5)])
    questions: list[dict[str, Any]] = [{"attributes": {"rare": True}}, {"idle_for": 1}, {"attributes": {"none": 1}}]
    for asked in questions:
        every = pages(p, SessionFilter(**asked), 3)
        found = [session.uid for page in every for session in page]
        assert found == (["rare3", "rare77", "rare78", "rare300", "rare499.5"] if "rare" in str(asked) else [])
        assert len(every) > 1
        assert any(len(page) < 3 for page in every[:-1])
        progress = [page.progress for page in every]
        assert progress == sorted(progress)
        assert progress[-1] == 1.0
        assert progress[0] < 0.9
        assert all(not page.total_is_exact or page.total == len(found) for page in every)
        assert p.count_sessions(SessionFilter(**asked)) == len(found)
        assert [session.uid for session in p.iter_sessions(SessionFilter(**asked), page_size=2)] == found


@on("valkey-sync", "cluster-sync")
def test_progress_is_a_lower_bound_of_how_far_the_pages_have_come(p: P) -> None:
    p.freeze()
    _crowd(p, 400)
    asked = SessionFilter(device="phone")
    every = pages(p, asked, 20)
    assert len(every) == 10
    for number, page in enumerate(every[:-1], 1):
        assert page.progress <= number / 10 + 0.05, f"page {number} of 10"


@pytest.mark.parametrize("indexes", [(), ("uid", "name", "alias", "ip")], ids=["walked", "indexed"])
@on("valkey-sync")
def test_a_stray_entry_where_the_work_limit_ends_does_not_end_the_search(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, indexes: tuple[str, ...]
) -> None:
    p = bed.connect(indexes=indexes)
    p.freeze()
    monkeypatch.setattr(list_sessions, "BUDGET", 5)
    monkeypatch.setattr(shard_merge, "STEP", 5)
    fill(p, [(f"u{n}", n, {"attributes": {"rare": n == 19}, "name": "Ada" * (n == 19) or None}) for n in range(20)])
    shard = p.context.keys.shards[0]
    strays: dict[Any, int] = {f"stray{n}": p.clock.ms - 4500 + n for n in range(5)}
    strays |= {b"\xff:\xffsession" + bytes([n]): p.clock.ms - 8500 for n in range(9)}
    strays |= {f"{'x' * 900}:short{n}": p.clock.ms - 9500 for n in range(9)}
    bed.raw.zadd(shard.sessions, strays)
    questions: list[dict[str, Any]] = [
        {"attributes": {"rare": True}}, {"text": "ada"}, {"name_contains": "da"}, {"text": "u19"}, {"ip": "::1"},
    ]  # fmt: skip
    for asked in questions:
        found = [session.uid for page in pages(p, SessionFilter(**asked)) for session in page]
        assert found == ([] if "ip" in asked else ["u19"]), asked


# -- plans ------------------------------------------------------------------------------------------------------------


@on("valkey-sync", soak=("cluster-async",))
def test_the_plan_names_the_index_and_the_tested_fields(p: P) -> None:
    p.freeze()
    fill(p, [(f"u{n:04}", n / 10, {"name": f"Anna Nr{n:04}" + " Rarename" * (n == 700), "ip": f"10.{n % 2}.0.{n % 200}",
                                   "device": "phone"}) for n in range(1500)])  # fmt: skip
    now = p.clock.ms / 1000

    def plan(**asked: Any) -> tuple[str, tuple[str, ...]]:
        plan = p.explain(SessionFilter(**asked))
        return plan.index, plan.tests

    assert plan() == ("list", ())
    assert plan(uid="u0001", device="phone") == ("uid", ("device",))
    assert plan(text="rarename") == ("text", ())
    assert plan(text="u0700") == ("text", ())
    assert plan(name_prefix="rare", device="phone") == ("name", ("device",))
    assert plan(ip="10.0.0.6") == ("ip", ())
    assert plan(ip="10.0.0.6", name_prefix="anna") == ("ip", ("name_prefix",))
    assert plan(ip="10.0.0.0/16", name_prefix="nr0700") == ("name", ("ip",))
    assert plan(name_prefix="anna") == ("list", ("name_prefix",)), "nearly everybody: a walk fills the page at once"
    assert plan(device="phone") == ("list", ("device",))
    assert plan(logged_in_after=now - 3) == ("login", ())
    assert plan(logged_in_after=now - 1, ip="10.0.0.0/8") == ("login", ("ip",))
    assert plan(idle_for=5) == ("list", ("idle_for",))
    assert plan(device="watch") == ("none", ())
    sessions = list(p.iter_sessions())
    rows = p.explain(SessionFilter(ip="10.0.0.6"))
    assert (rows.rows, rows.matches) == (p.count_sessions(SessionFilter(ip="10.0.0.6")),) * 2
    for asked in ({"text": "rarename"}, {"ip": "10.0.0.6"}, {"name_prefix": "anna"}, {"device": "phone"},
                  {"device": "watch"}, {"name_contains": "0700"},
                  {"ip": "10.0.0.0/16", "name_prefix": "nr0700"}):  # fmt: skip
        find(p, 500, sessions, **asked)


def test_a_phone_number_is_found_without_its_zero_in_parentheses(p: P) -> None:
    p.freeze()
    p.login("u1", session_id="own-id-0001", aliases=["+49 (0)30 1019-7"])
    p.login("u2", session_id="own-id-0002", name="+49 (0)30 1019-8")
    for text in ("+49301019", "0049 30 1019", "+49 30 1019"):
        assert find(p, text=text) == ["u2:own-id-0002", "u1:own-id-0001"], text


@on("valkey-sync", "cluster-async", soak=("sync", "async"))
def test_a_scan_for_the_users_of_a_word_finds_what_an_index_finds(p: P, monkeypatch: pytest.MonkeyPatch) -> None:
    p.freeze()
    many = size(200, 400)
    fill(p, [(f"u{n % 70}", n * 40 / many, {"name": "Twin One" if n % 70 < 30 else "Other One",
                                            "device": "phone" if n % 4 else "desktop"})
             for n in range(many)])  # fmt: skip
    p.kick("u3", by="s", reason="r")
    now = p.clock.ms / 1000
    for cost in ("SCAN_US", "USERS_US", "TEST_US"):
        monkeypatch.setattr(planner, cost, 0)
    for asked in ({"text": "twin"}, {"name_prefix": "twin", "device": "phone"},
                  {"text": "twin", "logged_in_after": now - 30, "logged_in_before": now - 5}):  # fmt: skip
        assert p.explain(SessionFilter(**asked)).tests == tuple(asked)
        find(p, 7, **asked)
    assert find(p, text="unknown") == []


@on("valkey-sync", soak=("redis7-sync",))
def test_users_with_many_sessions_for_one_word_are_all_found(p: P) -> None:
    p.freeze()
    many = size(1800, 3600)
    fill(p, [(f"u{n % 60}", n / 100, {"name": "Twin One", "aliases": ["twin@example.org"]}) for n in range(many)])
    fill(p, [(f"other{n}", 500, {}) for n in range(size(3000, 6000))])
    asked = SessionFilter(text="twin")
    assert p.count_sessions(asked) == many
    assert p.count_sessions(SessionFilter(name_contains="win o")) == many
    assert len(list(p.iter_sessions(asked))) == many


@on("valkey-sync", "cluster-sync", soak=("sync",))
def test_lost_facets_never_hide_a_session(p: P, bed: Bed) -> None:
    p.freeze()
    fill(p, [(f"u{n}", n, {"device": "desk"}) for n in range(5)])
    for shard in p.context.keys.shards:
        bed.raw.delete(shard.facets)
    assert len(find(p, device="desk")) == 5
    fill(p, [("new", 9, {"device": "phone"})])
    assert len(find(p, device="desk")) == 5
    assert find(p, device="watch") == []


@on("valkey-sync", "cluster-async")
def test_a_session_whose_record_was_lost_is_not_in_an_exact_total(p: P, bed: Bed) -> None:
    p.freeze()
    fill(p, [(f"u{n}", n, {"device": "desk", "app": str(n)}) for n in range(5)])
    bed.raw.delete(p.context.keys.shard("u0").record("u0", "session-0"))
    p.sweep()
    assert len(find(p, device="desk")) == 4
    assert find(p, app="0") == []


@on("valkey-sync", soak=("cluster-async",))
def test_a_session_ended_by_a_revocation_is_found_by_no_filter(p: P, bed: Bed) -> None:
    p.freeze()
    fill(p, CAST)
    for shard in p.context.keys.shards:
        bed.raw.hset(shard.meta, "revoked", p.clock.ms - 60_000)
    sessions = list(p.iter_sessions())
    for asked, expected in EACH_FIELD:
        if TIMED.isdisjoint(asked):
            old = {uid for uid, age, _ in CAST if age >= 60}
            assert uids(p, sessions, **asked) == [uid for uid in expected if uid not in old], asked
    assert p.count_sessions() == len(list(p.iter_sessions())) == 5
    assert p.explain(SessionFilter(text="padded")).index


@on("valkey-sync", soak=("redis7-async", "cluster-sync"))
@pytest.mark.parametrize("family", ["words", "addresses", "facets", "labels"])
def test_a_foreign_type_under_an_index_gives_no_wrong_result(p: P, bed: Bed, family: str) -> None:
    p.freeze()
    fill(p, CAST)
    for shard in p.context.keys.shards:
        bed.raw.delete(getattr(shard, family))
        bed.raw.set(getattr(shard, family), "foreign")
    for asked, expected in EACH_FIELD:
        if not TIMED.isdisjoint(asked) or (family == "labels" and names_a_label(asked)):
            continue  # without the texts of the labels, no session has a device
        session_filter = SessionFilter(**asked)
        for answer in (
            lambda session_filter=session_filter: [session.uid for session in p.iter_sessions(session_filter)],
            lambda session_filter=session_filter, expected=expected: (
                expected if p.count_sessions(session_filter) == len(expected) else "miscounted"
            ),
        ):
            try:
                assert answer() == expected, asked
            except CorruptData:
                pass
    for field in ("device", "os"):
        try:
            assert p.facets(field) in ({}, {"phone": 2, "desktop": 1, "Phone": 1}, {"Android": 1, "Mac OS X": 1})
        except CorruptData:
            pass
    p.logout("plain", "session-8")
    p.sweep()


@on("valkey-sync")
def test_a_foreign_or_damaged_record_is_skipped(p: P, bed: Bed) -> None:
    p.freeze()
    fill(
        p,
        [
            (f"u{n}", n, {"name": "Some Name", "ip": "10.0.0.1", "device": "phone", "attributes": {"a": 1}})
            for n in range(9)
        ],
    )
    shard = p.context.keys.shards[0]
    for number, rubbish in enumerate(("string", "garbled", "gone")):
        key = shard.record(f"u{number}", f"session-{number}")
        bed.raw.delete(key)
        if rubbish == "string":
            bed.raw.set(key, "foreign")
        elif rubbish == "garbled":
            bed.raw.hset(key, mapping={"s": "x", "c": "y", "n": "Some Name", "x": '{"a":1}', "a": "z"})
    questions: list[dict[str, Any]] = [
        {"name_contains": "some"}, {"name_prefix": "name"}, {"text": "some"}, {"text": "10.0.0.1"},
        {"ip": "10.0.0.0/8"}, {"device": "phone"}, {"attributes": {"a": 1}}, {"idle_for": 0, "app": "none"},
        {"text": "u"},
    ]  # fmt: skip
    for asked in questions:
        found = [session.uid for session in p.iter_sessions(SessionFilter(**asked))]
        assert found == ([] if "app" in asked else [f"u{n}" for n in range(3, 9)]), asked


@on("valkey-sync", "redis7-async")
def test_a_scan_goes_on_where_each_script_has_used_up_its_time(p: P, monkeypatch: pytest.MonkeyPatch) -> None:
    text = WALK_SESSIONS.text.replace("MAX_SECONDS = 100, 0.005", "MAX_SECONDS = 1, -1")
    assert text != WALK_SESSIONS.text
    monkeypatch.setattr(WALK_SESSIONS, "text", text)
    monkeypatch.setattr(WALK_SESSIONS, "sha", sha1(text.encode(), usedforsecurity=False).hexdigest())
    monkeypatch.setattr(list_sessions, "BUDGET", 0)
    p.freeze()
    fill(p, CAST)
    assert find(p, seen_within=9, device="phone") == ["emeka:session-0", "zoë:session-2"]


@on("valkey-sync", "cluster-async")
def test_a_page_of_one_user_has_the_time_of_its_data(p: P) -> None:
    p.freeze()
    fill(p, CAST[:3], idle={"emeka": 9})
    page = p.list_sessions(SessionFilter(uid="emeka"), limit=1)
    assert (page.total, page.total_is_exact, len(page)) == (2, True, 1)
    assert page.as_of == p.clock.now
    second = p.list_sessions(SessionFilter(uid="emeka"), limit=1, cursor=page.next_cursor)
    assert (second.total, second.next_cursor, second.as_of) == (2, None, p.clock.now)
    assert p.list_sessions(SessionFilter(uid="nobody")).as_of == p.clock.now


# -- facets -----------------------------------------------------------------------------------------------------------

KINDS = ("device", "app", "app_version", "os", "browser", "plan")


def _counted(p: P) -> dict[str, dict[str, int]]:
    """Facets counted from the records."""
    out: dict[str, Counter[str]] = {field: Counter() for field in KINDS}
    for session in p.iter_sessions():
        for field in KINDS[:-1]:
            if getattr(session, field):
                out[field][getattr(session, field)] += 1
        if session.attributes.get("plan") is not None:
            out["plan"][str(session.attributes["plan"])] += 1
    return {field: dict(counter) for field, counter in out.items()}


def _facets_agree(p: P, when: str) -> None:
    for field, known in _counted(p).items():
        facets = p.facets(field)
        assert facets == known, f"{field}, {when}"
        assert list(facets.items()) == sorted(facets.items(), key=lambda item: (-item[1], item[0]))


def _play_facets(p: P) -> None:
    p.freeze()
    assert p.facets("device") == {}
    fill(p, CAST)
    _facets_agree(p, "after logins")
    assert p.facets("device") == {"phone": 2, "Phone": 1, "desktop": 1}
    assert p.facets("plan") == {"pro": 2, "free": 1}
    phone: dict[str, Any] = {
        "device": "phone",
        "app": "shop",
        "app_version": "1",
        "user_agent": PIXEL,
        "attributes": {"plan": "pro"},
    }
    desk: dict[str, Any] = {
        "device": "desk",
        "app": "work",
        "app_version": "2",
        "user_agent": MAC,
        "attributes": {"plan": 5},
    }
    p.login("ada", session_id="session-1", **phone)
    p.login("ada", session_id="session-1", **desk)
    _facets_agree(p, "after a repeated login with other fields")
    p.login("ada", session_id="session-1", **desk)
    p.login("ada", session_id="session-1")
    _facets_agree(p, "after a repeated login with none")
    p.login("ada", session_id="session-1", **phone)
    p.logout("emeka", "session-0")
    _facets_agree(p, "after a logout")
    for number in range(3):
        p.login("bob", session_id=f"session-{number}", **(desk if number else phone))
    p.kick("bob", "session-1", by="staff", reason="test")
    _facets_agree(p, "after kick one")
    p.kick("bob", by="staff", reason="test")
    _facets_agree(p, "after kick all")
    for number in range(3):
        p.login("eve", session_id=f"session-{number}", idle_timeout=number + 1, **(desk if number else phone))
    p.advance(2)
    p.sweep()
    _facets_agree(p, "after a sweep")
    p.advance(1)
    p.heartbeat("eve", "session-2")
    p.sweep()
    _facets_agree(p, "after another")
    for number in range(9):
        p.login("max", session_id=f"session-{number}", **(desk if number % 2 else phone))
    _facets_agree(p, "after logins that replaced others")
    for session in p.iter_sessions():
        p.kick(session.uid, by="staff", reason="test")
    assert {field: p.facets(field) for field in KINDS} == {field: {} for field in KINDS}


@every_topology
def test_facets_are_exact_after_every_kind_of_begin_and_end(bed: Bed) -> None:
    p = bed.connect(facets=("plan",), max_sessions=4)
    _play_facets(p)
    families = bed.families()
    assert "addresses" not in families, "nothing is left of those who are gone"
    assert {field for key in families.get("facets", []) for field in bed.raw.hkeys(key)} <= {b"-"}


@pytest.mark.parametrize("most", [0, 1])
@on("valkey-sync", soak=("redis7-async", "cluster-sync"))
def test_facets_are_exact_when_the_label_table_is_full(bed: Bed, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(login_calls, "MAX_LABELS", most)
    _play_facets(bed.connect(facets=("plan",), max_sessions=4))
    p = bed.connect(namespace=f"{bed.namespace}-2")
    p.freeze()
    fill(p, CAST)
    sessions = list(p.iter_sessions())
    for asked, expected in EACH_FIELD:
        if TIMED.isdisjoint(asked):
            assert uids(p, sessions, **asked) == expected, asked


@on("valkey-sync")
def test_a_facet_of_a_field_that_is_not_counted_is_refused(bed: Bed) -> None:
    p = bed.connect(facets=("plan", "seats"))
    sentence = (
        r"^field must be one of device, app, app_version, os, browser, country, network, plan, seats "
        r"\(an attribute counts where Settings\.facets names it\)\.$"
    )
    for field in ("uid", "city", ""):
        with pytest.raises(InvalidArgument, match=sentence):
            p.facets(field)
    p.login("ada", attributes={"plan": "a\nb", "seats": {"b": 1, "a": [True]}})
    assert p.facets("plan") == {"a\nb": 1}
    assert p.facets("seats") == {'{"a":[true],"b":1}': 1}


@on("valkey-sync")
def test_damaged_counters_are_left_out_of_facets(bed: Bed) -> None:
    p = bed.connect(facets=("plan",))
    p.login("ada", device="phone", attributes={"plan": "pro"})
    key = p.context.keys.shards[0].facets
    bed.raw.hset(key, mapping={"": "5", b"\xff\xff": "7", "x": "3", "xplan": "1", b"xplan\0not json": "2",
                               b"x\xff\0": "1", "cshort": "4", "C": "2", "a": "x", b"xplan\0[[": "-3"})  # fmt: skip
    assert p.facets("plan") == {"pro": 1}
    assert p.facets("device") == {"phone": 1}
    assert p.facets("os") == {}
    assert find(p, device="phone")


SEVERAL_WORDS = [
    "Amina Okafor", "Okafor Amina", "Amina Grace Okafor", "Okafor, Grace", "Mari Adams", "Maria Adams", "An Nabil",
    "Anna Nabil", "Jürgen Müller Anna", "Mueller Anna", "O'Neill-Berg Anna", "Neill O", "a b c d e f g h i j", "i a",
    "Maria Fernanda Gonzalez Rodriguez de la Cruz Santos", "Santos Maria", "Иван Сергеевич Тургенев", "Тургенев Иван",
    "+49 30 1234567", "30 49",
]  # fmt: skip


@on("valkey-sync", soak=("cluster-sync",))
def test_several_words_find_the_same_by_the_entries_of_one_of_them(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry of a start of a name shows what stands before it, or that it does not show all."""
    p = bed.connect()
    p.freeze()
    for number, name in enumerate(SEVERAL_WORDS):
        alias = f"{name.split()[-1].lower()}.{number}@example.com" if name.isascii() else ()
        p.login(f"u{number}", name=name, aliases=alias, session_id=f"session-{number}")
    sessions = list(p.iter_sessions())
    asked = {
        f"{b} {a}" for name in SEVERAL_WORDS for a, b in itertools.permutations(name.replace(",", "").split()[:3], 2)
    }
    asked |= {f"{b[:2]} {a}" for a, b in (text.split() for text in sorted(asked))} | {
        "maria gonzalez santos",
        "anna berg o",
    }
    monkeypatch.setattr(planner, "GATHER_US", dict.fromkeys(planner.GATHER_US, 0.0))  # always by the index
    monkeypatch.setattr(planner, "CONTAINS_US", 0.0)
    for text in sorted(asked):
        expected = sorted(session.uid for session in sessions if found_by(session, p.clock.ms, {"text": text}))
        page = p.list_sessions(SessionFilter(text=text))
        assert (sorted(session.uid for session in page), page.total) == (expected, len(expected)), text
        assert sorted(person.uid for person in p.people(text)) == expected, text


@on("valkey-sync", "cluster-sync", soak=("sync",))
def test_facets_stay_exact_under_concurrent_logins_and_ends(bed: Bed) -> None:
    p = bed.connect(facets=("plan",), max_sessions=3)
    p.freeze()

    def work(seed: int) -> None:
        p, rng = bed.connect(facets=("plan",), max_sessions=3), random.Random(seed)
        for _ in range(150):
            uid, sid = f"u{rng.randrange(6)}", f"session-{rng.randrange(10**6)}"
            p.login(uid, session_id=sid, device=rng.choice(["a", "b"]), attributes={"plan": rng.choice("xy")})
            if rng.random() < 0.4:
                p.kick(uid, *([sid] if rng.random() < 0.5 else []), by="staff", reason="test")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    p.sweep()
    _facets_agree(p, "after it all")
