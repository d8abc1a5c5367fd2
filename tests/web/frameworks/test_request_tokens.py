"""Several tokens in a request: which session counts, what a kick does, and which cookies the answer deletes."""

from __future__ import annotations

from http.cookies import SimpleCookie
from typing import Any

import pytest

from presence_core.transport import exchange
from presence_core.web.cookies import clear_copies_headers, read_cookie, read_cookies
from tests.conftest import on
from tests.support.facade import P
from tests.web.frameworks.conftest import Make
from tests.web.frameworks.sites import Answer

JWT = "eyJhbGciOiJub25lIn0.e30."
SIGNED_JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJlc2lnbmF0dXJlc2lnbmF0dXJlc2lnbmE"

CASES = [
    # (Cookie, Authorization, passes)
    ("presence=<dead>; presence=<live>", "", True),
    ("presence=; presence=<live>", "", True),
    ("presence=<live>; presence=<dead>", "", True),
    ("presence=<dead>; presence=<dead>", "", False),
    ('presence="<live>"', "", True),
    ("theme=dark; presence=<live>; x", "", True),
    ("presence=<live>", f"Bearer {JWT}", True),
    ("", "Bearer <live>", True),
    ("", "bearer   <live>", True),
    ("presence=\xff\xfe; presence=<live>", "", True),
    ("presence=<live>", "Bearer <dead>", False),
    ("presence=<kicked>; presence=<other>", "", False),
    # of the same kinds
    ("presence; presence=<live>", "", True),
    ('presence=""; presence="<live>"', "", True),
    ("presence=;presence=;presence=;presence=;presence=<live>", "", True),
    ("presence=junk; presence=a.b.c; presence=%20; presence=-; presence=!; presence=<live>", "", True),
    ("presence=<dead>; presence=<dead2>; presence=<unknown>; presence=<live>", "", True),
    ("presence=<dead>; presence=<dead2>; presence=<unknown>; presence=<unknown2>; presence=<live>", "", False),
    ("presence=<dead>; presence=<dead>; presence=<dead>; presence=<dead>; presence=<live>", "", True),
    ("presence=<unknown>; presence=<live>", "", True),
    ("presence=<unknown>; presence=<unknown2>", "", False),
    ("presence=<live>; presence=<other>", "", True),
    ("xpresence=<dead>; presence=<live>", "", True),
    ("presence=<live>; presence=<kicked>", "", False),
    ("presence=<dead>; presence=<live>; presence=<other>; presence=<kicked>", "", False),
    ("presence=<kicked>; presence=<dead>", "", False),
    ("presence=<live>", f"Bearer {SIGNED_JWT}", True),
    ("presence=<live>", "Bearer junk", True),
    ("presence=<live>", "Bearer <unknown>", True),
    ("presence=<live>", "Bearer", True),
    ("presence=<live>", "Bearer   ", True),
    ("presence=<live>", "Basic YWRhOng=", True),
    ("presence=<dead>; presence=<live>", f"Bearer {JWT}", True),
    ("presence=<dead>; presence=<live>", f"Bearer {SIGNED_JWT}", True),
    ("presence=<live>", "Bearer <kicked>", False),
    ("presence=<kicked>", "Bearer <live>", False),
    ("presence=<dead>", "Bearer <live>", True),
    ("presence=<live>", "Bearer <live>", True),
    ("presence=", "Bearer <live>", True),
    ("", 'BEARER "<live>"', True),
    ("presence=<dead>", f"Bearer {JWT}", False),
    ("", f"Bearer {JWT}", False),
]


def tokens_of(p: P) -> dict[str, str]:
    """A token of each kind."""
    live, other = p.login("ada").token, p.login("eve").token
    tokens = {"<live>": live, "<other>": other, "<unknown>": f"{live[:-43]}{'A' * 43}"}
    tokens["<unknown2>"] = f"{other[:-43]}{'A' * 43}"
    for name in ("<dead>", "<dead2>", "<kicked>"):
        login = p.login("ada")
        tokens[name] = login.token
        if name == "<kicked>":
            p.kick("ada", login.session.session_id, by="sam", reason="stolen", message="Please call us.")
        else:
            p.logout("ada", login.session.session_id)
    return tokens


def filled(text: str, tokens: dict[str, str]) -> str:
    for name, token in tokens.items():
        text = text.replace(name, token)
    return text


