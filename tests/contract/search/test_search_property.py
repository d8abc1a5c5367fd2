"""A search finds what a plain filter finds, with any index and page size, also while sessions change.

The plain filter is ``oracle.found_by`` over the unfiltered list. Alphabets are small, so that names, addresses and
times collide. ``PRESENCE_SOAK=1`` plays many more histories.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from presence_core import Login, Session
from presence_core.filters import SessionFilter
from presence_core.operations.search import list_sessions, planner, shard_merge
from tests.conftest import Bed, on
from tests.support.expected.oracle import folded, found_by
from tests.support.facade import P
from tests.support.place_file import city, write_place_file
from tests.support.soak import size

UIDS: Final = [
    "u10",
    "x-101",
    "b@an.no",
    "a",
    "ab",
    "A",
    "á",
    "a:b",
    "b 1",
    " b",
    "10.0.0.1",
    "山a",
    "김",
    "u😀",
    "x" * 50,
]
WORDS: Final = [
    "an",
    "Ann",
    "anna",
    "ÁN",
    "ño",
    "no",
    "山",
    "田中",
    "김",
    "기",
    "ß",
    "ss",
    "b",
    "x" * 47,
    "ễ",
    "ﬁ",
    "10.0.",
    "O'an",
    "ün",
    "no-an",
    "ø",
    "b.an@no.an",
    "+49 (0)30 10-1",
    "030 10-1001",
    "b.an+no@an.no",
    "たな",
    "タナ",
    "ىي",
    "١٠",
    "0049301019",
    "10",
]
IPS: Final = [
    "10.0.0.1",
    "10.0.0.2",
    "10.0.1.1",
    "10.1.0.1",
    "192.0.2.7",
    "::1",
    "2001:db8::1",
    "2001:db8::2",
    "2001:db8:1::1",
]
BLOCKS: Final = ["10.0.0.0/24", "10.0.0.0/15", "10.0.0.2/31", "0.0.0.0/0", "::/0", "2001:db8::/48", "2001:db8::/127",
                 "::ffff:10.0.0.0/112", *IPS]  # fmt: skip
AGENTS: Final = [
    "curl/8",
    "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0",
    "\u0301?",
    "x" * 600,
]
PLACES: Final = {
    "10.0.0.1/32": city("FR", "Lyon", (46, 5), 1), "10.0.0.2/32": city("FR", "Paris", (49, 2), 2),
    "10.0.1.0/24": city("DE", "Berlin", (52, 13), 12), "2001:db8::/48": {"autonomous_system_number": 2},
    "192.0.2.7/32": {"country": {"iso_code": "DE"}},
}  # fmt: skip
VALUES: Final = [None, True, False, 1, 0, 1.0, 2.5, "", "1", "é", [1], [True], {"k": 1}, {"k": True}]
SPAN: Final = 40
"""Logins are spread over this many seconds, so many are in the same second."""


def _text(rng: random.Random, most: int = 3) -> str:
    return rng.choice([" ", " ", "  "]).join(rng.choice(WORDS) for _ in range(rng.randint(1, most)))


def _login(rng: random.Random, now: float) -> dict[str, Any]:
    row: dict[str, Any] = {
        "uid": rng.choice(UIDS),
        "session_id": f"session-{rng.randrange(9) if rng.random() < 0.1 else rng.randrange(10**9)}",
    }
    optional: dict[str, Callable[[], Any]] = {
        "name": lambda: _text(rng, 11 if rng.random() < 0.1 else 3),
        "aliases": lambda: [_text(rng, 2) for _ in range(rng.randint(0, 2))],
        "ip": lambda: rng.choice(IPS),
        "device": lambda: rng.choice(["phone", "Phone", "desk"]),
        "app": lambda: rng.choice(["shop", "news"]),
        "app_version": lambda: rng.choice(["1", "2", "2.9", "2.10", "2.10-beta", "x"]),
        "methods": lambda: rng.choice([["pwd"], ["pwd", "otp"], ["hwk"]]),
        "user_agent": lambda: rng.choice(AGENTS),
        "attributes": lambda: {key: rng.choice(VALUES) for key in "pq" if rng.random() < 0.7},
        "idle_timeout": lambda: rng.choice([SPAN + 5, 10**5]),
        "device_id": lambda: f"device-{rng.randrange(4)}",
    }
    for field, draw in optional.items():
        if rng.random() < 0.7:
            row[field] = draw()
    row["login_at"] = now - rng.randrange(SPAN * 2) / 2
    row["last_seen"] = rng.uniform(row["login_at"], now)
    row["absolute_timeout"] = 10**6
    return row


def _question(rng: random.Random, now: float, *, is_inner: bool = False) -> dict[str, Any]:
    def piece() -> str:
        text = _text(rng, 2)
        start = rng.randrange(len(text)) if rng.random() < 0.3 else 0
        cut = text[start : start + rng.randint(1, 4)] if rng.random() < 0.7 else text
        return cut if folded(cut) else "a"

    optional: dict[str, Callable[[], Any]] = {
        "text": lambda: rng.choice(
            [
                *(piece(), piece(), " ".join(reversed(piece().split())) or "a", rng.choice(UIDS)),
                *(rng.choice(UIDS).strip()[:1], rng.choice(BLOCKS), "10.", "10.0.", "10.0", "101", "+4930", "030 101"),
                *(
                    "uen",
                    "@no",
                    "no.an",
                    "an, no",
                    "an,no b",
                    "101001",
                    "<b.an@an.no>,",
                    "يى",
                    "ﾀﾅ",
                    "10.0.0.1:80",
                    "+49 30 101001",
                    "u10:session-1",
                    "2001:db8:1",
                    f"session-{rng.randrange(9)}",
                ),
            ]
        ),
        "uid": lambda: rng.choice(UIDS),
        "name_prefix": piece,
        "name_contains": piece,
        "ip": lambda: rng.choice(BLOCKS),
        "device": lambda: rng.choice(["phone", "Phone", "desk", "tv"]),
        "app": lambda: rng.choice(["shop", "news"]),
        "app_version": lambda: rng.choice(["1", "2", "2.9", "3"]),
        "app_version_below": lambda: rng.choice(["2", "2.10", "2.10-rc", "3", "0.1"]),
        "os": lambda: rng.choice(["Linux", "Other"]),
        "browser": lambda: rng.choice(["Firefox", "curl", "Safari"]),
        "logged_in_after": lambda: round(now - rng.randrange(SPAN * 2) / 2, 3),
        "logged_in_before": lambda: round(now - rng.randrange(SPAN * 2) / 2, 3),
        "idle_for": lambda: rng.randrange(SPAN // 2),
        "seen_within": lambda: rng.randrange(1, SPAN),
        "methods": lambda: rng.choice([["pwd"], ["otp", "pwd"], ["sms"]]),
        "mfa": lambda: rng.random() < 0.5,
        "new_device": lambda: True,
        "on_behalf": lambda: True,
        "sign_in_required": lambda: True,
        "distant": lambda: True,
        "moved": lambda: True,
        "country": lambda: rng.choice(["FR", "DE", "JP"]),
        "city": lambda: rng.choice(["Lyon", "PARIS", "Bérlin", "Tokyo"]),
        "network": lambda: rng.choice(["AS1", "AS2", "AS12"]),
        "attributes": lambda: {key: rng.choice(VALUES) for key in "pq" if rng.random() < 0.6},
    }
    chosen = rng.sample(list(optional), rng.choice([1, 1, 1, 2, 2, 3, 5]))
    asked = {field: optional[field]() for field in chosen if field != "uid" or rng.random() < 0.3}
    if asked.get("logged_in_after", 0) >= asked.get("logged_in_before", now + 1):
        del asked["logged_in_after"]  # it would be refused
    if not is_inner and rng.random() < 0.25:
        inner = SessionFilter(**_question(rng, now, is_inner=True))
        if inner.given:
            asked["without"] = inner
    return asked


def _some_things_happen(rng: random.Random, p: P, now: float) -> None:
    """Kicks, logouts, renames and expiries through the client, so that all indexes are updated."""
    for session in rng.sample(living := list(p.iter_sessions()), min(12, len(living))):
        what = rng.choice(
            ["kick", "kick all", "logout", "rename", "rename", "heartbeat", "move", "move", "sign in", "nothing"]
        )
        if what.startswith("kick"):
            p.kick(
                session.uid,
                *([] if what.endswith("all") and rng.random() < 0.3 else [session.session_id]),
                by="s",
                reason="r",
            )
        elif what == "logout":
            p.logout(session.uid, session.session_id)
        elif what == "move":
            p.validate_session(session.uid, session.session_id, ip=rng.choice(IPS))
        elif what == "sign in":
            p.require_sign_in(session.uid, session.session_id, by="s", reason="r")
        elif what == "heartbeat":
            p.heartbeat(session.uid, session.session_id)
        elif what == "rename":
            fields = _login(rng, now) | {"uid": session.uid, "session_id": session.session_id}
            for field in ("login_at", "last_seen", "absolute_timeout", "idle_timeout"):
                fields.pop(field, None)
            if p.get(session.uid, session.session_id):
                p.login(**fields)


def scan_for_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a scan for the users of a word the cheapest way."""
    for cost in ("SCAN_US", "USERS_US", "TEST_US"):
        monkeypatch.setattr(planner, cost, 0)


