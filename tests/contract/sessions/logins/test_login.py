"""A login begins a session: which fields it stores, how long it lives, and a second login with the same id."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from presence_core import InvalidArgument, Login, LoginRefused, Session, SessionFilter
from presence_core.operations.sessions import login_calls
from tests.conftest import Bed, every_backend, every_topology, on
from tests.support.expected.bad_input import LOGIN
from tests.support.facade import P

HOSTILE_UIDS = [
    "a:b", "a:b:c", ":", "::", "*", "?", "[x]", "{x}", "}{", "{}", "a}:sessions", "'", '"', "`$(reboot)`", "\\",
    "a b", " a ", "a\u00a0b", "😀", "👩‍👩‍👧", "שלום", "مرحبا", "\u202egnp.exe", "e\u0301", "é", "ß", "İ", "ﬁ", "\ufeff",
    "-", "--help", "0", "None", "null", "../../etc/passwd", "<b>x</b>", "%s%n", "x" * 256, "é" * 128, "😀" * 64,
    "\\x00", "users", "sessions", "a\nb".replace("\n", "\u2028"), "\ue000", "\U0010ffff",
]  # fmt: skip

CHROME = (
    "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 "
    "Mobile Safari/537.36"
)

EVERYTHING: dict[str, Any] = {
    "name": "Ada Lovelace, Countess of 💻",
    "aliases": ("ada@example.org", "+44 20 7946 0000"),
    "device": "Pixel 8",
    "app": "shop",
    "app_version": "3.14.0-rc1",
    "ip": "2001:db8::1",
    "user_agent": CHROME,
    "attributes": {"plan": "gold", "seats": 3, "tags": ["ä", None, {"deep": True}], "ratio": 0.5},
}


def _seen_everywhere(p: P, login: Login) -> list[Session | None]:
    """The same session, read in every possible way."""
    session = login.session
    return [
        session,
        p.get(session.uid, session.session_id),
        p.sessions(session.uid)[0],
        p.list_sessions().items[0],
        p.validate(login.token, touch=False).session,
        p.validate_session(session.uid, session.session_id, touch=False).session,
        next(iter(p.iter_sessions())),
    ]


@every_backend
def test_every_field_given_at_login_is_read_back_as_it_was(p: P) -> None:
    p.login("someone else", device="Pixel 8", user_agent=CHROME)
    now = p.freeze()
    p.advance(1)
    login = p.login("ada", **EVERYTHING)
    for session in _seen_everywhere(p, login):
        assert session is not None
        for name, value in EVERYTHING.items():
            assert getattr(session, name) == value, name
        assert (session.os, session.browser) == ("Android", "Chrome Mobile")
        assert (session.uid, session.ref) == ("ada", f"ada:{session.session_id}")
        assert session.login_at == session.last_seen == datetime.fromtimestamp((now + 1000) / 1000, UTC)
        assert session.expires_at == session.login_at + timedelta(seconds=1800)
        assert (session.idle_timeout, session.absolute_timeout) == (1800, 86400)
        assert session.last_ip == "2001:db8::1"
    assert login.replaced == []


@every_topology
def test_a_login_needs_only_a_uid(p: P) -> None:
    for session in _seen_everywhere(p, p.login("ada")):
        assert session is not None
        for name in ("name", "device", "app", "app_version", "ip", "last_ip", "user_agent", "os", "browser"):
            assert getattr(session, name) is None, name
        assert session.aliases == ()
        assert session.attributes == {}


def test_hostile_uids_round_trip_exactly_and_stay_separate(p: P) -> None:
    described: dict[str, tuple[str, str | None, tuple[str, ...]]] = {uid: (uid, uid, (uid,)) for uid in HOSTILE_UIDS}
    described["\ufeff"] = ("\ufeff", None, ())  # a name without a picture is left out
    logins = {uid: p.login(uid, name=uid, aliases=[uid]) for uid in HOSTILE_UIDS}
    assert len(logins) == len(HOSTILE_UIDS)
    assert p.counts().sessions == p.counts().users == len(HOSTILE_UIDS)
    assert {session.uid for session in p.iter_sessions(page_size=7)} == set(HOSTILE_UIDS)
    for uid, login in logins.items():
        sid = login.session.session_id
        assert (login.session.uid, login.session.name, login.session.aliases) == described[uid]
        assert [session.session_id for session in p.sessions(uid)] == [sid]
        found = p.validate(login.token).session
        assert found is not None
        assert (found.uid, found.name, found.aliases) == described[uid]
        assert p.heartbeat(uid, sid)
    assert p.heartbeats([login.session.ref for login in logins.values()]) == []
    for uid, login in logins.items():
        assert [session.ref for session in p.kick(uid, by=uid, reason=uid).kicked] == [login.session.ref]
        ended = p.validate(login.token).ended
        assert ended is not None
        assert (ended.uid, ended.by, ended.note) == (uid, uid, uid)
    assert p.counts().sessions == 0
    assert {event.uid for event in p.events(limit=1000)} == set(HOSTILE_UIDS)


def test_uids_that_differ_only_in_normal_form_or_case_are_different_people(p: P) -> None:
    for uid in ("é", "e\u0301", "Ada", "ada", "ada ", " ada"):
        p.login(uid)
    assert p.counts().users == 6
    assert [len(p.sessions(uid)) for uid in ("é", "e\u0301", "Ada", "ada", "ada ", " ada")] == [1] * 6


def test_session_ids_are_22_url_safe_characters_and_never_repeat(p: P) -> None:
    ids = [
        login.session.session_id
        for login in p.login_many({"uid": "ada"} for _ in range(50))
        if isinstance(login, Login)
    ]
    assert len(set(ids)) == 50
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{22}", sid) for sid in ids)


def test_a_site_may_use_session_ids_of_its_own(p: P) -> None:
    for sid in ("12345678", "x" * 128, "-_-_-_-_", "abcDEF01"):
        assert p.login("ada", session_id=sid).session.session_id == sid
        assert p.validate_session("ada", sid)
    assert p.counts().sessions == 4


def test_one_session_id_under_two_users_is_two_sessions(p: P) -> None:
    first, second = p.login("ada", session_id="same-id-1"), p.login("bob", session_id="same-id-1")
    assert p.kick("ada", "same-id-1", by="staff", reason="test").kicked
    assert not p.validate(first.token)
    assert p.validate(second.token)


# -- again with the same id -------------------------------------------------------------------------------------------


@every_topology
def test_a_repeated_login_refreshes_the_record_and_keeps_time_and_timeouts(p: P) -> None:
    p.freeze()
    first = p.login("ada", **EVERYTHING, session_id="own-id-01", idle_timeout=100, absolute_timeout=200)
    p.validate(first.token, ip="192.0.2.9")
    p.advance(60)
    again = p.login("ada", name="Ada King", device="Nokia", session_id="own-id-01", idle_timeout=5)
    assert again.replaced == []
    for session in _seen_everywhere(p, again):
        assert session is not None
        assert session.login_at == first.session.login_at
        assert (session.idle_timeout, session.absolute_timeout) == (100, 200)
        assert session.last_seen == p.clock.now
        assert session.expires_at == p.clock.now + timedelta(seconds=100)
        assert (session.name, session.device) == ("Ada King", "Nokia")
        # Fields that this login did not send are removed.
        assert (session.aliases, session.app, session.ip, session.last_ip) == ((), None, None, None)
        assert (session.user_agent, session.os, session.browser, session.attributes) == (None, None, None, {})
    assert p.counts().sessions == p.counts().users == 1
    assert p.counts().totals["login"] == 1
    assert [event.kind for event in p.events()] == ["login"]


def test_a_repeated_login_gives_a_new_secret_and_the_old_one_is_invalid(p: P) -> None:
    first = p.login("ada", session_id="own-id-01")
    again = p.login("ada", session_id="own-id-01")
    assert first.token != again.token
    assert not p.validate(first.token)
    assert p.validate(again.token)


def test_a_repeated_login_skips_the_limits(bed: Bed) -> None:
    for mode in ("reject", "replace"):
        p = bed.connect(max_sessions=2, max_sessions_per_device=1, on_limit=mode)
        p.login(mode, session_id="own-id-01", device="phone")
        p.login(mode, session_id="own-id-02", device="desk")
        assert p.login(mode, session_id="own-id-01", device="phone").replaced == []
        assert len(p.sessions(mode)) == 2


@every_topology
def test_an_id_that_has_ended_is_refused_while_its_tombstone_lives(p: P) -> None:
    p.freeze()
    p.login("ada", session_id="logged-out")
    p.login("ada", session_id="was-kicked")
    p.login("ada", session_id="ran-out-of-time", idle_timeout=1)
    p.logout("ada", "logged-out")
    p.kick("ada", "was-kicked", by="staff", reason="test")
    p.advance(1)
    before = p.counts()
    for sid in ("logged-out", "was-kicked", "ran-out-of-time"):
        with pytest.raises(LoginRefused, match="never comes back") as refused:
            p.login("ada", session_id=sid)
        assert refused.value.code == "ended"
        [many] = p.login_many([{"uid": "ada", "session_id": sid}])
        assert isinstance(many, LoginRefused)
    p.sweep()
    with pytest.raises(LoginRefused):
        p.login("ada", session_id="ran-out-of-time")
    assert p.counts().totals["login"] == before.totals["login"]
    assert p.sessions("ada") == []


def test_an_ended_id_without_a_tombstone_may_be_used_again(bed: Bed) -> None:
    p = bed.connect(keep_logout=0)
    p.login("ada", session_id="own-id-01", name="first")
    p.logout("ada", "own-id-01")
    assert p.login("ada", session_id="own-id-01").session.name is None


# -- timeouts ---------------------------------------------------------------------------------------------------------


def test_timeouts_may_be_set_per_login_and_the_other_default_is_adjusted(bed: Bed) -> None:
    p = bed.connect(idle_timeout=600, absolute_timeout=3600)
    cases: list[tuple[dict[str, Any], tuple[int, int]]] = [
        ({}, (600, 3600)),
        ({"idle_timeout": 1}, (1, 3600)),
        ({"idle_timeout": 7200}, (7200, 7200)),  # remember me: the session lives as long as it may be idle
        ({"absolute_timeout": 60}, (60, 60)),
        ({"absolute_timeout": 7200}, (600, 7200)),
        ({"idle_timeout": 30, "absolute_timeout": 90}, (30, 90)),
        ({"idle_timeout": 90, "absolute_timeout": 90}, (90, 90)),
        ({"idle_timeout": 315_360_000}, (315_360_000, 315_360_000)),
    ]
    for given, kept in cases:
        session = p.login("ada", **given).session
        assert (session.idle_timeout, session.absolute_timeout) == kept
        assert session.expires_at - session.login_at == timedelta(seconds=kept[0])
        assert p.get("ada", session.session_id) == session


# -- imported logins, and many at once --------------------------------------------------------------------------------


@every_backend
def test_imported_logins_keep_their_times(p: P) -> None:
    now = p.freeze() / 1000
    rows: list[dict[str, Any]] = [
        {"uid": "a", "login_at": now - 3600, "last_seen": now - 60, "name": "A"},
        {"uid": "b", "login_at": datetime.fromtimestamp(now - 7200, UTC), "last_seen": p.clock.now},
        {"uid": "c", "login_at": now - 90},  # not seen since its login, as far as is known
        {"uid": "d"},  # no past at all
        {"uid": "e", "login_at": now + 500, "last_seen": now + 900},  # a clock that is ahead: never in the future
        {"uid": "f", "login_at": now - 90, "last_seen": now - 1000},  # seen before the login: corrected to the login
    ]
    answers = p.login_many(rows, imported=True)
    times = {}
    for answer in answers:
        assert isinstance(answer, Login)
        session = answer.session
        assert p.get(session.uid, session.session_id) == session
        assert p.validate(answer.token, touch=False)
        times[session.uid] = tuple(
            round((p.clock.now - moment).total_seconds()) for moment in (session.login_at, session.last_seen)
        )
    assert times == {"a": (3600, 60), "b": (7200, 0), "c": (90, 90), "d": (0, 0), "e": (0, 0), "f": (90, 90)}
    assert [session.uid for session in p.list_sessions()][2:] == ["f", "c", "a", "b"]
    assert p.counts().sessions == 6


def test_an_imported_login_past_its_deadline_is_refused_in_its_row(p: P) -> None:
    now = p.freeze() / 1000
    rows: list[dict[str, Any]] = [
        {"uid": "idle", "login_at": now - 3600, "last_seen": now - 1800},
        {"uid": "old", "login_at": now - 86400, "last_seen": now},
        {"uid": "live", "login_at": now - 86399, "last_seen": now},
    ]
    idle, old, live = p.login_many(rows, imported=True)
    for refused in (idle, old):
        assert isinstance(refused, LoginRefused)
        assert refused.code == "expired"
    assert isinstance(live, Login)
    assert live.session.expires_at == live.session.login_at + timedelta(days=1)
    assert p.counts().sessions == p.counts().totals["login"] == 1


def test_login_many_answers_in_order_and_a_refused_row_keeps_its_position(bed: Bed) -> None:
    p = bed.connect(max_sessions=1, on_limit="reject")
    rows = [{"uid": f"u{number}", "name": f"N {number}"} for number in range(1100)]
    rows[700] = {"uid": "u3"}
    answers = p.login_many(iter(rows))
    assert len(answers) == 1100
    for number, answer in enumerate(answers):
        if number == 700:
            assert isinstance(answer, LoginRefused)
            assert answer.code == "limit"
        else:
            assert isinstance(answer, Login)
            assert (answer.session.uid, answer.session.name) == (f"u{number}", f"N {number}")
    assert p.counts().sessions == 1099


@every_topology
def test_many_logins_of_one_user_replace_one_another_in_order(bed: Bed) -> None:
    p = bed.connect(max_sessions=2)
    answers = p.login_many({"uid": "ada", "session_id": f"session-{number}"} for number in range(5))
    replaced = [[session.session_id for session in answer.replaced] for answer in answers if isinstance(answer, Login)]
    assert replaced == [[], [], ["session-0"], ["session-1"], ["session-2"]]
    assert {session.session_id for session in p.sessions("ada")} == {"session-3", "session-4"}


def test_one_bad_row_among_many_sends_nothing(p: P, bed: Bed) -> None:
    p.counts()
    before = bed.dump()
    with pytest.raises(InvalidArgument, match=r"^row 3: attributes must be a dict with text keys\.$"):
        p.login_many([{"uid": "a"}, {"uid": "b"}, {"uid": "c", "attributes": "x"}, {"uid": "d"}])
    assert bed.dump() == before
    assert p.login_many([]) == []


# -- user agents, addresses, texts kept once --------------------------------------------------------------------------


def test_a_long_user_agent_is_cut_at_512_characters_with_a_mark(p: P) -> None:
    exact, long = "x" * 512, "😀" * 513
    assert p.login("ada", user_agent=exact).session.user_agent == exact
    login = p.login("bob", user_agent=long)
    for session in _seen_everywhere(p, login):
        assert session is not None
        assert session.user_agent == "😀" * 511 + "…"


def test_control_characters_in_a_user_agent_do_no_harm(p: P) -> None:
    session = p.login("ada", user_agent="a\r\nSet-Cookie: x\n\x00\ud800z").session
    assert session.user_agent == "a  Set-Cookie: x   z"
    assert p.get("ada", session.session_id) == session
    assert p.login("bob", user_agent="").session.user_agent is None


def test_addresses_are_stored_in_canonical_form(p: P) -> None:
    for given, kept in (
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:0DB8:0:0::0001", "2001:db8::1"),
        ("::", "::"),
        ("255.255.255.255", "255.255.255.255"),
    ):
        session = p.login("ada", ip=given).session
        assert session.ip == session.last_ip == kept
        assert p.get("ada", session.session_id) == session


@every_topology
def test_a_text_shared_by_many_sessions_is_stored_once(p: P, bed: Bed, raw: Any) -> None:
    for number in range(20):
        p.login("ada", user_agent=CHROME, device="Pixel 8", session_id=f"session-{number}")
    holding = [key for key, value in bed.dump().items() if CHROME.encode() in value]
    assert all(b":labels" in key for key in holding)
    [labels] = bed.families()["labels"]
    assert raw.hlen(labels) == 2


@every_topology
def test_a_full_label_table_grows_no_further_and_loses_no_text(p: P, bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_calls, "MAX_LABELS", 4)
    agents = [f"curl/{number}.0" for number in range(12)]
    for number, agent in enumerate(agents):
        p.login("ada", user_agent=agent, device=f"device {number}", app="shop", session_id=f"session-{number}")
    p.login("ada", user_agent="curl/99.0", device="another", session_id="session-3")
    agents[3] = "curl/99.0"
    [labels] = bed.families()["labels"]
    assert bed.raw.hlen(labels) == 4
    for number, agent in enumerate(agents):
        session = p.get("ada", f"session-{number}")
        assert session is not None
        assert (session.user_agent, session.browser) == (agent, "curl")
        assert (session.device, session.app) == (("another", None) if number == 3 else (f"device {number}", "shop"))
    assert (
        {session.user_agent for session in p.list_sessions()}
        == {session.user_agent for session in p.sessions("ada")}
        == set(agents)
    )
    p.kick("ada", "session-11", by="staff", reason="test")
    ended = p.validate_session("ada", "session-11").ended
    assert ended is not None
    assert (ended.user_agent, ended.device) == ("curl/11.0", "device 11")


@on("valkey-sync")
def test_two_texts_with_the_same_id_are_not_confused(p: P, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_calls, "label", lambda text: (b"same", text.encode()))
    monkeypatch.setattr(login_calls, "agent_label", lambda agent, _: (b"same", f"\ncurl\n{agent}".encode()))
    first = p.login("ada", device="phone", user_agent="curl/1.0").session
    second = p.login("ada", device="desk", user_agent="curl/2.0").session
    assert p.get("ada", first.session_id) == first
    assert p.get("ada", second.session_id) == second
    assert (first.device, second.device) == ("phone", "desk")


# -- what describes a visitor -----------------------------------------------------------------------------------------


@on("valkey", "redis7-sync")
def test_nothing_that_describes_a_visitor_keeps_the_visitor_out(p: P) -> None:
    for field in ("ip", "name", "device", "app", "app_version", "user_agent", "aliases"):
        for number, (value, _) in enumerate(LOGIN[field]):
            try:
                assert p.login(f"{field}-{number}", **{field: value}).session.uid == f"{field}-{number}"
            except InvalidArgument as error:
                pytest.fail(f"{field}={value!r:.60}: {error}")


@on("valkey-sync")
def test_what_is_stored_can_be_searched(p: P) -> None:
    agent = f"{'B' * 200}/1.0 (X11; Linux x86_64) " + "x" * 400
    stored = p.login(
        "ada", name="名" * 100, device="d" * 90, app="é" * 60, app_version="v" * 65, user_agent=agent
    ).session
    assert stored.name == "名" * 85
    assert stored.user_agent is not None
    assert len(stored.user_agent) == 512
    for field in ("device", "app", "app_version", "os", "browser"):
        for value in p.facets(field):
            wanted: dict[str, Any] = {field: value}
            assert [found.uid for found in p.list_sessions(SessionFilter(**wanted)).items] == ["ada"], field
    assert p.list_sessions(SessionFilter(name_prefix=stored.name)).items == [stored]
    assert p.login_many([{"uid": "bob", "ip": "unknown", "aliases": ["", "bob@example.com"], "name": "x" * 300}])
    [bob] = p.sessions("bob")
    assert (bob.ip, bob.aliases, bob.name) == (None, ("bob@example.com",), "x" * 256)