def headers_of(cookie: str, authorization: str, tokens: dict[str, str]) -> dict[str, str]:
    given = {"cookie": filled(cookie, tokens), "authorization": filled(authorization, tokens)}
    return {name: value for name, value in given.items() if value}


def set_cookies(answer: Answer) -> list[str]:
    return [value for name, value in answer.headers if name.lower() == "set-cookie"]


def kept(answer: Answer) -> str | None:
    """What a browser that has one cookie of our name keeps of it."""
    left: str | None = None
    for header in set_cookies(answer):
        [morsel] = SimpleCookie(header).values()
        left = None if morsel["max-age"] == "0" else morsel.value
    return left


@on("valkey-sync", soak=("cluster-sync",))
def test_the_first_token_that_is_live_counts_and_a_kick_before_all(p: P, make: Make) -> None:
    tokens = tokens_of(p)
    site = make()
    for cookie, authorization, passes in CASES:
        answer = site.ask(**headers_of(cookie, authorization, tokens))
        assert answer.status == (200 if passes else 401), (cookie, authorization)
        if passes:
            assert answer.body == b"ada", (cookie, authorization)
        elif "<kicked>" in cookie + authorization:
            assert (answer.json["code"], answer.json["message"]) == ("kicked", "Please call us."), cookie
        assert bool(set_cookies(answer)) == ("<kicked>" in cookie), (cookie, authorization)


@on("valkey-sync")
@pytest.mark.parametrize("path", ["/", "/shop/basket"])
def test_the_end_of_a_kicked_session_is_said_once_next_to_a_live_one(p: P, make: Make, path: str) -> None:
    tokens = tokens_of(p)
    site = make(public=("/sign-in",))
    named = headers_of("presence=<kicked>; presence=<other>", "", tokens)
    public = site.ask("/sign-in", **named)
    assert (public.body, set_cookies(public)) == (b"nobody", []), "a page that is not public shows the end"
    refused = site.ask(path, host="www.shop.example", **named)
    assert (refused.status, refused.json["code"]) == (401, "kicked")
    cleared = set_cookies(refused)[:-1]
    assert all("presence=; " in header and "; Max-Age=0; " in header for header in cleared)
    assert {header.count("Domain=shop.example") for header in cleared} == {0, 1}
    assert any("Path=/shop;" in header for header in cleared) == (path != "/")
    assert kept(refused) == tokens["<other>"]
    assert site.ask(path, cookie=f"presence={kept(refused)}").body == b"eve"
    alone = site.ask(**headers_of("presence=<kicked>; presence=<dead>", "", tokens))
    assert (alone.status, kept(alone)) == (401, None)
    single = site.ask(**headers_of("presence=<kicked>", "", tokens))
    assert (single.status, set_cookies(single)) == (401, []), "every request of its tabs reads the end"


@on("valkey-sync")
def test_a_bearer_next_to_the_cookie_of_a_kicked_session_leaves_no_cookie(p: P, make: Make) -> None:
    tokens = tokens_of(p)
    answer = make().ask(**headers_of("presence=<kicked>", "Bearer <live>", tokens))
    assert (answer.status, kept(answer), bool(set_cookies(answer))) == (401, None, True)


@on("valkey-sync")
def test_in_adopt_old_cookies_begin_one_session_and_no_kicked_user_gets_another(p: P, make: Make) -> None:
    tokens = tokens_of(p)
    site = make(mode="adopt", user=lambda: "bob")
    first = site.ask(**headers_of("presence=<dead>; presence=", "", tokens))
    assert first.body == b"bob"
    old = headers_of(f"presence=<dead>; presence={kept(first)}", f"Bearer {SIGNED_JWT}", tokens)
    for _ in range(20):
        assert site.ask(**old).body == b"bob"
    [session] = p.sessions("bob")
    p.kick("bob", session.session_id, by="sam", reason="test")
    for _ in range(2):
        refused = site.ask(**old)
        assert (refused.status, set_cookies(refused)) == (401, [])
    assert p.sessions("bob") == []


@on("valkey-sync")
def test_of_several_tokens_only_those_of_the_user_that_the_site_names_count(p: P, make: Make) -> None:
    tokens = tokens_of(p)
    site = make(user=lambda: "eve")
    for cookie in ("<live>; presence=<other>", "<kicked>; presence=<other>", "<other>; presence=<kicked>"):
        assert site.ask(**headers_of(f"presence={cookie}", "", tokens)).body == b"eve", cookie
    assert site.ask(**headers_of("presence=<live>; presence=<unknown>", "", tokens)).status == 401