def _check(rng: random.Random, p: P, asked: dict[str, Any], sessions: list[Session]) -> None:
    expected = [session.ref for session in sessions if found_by(session, p.clock.ms, asked)]
    session_filter, found, cursor = SessionFilter(**asked), [], None
    while True:
        page = p.list_sessions(session_filter, limit=rng.choice([1, 2, 3, 7, 50, 1000]), cursor=cursor)
        found += [session.ref for session in page]
        if page.total_is_exact:
            assert page.total == len(expected), asked
        assert len(found) <= len(sessions), "it goes round in circles"
        cursor = page.next_cursor
        if cursor is None:
            break
    assert found == expected, asked
    assert p.count_sessions(session_filter) == len(expected), asked


SETTINGS: Final[list[dict[str, Any]]] = [
    {"shards": 1}, {"shards": 4}, {"shards": 4, "indexes": ()}, {"shards": 1, "indexes": ("name", "ip")},
    {"shards": 4, "indexes": ("uid", "name", "alias"), "heal": False, "facets": ("p",)}, {"shards": 1, "indexes": ()},
]  # fmt: skip


def _history(bed: Bed, seed: int, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch, questions: int,
             directory: Path) -> None:  # fmt: skip
    rng = random.Random(seed)
    if rng.random() < 0.5:  # small limits per call
        monkeypatch.setattr(list_sessions, "BUDGET", rng.choice([5, 20, 60]))
        monkeypatch.setattr(list_sessions, "PROBE", rng.choice([3, 10, 40]), raising=False)
        monkeypatch.setattr(list_sessions, "USERS_BUDGET", rng.choice([5, 20, 60]))
        monkeypatch.setattr(shard_merge, "MAX_READ", rng.choice([1, 10, 40]))
        monkeypatch.setattr(shard_merge, "STEP", rng.choice([1, 5, 20]))
        monkeypatch.setattr(shard_merge, "USERS_STEP", rng.choice([1, 5, 20]))
    if rng.random() < 0.5:
        scan_for_users(monkeypatch)
    places = str(write_place_file(directory / "places.mmdb", PLACES))
    p = bed.connect(namespace=f"{bed.namespace}-{seed}", place_file=places, **settings)
    p.freeze()
    now = p.clock.ms / 1000
    known: set[str] = set()  # refs of earlier logins: a session that ended never comes back
    for _ in range(2):
        rows = [_login(rng, now) for _ in range(rng.choice([20, 70]))]
        given = [f"{row['uid']}:{row['session_id']}" for row in rows]
        for ref, answer in zip(given, p.login_many(rows, imported=True), strict=True):
            assert isinstance(answer, Login) or (answer.code == "ended" and ref in known), ref
        known.update(given)
        _some_things_happen(rng, p, now)
        sessions = list(p.iter_sessions())
        for _ in range(questions):
            _check(rng, p, _question(rng, now), sessions)
        p.advance(rng.choice([0, 1, 20]))
        now = p.clock.ms / 1000
        if rng.random() < 0.3:
            p.sweep()
        sessions = list(p.iter_sessions())
        for _ in range(questions):
            _check(rng, p, _question(rng, now), sessions)
    p.sweep()
    for field in ("device", "app", "app_version", "os", "browser"):
        assert p.facets(field) == Counter(value for session in sessions if (value := getattr(session, field))), field
    for field, key in (("country", "country"), ("network", "network_id")):
        values = (getattr(session.place, key) for session in sessions if session.place)
        assert p.facets(field) == Counter(value for value in values if value), field
    monkeypatch.undo()


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@on("valkey-sync", soak=("redis7-sync",))
def test_a_search_read_to_its_end_finds_what_a_plain_filter_finds(
    bed: Bed, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for seed in range(size(1, 50)):
        _history(bed, 1000 * SETTINGS.index(settings) + seed, settings, monkeypatch, 12, tmp_path)


@on("valkey-async", "cluster-sync")
def test_an_async_or_cluster_search_finds_what_a_plain_filter_finds(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for seed in range(size(1, 20)):
        _history(bed, 90_000 + seed, {"shards": 16} if bed.is_cluster else {}, monkeypatch, size(4, 8), tmp_path)


QUESTIONS: Final[list[dict[str, Any]]] = [
    {"text": "last"}, {"name_prefix": "lasting"}, {"name_contains": "asti"}, {"ip": "10.0.0.0/8"}, {"device": "phone"},
    {"attributes": {"stays": True}}, {"device": "phone", "name_prefix": "one"}, {"ip": "10.9.9.9"},
]  # fmt: skip


@pytest.mark.parametrize(("shards", "scans_users"), [(1, False), (4, False), (4, True)])
@on("valkey-sync", soak=("redis7-sync",))
def test_a_session_that_matches_throughout_is_found_exactly_once_while_others_change(
    bed: Bed, shards: int, scans_users: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if scans_users:
        scan_for_users(monkeypatch)
    monkeypatch.setattr(list_sessions, "BUDGET", 60)
    monkeypatch.setattr(list_sessions, "PROBE", 30, raising=False)
    monkeypatch.setattr(shard_merge, "MAX_READ", 50)
    monkeypatch.setattr(shard_merge, "STEP", 20)
    monkeypatch.setattr(shard_merge, "USERS_STEP", 20)
    p = bed.connect(shards=shards, timeout=20)
    p.freeze()
    now = p.clock.ms / 1000
    same: dict[str, Any] = {"name": "Lasting One", "ip": "10.9.9.9", "device": "phone", "attributes": {"stays": True}}
    gone = same | {"attributes": {"stays": False}}
    rows: list[dict[str, Any]]
    rows = [{"uid": f"last{n % 90}" if n % 3 else f"pass{n}", "session_id": f"session-{n}", "login_at": now - n % 7,
             "last_seen": now, **(same if n % 3 else gone)} for n in range(360)]  # fmt: skip
    random.Random(7).shuffle(rows)
    p.login_many(rows, imported=True)
    lasting = {f"{row['uid']}:{row['session_id']}" for row in rows if row["attributes"] == {"stays": True}}
    assert len(lasting) == 240
    stop = threading.Event()
    broken: list[BaseException] = []

    def churn(seed: int) -> None:
        p, rng = bed.connect(shards=shards, timeout=20), random.Random(seed)
        passing = [row for row in rows if row["attributes"] == {"stays": False}][seed::2]
        try:
            while not stop.is_set():
                some = rng.choice(rows)
                given = {key: value for key, value in some.items() if key not in ("login_at", "last_seen")}
                if some["attributes"]["stays"]:  # the searched fields stay, the others change
                    changed = {"app": rng.choice("ab"), "name": "Lasting One " + rng.choice(["山", "김", "Ü", "x y z"])}
                    p.login(**given | changed)
                elif passing and rng.random() < 0.1:
                    row = passing.pop()
                    p.kick(row["uid"], row["session_id"], by="s", reason="r")
                p.login_many(
                    [{"uid": f"new{seed}-{rng.randrange(50)}", "name": "Lasting One", "device": "phone",
                      "ip": "10.9.9.9", "login_at": now - rng.randrange(7), "last_seen": now}], imported=True,
                )  # fmt: skip
                p.kick(f"new{seed}-{rng.randrange(50)}", by="s", reason="r")
        except BaseException as error:
            broken.append(error)

    threads = [threading.Thread(target=churn, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    until = time.monotonic() + size(0.5, 60)
    walks = 0
    try:
        while time.monotonic() < until or walks < len(QUESTIONS):
            asked = QUESTIONS[walks % len(QUESTIONS)]
            seen = list(p.iter_sessions(SessionFilter(**asked), page_size=(9, 50, 500)[walks % 3]))
            refs = [session.ref for session in seen]
            assert len(set(refs)) == len(refs), f"{asked}: shown twice"
            assert lasting <= set(refs), f"{asked}: {len(lasting - set(refs))} were missed"
            places = [(session.login_at, session.ref.encode()) for session in seen]
            assert places == sorted(places, reverse=True), f"{asked}: out of order"
            assert all(found_by(session, p.clock.ms, asked) for session in seen)
            walks += 1
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert broken == []