@on("valkey-sync")
def test_a_session_that_must_sign_in_again_does_not_fall_through(p: P, make: Make) -> None:
    tokens = tokens_of(p)
    p.require_sign_in("ada", by="sam", reason="odd login")
    answer = make().ask(**headers_of("presence=<dead>; presence=<live>; presence=<other>", "", tokens))
    assert (answer.status, answer.json["code"]) == (401, "sign_in_required")


@on("valkey-sync")
def test_several_tokens_take_one_round_trip_and_only_the_session_that_counts_is_seen(
    p: P, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = tokens_of(p)
    before = {session.uid: session.last_seen for uid in ("ada", "eve") for session in p.sessions(uid)}
    site = make()
    site.checker.buffer._interval = 3600.0
    named = headers_of("presence=<dead>; presence=<live>; presence=<other>", "", tokens)
    assert site.ask(**named).body == b"ada"
    batches: list[int] = []
    exchange_batch = exchange.exchange

    def noted(router: Any, calls: Any, timeout: float) -> Any:
        batches.append(len(calls))
        return exchange_batch(router, calls, timeout)

    monkeypatch.setattr(exchange, "exchange", noted)
    assert site.ask(**named).body == b"ada"
    assert batches == [3]
    site.close()  # sends the heartbeats
    seen = {session.uid: session for uid in ("ada", "eve") for session in p.sessions(uid)}
    assert seen["ada"].last_seen > before["ada"]
    assert seen["ada"].last_ip == "192.0.2.1", "a new address is noted"
    assert seen["eve"].last_seen == before["eve"]


@pytest.mark.parametrize(
    ("header", "values"),
    [
        ("presence=x", ["x"]),
        ("presence=x; presence=y", ["x", "y"]),
        ("presence=x; presence=x", ["x"]),
        ("presence=; presence=y", ["y"]),
        ('presence="x"; a=1;presence = y', ["x"]),
        ("xpresence=a; presence=b", ["b"]),
        ("a=presence=b", []),
        ("a=1;presence=b;c=2", ["b"]),
        ("  presence=b", ["b"]),
        ("a=1 presence=b", []),
        ("presence=b=c", ["b=c"]),
        ("presence", []),
        ("", []),
    ],
)
def test_every_cookie_of_a_name_is_read(header: str, values: list[str]) -> None:
    assert read_cookies(header, "presence") == values
    assert read_cookie(header, "presence") == (values[0] if values else None)


def test_copies_of_a_cookie_are_deleted_where_a_browser_may_have_them() -> None:
    options: dict[str, Any] = {"name": "presence", "secure": True, "same_site": "lax", "domain": None}

    def places(host: str, url_path: str, **other: Any) -> set[tuple[str, str]]:
        headers = clear_copies_headers(**(options | other), host=host, url_path=url_path)
        assert len(headers) <= 9
        morsels = [SimpleCookie(header)[other.get("name", "presence")] for header in headers]
        assert all((morsel.value, morsel["max-age"]) == ("", "0") for morsel in morsels)
        return {(morsel["domain"], morsel["path"]) for morsel in morsels}

    assert places("shop.example", "/") == {("", "/"), ("shop.example", "/")}
    assert places("localhost:8000", "/a") == {("", "/"), ("", "/a")}
    assert places("127.0.0.1", "/") == places("[2001:db8::9]:443", "/") == places("", "/") == {("", "/")}
    assert ("shop.example", "/a/b") in places("www.shop.example:443", "/a/b/c/d")
    assert (".shop.example", "/") in places("a.b.shop.example", "/", domain=".shop.example")
    assert places("shop.example", "/a", name="__Host-s") == {("", "/")}
    assert places("x y", "/a b;c/d") == {("", "/")}


@on("valkey-sync")
def test_the_settings_of_the_rules_hold_for_the_cookies_that_are_deleted(p: P, make: Make) -> None:
    tokens = tokens_of(p)
    site = make(secure=False, same_site="strict", domain="shop.example")
    refused = site.ask(**headers_of("presence=<kicked>; presence=<live>", "", tokens))
    assert set_cookies(refused)[-1] == (
        f"presence={tokens['<live>']}; Path=/; Domain=shop.example; HttpOnly; SameSite=Strict"
    )
    assert "presence=; Path=/; Max-Age=0; Domain=shop.example; HttpOnly; SameSite=Strict" in set_cookies(refused)
