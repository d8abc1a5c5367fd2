"""The middleware: which requests pass, for ASGI and WSGI alike, in every mode, with Redis up and down."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from presence_core import InvalidArgument, Login, Presence, Session, Settings, Unavailable
from presence_core.drive_generators import drive
from presence_core.web import asgi, wsgi
from presence_core.web.cookies import clear_cookie_header, read_cookie, set_cookie_header
from presence_core.web.middleware.breaker import Breaker
from presence_core.web.middleware.request_check import RequestChecker
from presence_core.web.middleware.request_data import RequestData, read_environ
from presence_core.web.proxies import Proxies
from presence_core.web.rules import Rules, Visitor, hashed_id, longest_prefix
from tests.conftest import Bed, on
from tests.support.facade import EventLoop, P
from tests.support.fair_clock import PATIENT, ends
from tests.support.monitor import Monitor
from tests.support.servers import KEEPS_ALL, Server, missing, redis_binary, valkey_binary, wait_for
from tests.web.frameworks.conftest import Make
from tests.web.frameworks.sites import Answer, Site, asgi_site, wsgi_site

_FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0"
_CURL = "curl/8.7.1"


def brought(how: str, token: str) -> dict[str, str]:
    return {"cookie": f"a=1; presence={token}"} if how == "cookie" else {"authorization": f"Bearer {token}"}


# -- the table: mode × how the token comes × what it is ----------------------------------------------------------------

PASSES = {
    # (mode, state): whether the site receives the request
    ("observe", "live"): True, ("observe", "ended"): True, ("observe", "unknown"): True, ("observe", "none"): True,
    ("adopt", "live"): True, ("adopt", "ended"): False, ("adopt", "unknown"): True, ("adopt", "none"): True,
    ("enforce", "live"): True, ("enforce", "ended"): False, ("enforce", "unknown"): False, ("enforce", "none"): False,
}  # fmt: skip


@on("valkey-sync")
@pytest.mark.parametrize(("mode", "state"), PASSES, ids="-".join)
@pytest.mark.parametrize("how", ["cookie", "bearer"])
def test_which_requests_pass_in_which_mode(p: P, make: Make, mode: str, state: str, how: str) -> None:
    token = p.login("ada", session_id="session-1").token
    headers = brought(how, token)
    if state == "ended":
        p.kick("ada", by="sam", reason="stolen phone", message="Please call us.")
    elif state == "unknown":
        headers = brought(how, token[:-43] + "A" * 43)
    elif state == "none":
        headers = {"cookie": "other=1", "authorization": "Basic YTpi"}
    site = make(mode=mode)
    answer = site.ask("/x", **headers)
    passes = PASSES[mode, state]
    assert answer.status == (200 if passes else 401)
    assert len(site.seen) == (1 if passes else 0)
    assert site.checker.tally == {"anonymous" if state == "none" else state: 1}
    if passes:
        assert answer.body == (b"ada" if state == "live" else b"nobody")
        assert (site.seen[0].ended is not None) == (state == "ended")
    else:
        assert answer.header("content-type") == "application/problem+json"
        assert str(answer.header("www-authenticate")).startswith("Bearer")
        assert answer.header("cache-control") == "no-store"
        assert answer.json["status"] == 401
        assert answer.json["code"] == {"ended": "kicked", "unknown": "unknown", "none": "missing"}[state]
        assert answer.json.get("message") == ("Please call us." if state == "ended" else None)
        assert b"sam" not in answer.body
        assert b"stolen" not in answer.body


@on("valkey-sync")
def test_a_kick_takes_effect_at_the_next_request(p: P, make: Make) -> None:
    token = p.login("ada", session_id="session-1").token
    site = make()
    for _ in range(3):
        assert site.ask(**brought("cookie", token)).status == 200
    p.kick("ada", by="staff", reason="test")
    assert site.ask(**brought("cookie", token)).status == 401


@on("valkey-sync")
def test_public_paths_refuse_no_request_and_others_do(p: P, make: Make) -> None:
    token = p.login("ada", session_id="session-1").token
    p.kick("ada", by="staff", reason="test", message="Bye.")
    site = make(public=("/sign-in", "/static/", "/"))
    for path in ("/sign-in", "/sign-in/", "/sign-in/help", "/static/x.css", "/"):
        assert site.ask(path, **brought("cookie", token)).status == 200, path
    assert site.seen[0].ended.public.message == "Bye."
    for path in ("/sign-inn", "/x", "/static/../account", "/sign-in//x", "/sign-in/.."):
        assert site.ask(path).status == 401, path


@on("valkey-sync")
@pytest.mark.parametrize("mode", ["enforce", "observe", "adopt"])
def test_a_session_that_must_sign_in_again_is_refused_with_the_message_of_staff(p: P, make: Make, mode: str) -> None:
    token = p.login("ada", session_id="session-1").token
    site = make(mode=mode, public=("/sign-in",), on_unavailable="grace")
    assert site.ask(**brought("cookie", token)).body == b"ada"
    p.require_sign_in("ada", by="sam", reason="odd login", message="Please confirm that it is you.")
    public = site.ask("/sign-in", **brought("cookie", token))
    assert public.body == b"nobody"
    assert (site.seen[-1].state, site.seen[-1].known.uid) == ("sign_in_required", "ada")
    refused = site.ask(**brought("cookie", token))
    if mode == "observe":
        assert refused.body == b"nobody"
        return
    assert (refused.status, refused.json) == (401, {
        "type": "urn:presence:sign-in-required", "title": "Please sign in again.", "status": 401,
        "code": "sign_in_required", "message": "Please confirm that it is you.",
    })  # fmt: skip
    assert refused.header("www-authenticate") == 'Bearer error="insufficient_user_authentication"'
    fresh = p.reauthenticated(token).token
    assert site.ask(**brought("cookie", fresh)).body == b"ada"


def a_minute_ago(p: P) -> str:
    """The token of a visitor who authenticated a minute ago."""
    row = {"uid": "ada", "session_id": "session-1", "login_at": time.time() - 61, "last_seen": time.time()}
    [login] = p.login_many([row], imported=True)
    assert isinstance(login, Login)
    return login.token


@on("valkey-sync")
def test_a_fresh_path_refuses_an_older_authentication_and_no_other_path_does(p: P, make: Make) -> None:
    token = a_minute_ago(p)
    site = make(fresh={"/pay": 3000, "/pay/big": 60}, public=("/pay",), anonymous="pass")
    for path in ("/", "/pay", "/payment", "/pay/small"):
        assert site.ask(path, **brought("bearer", token)).status == 200, path
    for path in ("/pay/big", "/pay/big/x", "//pay/big", "/x/../pay/big", "/pay/./big", "//", "/x\\y"):
        refused = site.ask(path, **brought("bearer", token))
        assert (refused.status, refused.json) == (401, {
            "type": "urn:presence:authentication-too-old", "title": "Please sign in again to do this.", "status": 401,
            "code": "authentication_too_old", "max_age": 60,
        }), path  # fmt: skip
        challenge = 'Bearer error="insufficient_user_authentication", max_age="60"'
        assert refused.header("www-authenticate") == challenge
    assert site.ask("/pay/big").status == 200, "without a session the other rules decide"
    assert site.checker.tally["authentication_too_old"] == 7


@on("valkey-sync")
def test_anonymous_visitors_may_pass_if_the_site_allows_it(p: P, make: Make) -> None:
    site = make(anonymous="pass")
    assert site.ask().body == b"nobody"
    assert site.ask(authorization="Bearer junk").status == 401


@on("valkey-sync")
def test_a_bearer_token_takes_precedence_over_the_cookie_and_can_be_disabled(p: P, make: Make) -> None:
    ada, eve = p.login("ada").token, p.login("eve").token
    both = brought("cookie", ada) | brought("bearer", eve)
    assert make().ask(**both).body == b"eve"
    assert make(bearer=False).ask(**both).body == b"ada"
    assert make(cookie=None).ask(**brought("cookie", ada)).status == 401
    assert make(cookie="__Host-sid").ask(cookie=f"__Host-sid={ada}").body == b"ada"


@on("valkey-sync")
def test_a_cors_preflight_passes_without_a_session(p: P, make: Make) -> None:
    """A browser sends it without cookies: refused, it would prevent the request itself."""
    site = make()
    preflight = {"origin": "https://shop.example", "access_control_request_method": "POST"}
    assert site.ask(method="OPTIONS", **preflight).status == 200
    assert site.seen[0].session is None
    assert site.checker.tally == {"preflight": 1}
    assert site.ask(method="POST", **preflight).status == 401
    assert site.ask(method="OPTIONS", origin="https://shop.example").status == 401
    assert site.ask(method="OPTIONS", access_control_request_method="POST").status == 401
    token = p.login("ada").token
    p.kick("ada", by="staff", reason="test")
    for how in ("cookie", "bearer"):
        assert site.ask(method="OPTIONS", **preflight, **brought(how, token)).status == 401, "no browser sends that"


# -- adopting ----------------------------------------------------------------------------------------------------------


@on("valkey-sync")
def test_a_signed_in_user_is_adopted_once_and_kept_by_the_cookie(p: P, make: Make) -> None:
    site = make(mode="adopt", user=lambda: "ada")
    first = site.ask(user_agent="Firefox")
    cookie = str(first.header("set-cookie"))
    assert cookie.endswith("; Path=/; HttpOnly; Secure; SameSite=Lax")
    assert first.body == b"ada"
    assert "token" not in repr(site.seen[0]).replace("old_token=False", "")
    second = site.ask(cookie=cookie.partition(";")[0])
    assert second.body == b"ada"
    assert second.header("set-cookie") is None
    [session] = p.sessions("ada")
    assert (session.ip, session.user_agent) == ("192.0.2.1", "Firefox")
    p.kick("ada", by="staff", reason="test")
    assert site.ask(cookie=cookie.partition(";")[0]).status == 401


@on("valkey-sync")
def test_a_user_adopted_by_the_sites_own_session_stays_kicked_without_a_cookie(p: P, make: Make) -> None:
    visitor = Visitor("ada", hashed_id("the site's secret key"), {"name": "Ada", "device": "Mac"})
    site = make(mode="adopt", user=lambda: visitor, cookie=None)
    for _ in range(3):
        assert site.ask().body == b"ada"
    [session] = p.sessions("ada")
    assert (session.session_id, session.name) == (visitor.session_id, "Ada")
    p.kick("ada", by="staff", reason="test")
    assert site.ask().status == 401
    assert p.sessions("ada") == []


@on("valkey-sync")
def test_an_adopted_session_has_the_timeouts_and_the_limit_of_its_visitor(p: P, make: Make) -> None:
    older = p.login("ada").session
    kind = {"idle_timeout": 600, "max_sessions": 1}
    visitor = Visitor("ada", hashed_id("the site's secret key"), kind)
    assert make(mode="adopt", user=lambda: visitor, cookie=None).ask().body == b"ada"
    [session] = p.sessions("ada")
    assert (session.session_id, session.idle_timeout) == (visitor.session_id, 600)
    assert [ended.session_id for ended in p.ended("ada")] == [older.session_id]


@on("valkey-sync")
def test_a_blocked_user_is_not_adopted_and_sees_the_reason(p: P, make: Make) -> None:
    p.block("ada", by="sam", reason="fraud", message="Please call us.")
    answer = make(mode="adopt", user=lambda: "ada").ask()
    assert (answer.status, answer.json["code"]) == (403, "blocked")
    assert answer.json["message"] == answer.json["detail"]
    assert answer.json["detail"] == "Please call us. Signing in is blocked until our staff unblock it."
    assert answer.json["block"] == {"message": "Please call us.", "until": None}


@on("valkey-sync")
def test_who_runs_a_blocked_version_is_not_adopted_and_reads_why(p: P, make: Make) -> None:
    p.add_block_rule(app="web", app_version="1", by="sam", reason="broken", message="Please reload.", expected=0)
    visitor = Visitor("ada", hashed_id("the site's secret key"), {"app": "web", "app_version": "1"})
    answer = make(mode="adopt", user=lambda: visitor, cookie=None).ask()
    assert (answer.status, answer.json["code"]) == (403, "block_rule")
    assert answer.json["message"] == answer.json["detail"] == "Please reload."
    assert answer.json["block"] == {"message": "Please reload.", "until": None}


@on("valkey-sync")
def test_a_kicked_and_blocked_user_sees_the_end_of_the_block(p: P, make: Make) -> None:
    headers = brought("cookie", p.login("ada").token)
    block = p.kick("ada", by="sam", reason="fraud", message="Please call us", block_for=3600).block
    assert block is not None
    assert block.until is not None
    answer = make().ask("/x", **headers)
    assert (answer.status, answer.json["code"], answer.json["message"]) == (401, "kicked", "Please call us")
    assert answer.json["block"] == {"message": "Please call us", "until": block.until.isoformat()}
    assert answer.json["detail"].startswith("Please call us. Signing in is blocked until 2")
    assert answer.json["detail"].endswith(" UTC.")
    assert b"sam" not in answer.body


@on("valkey-sync")
def test_in_enforce_mode_a_signed_in_user_without_a_session_is_refused(p: P, make: Make) -> None:
    site = make(user=lambda: "ada", anonymous="pass")
    assert site.ask().status == 401
    other = p.login("eve").token
    assert site.ask(**brought("cookie", other)).status == 401, "the site says ada, the session is eve's"
    assert site.ask(**brought("cookie", p.login("ada").token)).body == b"ada"


@on("valkey-sync")
def test_another_users_ended_session_does_not_affect_the_signed_in_user(p: P, make: Make) -> None:
    old = p.login("eve").token
    p.kick("eve", by="staff", reason="test")
    answer = make(mode="adopt", user=lambda: "ada").ask(**brought("cookie", old))
    assert answer.body == b"ada"
    assert answer.header("set-cookie")


@on("valkey-sync")
def test_an_error_in_observe_mode_breaks_no_request(p: P, make: Make, caplog: pytest.LogCaptureFixture) -> None:
    def mistake() -> str:
        raise KeyError("user")

    assert make(mode="observe", user=mistake).ask().status == 200
    assert "could not check a request" in caplog.text
    with pytest.raises(KeyError):
        make(mode="adopt", user=mistake).ask()


@on("valkey-sync")
def test_adopting_without_cookie_or_session_id_is_refused_in_one_sentence(p: P, make: Make) -> None:
    with pytest.raises(InvalidArgument, match=r"^user_of must name a session_id .*\.$"):
        make(mode="adopt", user=lambda: "ada", cookie=None).ask()


# -- heartbeats --------------------------------------------------------------------------------------------------------


@on("valkey-sync")
def test_a_busy_session_sends_one_heartbeat_per_interval(p: P, bed: Bed, make: Make) -> None:
    token = p.login("ada", session_id="session-1").token
    site = make(heartbeat=10)
    site.checker.buffer._interval = 0.01
    now = [100.0]
    site.checker.known.clock = lambda: now[0]
    site.ask(**brought("cookie", token))

    def notes(count: int, **more: Any) -> int:
        with Monitor(bed.raw) as monitor:
            for _ in range(count):
                assert site.ask(**brought("cookie", token), **more).status == 200
            while site.checker.buffer.waiting:
                time.sleep(0.01)
            time.sleep(0.05)
        return len([line for line in monitor.lines if line.words[0].upper().startswith(b"EVALSHA")])

    assert notes(20) == 20, "each asks, none writes"
    now[0] += 11
    assert notes(20) == 21, "one more: the buffer's"
    now[0] += 11
    before = p.sessions("ada")[0].last_ip
    assert notes(5, peer="192.0.2.77") == 5, "a new address travels with the question"
    assert (before, p.sessions("ada")[0].last_ip) == ("192.0.2.1", "192.0.2.77")
    assert notes(5, peer="192.0.2.78") == 5
    assert p.sessions("ada")[0].last_ip == "192.0.2.77", "not before its turn"


@on("valkey-sync")
def test_a_short_idle_timeout_shortens_the_heartbeat_interval(p: P, make: Make) -> None:
    token = p.login("ada", session_id="session-1", idle_timeout=6).token
    before = p.sessions("ada")[0].last_seen
    site = make(heartbeat=600)
    with ends(within=20):
        while p.sessions("ada")[0].last_seen == before:
            assert site.ask(**brought("cookie", token)).status == 200
            time.sleep(0.1)


@on("valkey-sync")
def test_the_number_of_remembered_sessions_is_limited(p: P, make: Make) -> None:
    site = make(max_known=100)
    for login in p.login_many({"uid": f"u{number}"} for number in range(150)):
        site.ask(**brought("bearer", login.token))  # type: ignore[union-attr]
    assert len(site.checker.known) == 100
    for number in range(50):
        site.ask(authorization=f"Bearer junk{number}")
    assert len(site.checker.known) <= 100


# -- addresses ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("192.0.2.1", "203.0.113.9", "192.0.2.1"),  # not one of ours: its header is ignored
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "203.0.113.9", "203.0.113.9"),
        ("10.0.0.1", "1.1.1.1, 203.0.113.9, 10.0.0.7", "203.0.113.9"),
        ("10.0.0.1", "1.1.1.1, nonsense, 10.0.0.7", None),
        ("10.0.0.1", "10.0.0.3,10.0.0.2", "10.0.0.3"),
        ("10.0.0.1", "203.0.113.9:4711", "203.0.113.9"),
        ("10.0.0.1", "[2001:db8::1]:443", "2001:db8::1"),
        ("::ffff:10.0.0.1", "::ffff:203.0.113.9", "203.0.113.9"),
        ("fe80::1%eth0", "203.0.113.9", "fe80::1"),
        ("testclient", "203.0.113.9", None),
        (None, "203.0.113.9", "203.0.113.9"),
        (None, "", None),
    ],
)
def test_only_trusted_proxies_are_believed(peer: str | None, forwarded: str, address: str | None) -> None:
    assert Proxies(["10.0.0.0/8", "unix"]).client(peer, forwarded) == address
    if peer is None:
        assert Proxies(["10.0.0.0/8"]).client(peer, forwarded) is None


@on("valkey-sync")
@pytest.mark.parametrize(
    ("peer", "ip"), [("192.0.2.1", "192.0.2.1"), ("", None), ("testclient", None), ("unix:", None)]
)
def test_the_site_reads_the_visitors_address_from_the_verdict(p: P, make: Make, peer: str, ip: str | None) -> None:
    site = make(anonymous="pass")
    assert site.ask(peer=peer).status == 200
    assert site.seen[0].ip == ip
    login = p.login("ada", ip=site.seen[0].ip)
    assert site.ask(peer=peer, **brought("cookie", login.token)).body == b"ada"
    assert p.sessions("ada")[0].last_ip == ip


@on("valkey-sync")
def test_the_address_of_the_visitor_is_recorded(p: P, make: Make) -> None:
    token = p.login("ada", session_id="session-1").token
    make(trusted_proxies=("10.0.0.0/8",)).ask(
        peer="10.0.0.1", x_forwarded_for="6.6.6.6, 203.0.113.9", **brought("cookie", token)
    )
    assert p.sessions("ada")[0].last_ip == "203.0.113.9"


# -- Redis is away -----------------------------------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with Server.start(binary, tmp_path, *KEEPS_ALL, port=True) as running:
        yield running


@pytest.fixture
def away(kind: str, server: Server, loop: EventLoop) -> Iterator[Callable[..., Site]]:
    made: list[Site] = []

    def make_one(timeout: float = PATIENT, **rules: Any) -> Site:
        settings = Settings(timeout=timeout)
        if kind == "wsgi":
            made.append(wsgi_site(server.url, settings, Rules(**rules), None))
        else:
            made.append(asgi_site(server.url, settings, Rules(**rules), None, loop, use_threads=kind == "asgi-threads"))
        return made[-1]

    yield make_one
    for site in made:
        site.close()


def test_a_fresh_path_is_refused_while_redis_is_down(server: Server, away: Callable[..., Site]) -> None:
    with Presence.from_url(server.url, Settings(timeout=PATIENT)) as presence:
        headers = brought("cookie", presence.login("ada").token)
    site = away(fresh={"/pay": 300}, public=("/pay",), on_unavailable="open", routes={"/pay/grace": "grace"})
    for path in ("/", "/pay", "/pay/grace"):
        assert site.ask(path, **headers).status == 200
    server.kill()
    assert site.ask("/", **headers).body == b"ada"
    for path in ("/pay", "/pay/grace", "//pay"):
        assert (site.ask(path, **headers).status, path) == (503, path)


def test_each_route_decides_what_happens_while_redis_is_down(server: Server, away: Callable[..., Site]) -> None:
    with Presence.from_url(server.url, Settings(timeout=PATIENT)) as presence:
        known, stranger = presence.login("ada").token, presence.login("eve").token
    routes = {"/feed": "open", "/read": "grace", "/read/money": "closed"}
    site = away(routes=routes, grace=30, public=("/sign-in",), breaker_seconds=0.2, max_known=100)
    watching = away(mode="observe")
    now = [100.0]
    site.checker.known.clock = lambda: now[0]
    assert site.ask(**brought("cookie", known)).status == 200
    server.kill()

    def ask(path: str, token: str) -> Answer:
        return site.ask(path, **brought("cookie", token))

    closed = ask("/", known)
    assert (closed.status, closed.json["code"]) == (503, "unavailable")
    assert closed.header("retry-after")
    assert str(server.port) not in closed.body.decode()
    assert ask("/read/money/1", known).status == 503
    assert ask("/read/page", known).body == b"ada"
    assert ask("/read/page", stranger).status == 503
    assert ask("/feed", known).body == b"ada"
    assert ask("/feed", stranger).body == b"nobody"
    for number in range(110):
        assert ask("/read", f"junk{number}").status == 503
    assert ask("/read/page", known).body == b"ada", "invalid tokens displace no valid one"
    assert ask("/sign-in", stranger).body == b"nobody"
    assert site.ask("/feed").status == 401, "who brings nothing needs no Redis to be refused"
    assert watching.ask(**brought("cookie", known)).body == b"nobody"
    now[0] += 31
    assert ask("/read/page", known).status == 503, "grace has ended"
    server.restart()
    wait_for("the breaker to close", lambda: ask("/", known).status == 200)
    assert ask("/", stranger).status == 200


def is_away(_: Any) -> Any:
    raise Unavailable("Redis is away.")


@pytest.mark.parametrize("choice", ["grace", "open"])
def test_a_public_session_id_is_no_token_while_redis_is_down(server: Server, choice: Any) -> None:
    with Presence.from_url(server.url, Settings(timeout=PATIENT)) as presence:
        session = presence.login("ada", session_id=hashed_id("the site's key")).session
        checker = RequestChecker(presence, Rules(on_unavailable=choice))
        visitor, no_one = (lambda: Visitor("ada", session.session_id)), (lambda: None)
        own = RequestData(path="/")
        assert drive(checker.check(own, visitor), lambda call: call(presence)).session
        for forged in (
            RequestData(path="/", authorization=f"Bearer {session.ref}"),
            RequestData(path="/", cookie=f"presence={session.ref}"),
        ):
            assert drive(checker.check(forged, no_one), is_away).session is None
            assert not drive(checker.check(forged, no_one), lambda call: call(presence)).passes
            assert drive(checker.check(own, visitor), is_away).session, "no stranger takes the grace away"


def test_a_token_of_another_user_than_the_site_has_signed_in_is_worth_nothing_while_redis_is_down(
    server: Server,
) -> None:
    with Presence.from_url(server.url, Settings(timeout=PATIENT)) as presence:
        checker = RequestChecker(presence, Rules(on_unavailable="grace"))
        request = RequestData(path="/", cookie=f"presence={presence.login('bob').token}")
        assert drive(checker.check(request, lambda: "bob"), lambda call: call(presence)).session
        assert drive(checker.check(request, lambda: "bob"), is_away).passes
        verdict = drive(checker.check(request, lambda: "ada"), is_away)
    assert (verdict.passes, verdict.session) == (False, None)


@pytest.mark.parametrize("path", ["/pay", "/pay/x", "//pay", "/pay//x", "/./pay", "/x/../pay", "/pay/.", "\\pay"])
def test_the_strictest_rule_holds_for_an_ambiguous_path_while_redis_is_down(server: Server, path: str) -> None:
    with Presence.from_url(server.url, Settings(timeout=PATIENT)) as presence:
        checker = RequestChecker(presence, Rules(on_unavailable="open", routes={"/pay": "closed"}))
        cookie = f"presence={presence.login('ada').token}"
        assert drive(checker.check(RequestData(path="/", cookie=cookie)), is_away).passes
        assert not drive(checker.check(RequestData(path=path, cookie=cookie)), is_away).passes


def test_an_open_route_has_no_session_of_long_ago_while_redis_is_down(server: Server) -> None:
    now = [100.0]
    with Presence.from_url(server.url, Settings(timeout=PATIENT)) as presence:
        checker = RequestChecker(presence, Rules(on_unavailable="open", grace=30))
        checker.known.clock = lambda: now[0]
        request = RequestData(path="/", cookie=f"presence={presence.login('ada').token}")
        assert drive(checker.check(request), lambda call: call(presence)).session
        assert drive(checker.check(request), is_away).session, "within the grace"
        now[0] += 31
        verdict = drive(checker.check(request), is_away)
    assert (verdict.passes, verdict.state, verdict.session) == (True, "open", None)


def test_threads_do_not_pile_up_while_redis_hangs(server: Server, away: Callable[..., Site]) -> None:
    with Presence.from_url(server.url, Settings(timeout=PATIENT)) as presence:
        token = presence.login("ada").token
    site = away(timeout=0.5, breaker_failures=2, breaker_seconds=0.3)
    wait_for("a first answer within its 0.5 s", lambda: site.ask(**brought("cookie", token)).status == 200)
    server.pause()
    try:
        with (
            ends(within=4),
            ThreadPoolExecutor(4) as threads,
        ):  # 60 that wait 0.5 s each, four at a time, would take 7.5 s
            statuses = [
                response.status for response in threads.map(lambda _: site.ask(**brought("cookie", token)), range(60))
            ]
    finally:
        server.resume()
    assert set(statuses) == {503}
    wait_for("the breaker to close", lambda: site.ask(**brought("cookie", token)).status == 200)


def test_an_open_breaker_lets_one_request_through_as_a_probe() -> None:
    now = [0.0]
    breaker = Breaker(3, 5.0, clock=lambda: now[0])
    for _ in range(2):
        assert breaker.enter()
        breaker.failed()
    breaker.succeeded()  # not in a row
    for _ in range(3):
        assert breaker.enter()
        breaker.failed()
    assert breaker.is_open
    assert not breaker.enter()
    now[0] = 5.0
    assert [breaker.enter() for _ in range(5)] == [True, False, False, False, False]
    breaker.failed()
    now[0] = 9.9
    assert not breaker.enter()
    now[0] = 10.0
    assert breaker.enter()
    breaker.abandoned()  # its request was cancelled
    assert breaker.enter()
    now[0] = 21.0
    assert breaker.enter(), "a probe that is never heard of again gives way"
    breaker.succeeded()
    assert all(breaker.enter() for _ in range(10))


def test_a_cancelled_probe_is_replaced_by_the_next_request(server: Server, loop: EventLoop) -> None:
    site = asgi_site(server.url, Settings(timeout=5), Rules(breaker_failures=1, breaker_seconds=0.1), None, loop)
    site.checker.breaker.failed()
    time.sleep(0.15)
    calls = site.checker.check(read_environ({"HTTP_AUTHORIZATION": "Bearer x"}))
    next(calls)
    assert not site.checker.breaker.enter()
    calls.close()  # as the driver does when its task is cancelled
    assert site.checker.breaker.enter()
    site.close()


# -- websockets and hooks ----------------------------------------------------------------------------------------------


async def _socket(site: Any, **headers: str) -> list[dict[str, Any]]:
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "websocket", "path": "/ws", "headers": raw, "client": ("192.0.2.1", 1)}
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await site(scope, receive, send)
    return sent


@on("valkey-sync")
def test_a_websocket_of_an_ended_session_is_closed_with_4401_and_the_reason(p: P, bed: Bed) -> None:
    token = p.login("ada").token

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "websocket.accept", "who": scope["presence.session"].uid})

    async def ask() -> list[dict[str, Any]]:
        site = asgi.PresenceMiddleware(app, p)
        answer = await _socket(site, cookie=f"presence={token}")
        await site.aclose()
        return answer

    assert asyncio.run(ask()) == [{"type": "websocket.accept", "who": "ada"}]
    p.kick("ada", by="staff", reason="test")
    refused = [{"type": "websocket.accept"}, {"type": "websocket.close", "code": 4401, "reason": "kicked"}]
    assert asyncio.run(ask()) == refused


@on("valkey-sync")
def test_a_site_may_answer_ended_sessions_in_its_own_way(p: P) -> None:
    token = p.login("ada").token
    p.kick("ada", by="staff", reason="test", message="Bye.")

    def app(environ: Any, start_response: Any) -> list[bytes]:
        raise AssertionError("not to be reached")

    def on_ended(environ: Any, ended: Any) -> Any:
        def redirect(environ: Any, start_response: Any) -> list[bytes]:
            why = ended.public.message if ended else "?"
            start_response("303 See Other", [("Location", f"/sign-in?why={why}")])
            return []

        return redirect

    started: list[Any] = []
    site = wsgi.PresenceMiddleware(app, p, on_ended=on_ended)
    demanded = p.login("ada").token
    p.require_sign_in("ada", by="staff", reason="test")
    for environ in ({"HTTP_COOKIE": f"presence={token}"}, {}, {"HTTP_COOKIE": f"presence={demanded}"}):
        site({"PATH_INFO": "/x", **environ}, lambda *start: started.append(start))
    places = [dict(headers)["Location"] for _, headers in started]
    assert places == ["/sign-in?why=Bye.", "/sign-in?why=?", "/sign-in?why=?"]

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 303, "headers": []})

    async def on_ended_async(scope: Any, ended: Any) -> Any:
        assert ended.public.code == "kicked"
        return answer

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def nothing(*_: Any) -> None:
        raise AssertionError("not to be reached")

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"cookie", f"presence={token}".encode())]}
    asyncio.run(asgi.PresenceMiddleware(nothing, p, on_ended=on_ended_async)(scope, nothing, send))  # type: ignore[arg-type]
    assert sent == [{"type": "http.response.start", "status": 303, "headers": []}]


class _Lazy:
    """A WSGI application of PEP 3333 that runs when its body is read, and notes what is called."""

    def __init__(self, p: P, items: list[bytes], uid: str = "eve") -> None:
        self.p, self.items, self.uid = p, items, uid
        self.calls: list[str] = []

    def __call__(self, environ: Any, start_response: Any) -> _Lazy:
        self.start_response = start_response
        return self

    def __iter__(self) -> Iterator[bytes]:
        self.p.login(self.uid)
        self.start_response("200 OK", [])
        for item in self.items:
            self.calls.append(f"read {item.decode()}")
            yield item

    def close(self) -> None:
        self.calls.append("close")


@on("valkey-sync")
def test_a_wsgi_application_that_runs_when_it_is_read_may_refuse_a_login(p: P) -> None:
    p.block("eve", by="staff", reason="test", message="Call us.")

    def generator(environ: Any, start_response: Any) -> Iterator[bytes]:
        p.login("eve")
        start_response("200 OK", [])
        yield b"never"

    lazy = _Lazy(p, [b"never"])
    for app in (generator, lazy):
        started: list[Any] = []
        site = wsgi.PresenceMiddleware(app, p, rules=Rules(anonymous="pass"))
        body = b"".join(site({"PATH_INFO": "/"}, lambda *start, started=started: started.append(start)))
        assert [start[0] for start in started] == ["403 Forbidden"]
        assert json.loads(body)["block"]["message"] == "Call us."
    assert lazy.calls == ["close"]


@on("valkey-sync")
def test_a_wsgi_application_that_runs_when_it_is_read_is_streamed_and_closed(p: P) -> None:
    for items in ([], [b"a"], [b"a", b"b", b"c"]):
        started: list[Any] = []
        app = _Lazy(p, items)
        body: Any = wsgi.PresenceMiddleware(app, p, rules=Rules(anonymous="pass"))(
            {"PATH_INFO": "/"}, lambda *start, started=started: started.append(start)
        )
        assert [start[0] for start in started] == ["200 OK"]
        assert app.calls == [f"read {item.decode()}" for item in items[:1]]
        assert list(body) == items
        body.close()
        assert app.calls == [*(f"read {item.decode()}" for item in items), "close"]

    def eager(environ: Any, start_response: Any) -> Any:
        start_response("200 OK", [])
        return file

    file = iter([b"a"])  # such as one of wsgi.file_wrapper, which a server recognises
    site = wsgi.PresenceMiddleware(eager, p, rules=Rules(anonymous="pass"))
    assert site({"PATH_INFO": "/"}, lambda *_: None) is file


def test_at_shutdown_the_heartbeats_are_sent_before_the_site_closes_its_presence(server: Server) -> None:
    messages: list[str] = []

    async def site() -> None:
        from presence_core import AsyncPresence

        async with AsyncPresence.from_url(server.url, Settings(timeout=PATIENT)) as presence:
            login = await presence.login("ada", session_id="session-1")

            async def app(scope: Any, receive: Any, send: Any) -> None:
                messages.append((await receive())["type"])
                assert middleware.checker.buffer.waiting == 0

            middleware = asgi.PresenceMiddleware(app, presence)
            middleware.checker.buffer.beat("ada", login.session.session_id)

            async def receive() -> dict[str, Any]:
                return {"type": "lifespan.shutdown"}

            await middleware({"type": "lifespan"}, receive, receive)  # type: ignore[arg-type]

    asyncio.run(site())
    assert messages == ["lifespan.shutdown"]


# -- settings and cookies ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "sentence"),
    [
        ({"mode": "on"}, 'mode must be "observe" or "adopt" or "enforce".'),
        ({"anonymous": "yes"}, 'anonymous must be "refuse" or "pass".'),
        ({"on_unavailable": "fail"}, 'on_unavailable must be "closed" or "grace" or "open".'),
        ({"routes": {"/x": "shut"}}, 'routes must be "closed" or "grace" or "open".'),
        ({"routes": {"x": "open"}}, "routes must hold paths that begin with /."),
        ({"routes": ["/x"]}, "routes must be a dict of paths."),
        ({"public": "/x"}, "public must hold paths that begin with /."),
        ({"fresh": {"x": 300}}, "fresh must hold paths that begin with /."),
        ({"fresh": ["/x"]}, "fresh must be a dict of paths."),
        ({"fresh": {"/x": 0}}, "fresh must be whole seconds from 1 to 315360000 (10 years)."),
        ({"fresh": {"/x": 300}, "mode": "adopt"},
         'fresh must be empty in mode "adopt", which does not know when visitors signed in.'),
        ({"grace": 0}, "grace must be 1 to 3600 seconds."),
        ({"heartbeat": "5"}, "heartbeat must be 1 to 3600 seconds."),
        ({"breaker_failures": 0}, "breaker_failures must be a whole number from 1 to 1000."),
        ({"breaker_seconds": float("nan")}, "breaker_seconds must be 0.1 to 300 seconds."),
        ({"cookie": "a b"}, "cookie must be 1 to 128 characters that a cookie name may hold."),
        ({"cookie": "__Host-x", "secure": False}, "cookie with __Host- needs secure=True, path / and no domain."),
        ({"same_site": "none", "secure": False}, 'same_site "none" needs secure=True.'),
        ({"trusted_proxies": "10.0.0.0/8"}, 'trusted_proxies must be a list of addresses or networks such as '
         '"10.0.0.0/8", or "unix".'),
        ({"trusted_proxies": ["10.0.0.1/8"]}, 'trusted_proxies must be a list of addresses or networks such as '
         '"10.0.0.0/8", or "unix".'),
        ({"on_move": "flag"}, "on_move must be a function that takes a session."),
        ({"on_move": asyncio.sleep}, "on_move must be a plain function: async functions are not awaited."),
        ({"max_known": 1}, "max_known must be a whole number from 100 to 1000000."),
    ],
)  # fmt: skip
def test_bad_rules_are_refused_in_one_sentence_when_they_are_made(rules: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Rules(**rules)
    assert str(caught.value) == sentence


@on("valkey-sync")
@pytest.mark.parametrize("cookies", [1, 2])
def test_the_site_s_function_gets_a_session_that_has_moved_and_its_error_keeps_no_visitor_out(
    p: P, make: Make, caplog: pytest.LogCaptureFixture, cookies: int
) -> None:
    token = p.login("ada", ip="192.0.2.7", user_agent=_FIREFOX).token
    sent = "; ".join([f"presence={token}", f"presence={token[:-43]}{'A' * 43}"][:cookies])
    moved: list[Session] = []

    def on_move(session: Session) -> None:
        moved.append(session)
        raise ValueError("of the site")

    for peer, agent in (("192.0.2.7", _CURL), ("198.51.100.7", _FIREFOX), ("203.0.113.7", _CURL)):
        site = make(on_move=on_move)  # another process: it notices a new address at once
        assert site.ask("/x", peer=peer, cookie=sent, user_agent=agent).body == b"ada"
    [session] = moved
    assert session.move is not None
    assert (session.move.before.browser, session.move.after.browser) == ("Firefox", "curl")
    assert [record.message for record in caplog.records if record.exc_info] == ["on_move of the rules has failed"]


@on("valkey-sync")
def test_a_function_of_the_site_that_would_have_to_be_awaited_is_logged(
    p: P, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    token = p.login("ada", ip="192.0.2.7", user_agent=_FIREFOX).token
    site = make(on_move=lambda session: asyncio.sleep(0))
    assert site.ask("/x", peer="203.0.113.7", cookie=f"presence={token}", user_agent=_CURL).body == b"ada"
    [record] = [record for record in caplog.records if record.message == "on_move of the rules has failed"]
    assert record.exc_info is not None
    assert "on_move must be a plain function" in str(record.exc_info[1])


@on("valkey-sync")
@pytest.mark.parametrize("cookies", [1, 2])
def test_a_thief_next_to_an_active_visitor_is_found_at_once(p: P, make: Make, cookies: int) -> None:
    token = p.login("ada", ip="192.0.2.7", user_agent=_FIREFOX).token
    sent = "; ".join([f"presence={token}", f"presence={token[:-43]}{'A' * 43}"][:cookies])
    moved: list[Session] = []
    site = make(on_move=moved.append)
    for _ in range(3):
        assert site.ask("/x", peer="192.0.2.7", cookie=sent, user_agent=_FIREFOX).body == b"ada"
        assert site.ask("/x", peer="203.0.113.7", cookie=sent, user_agent=_CURL).body == b"ada"
    [session] = moved
    assert session.move is not None
    assert (session.move.before.network, session.move.after.network) == ("192.0.0.0/16", "203.0.0.0/16")


@on("valkey-sync")
def test_a_thief_who_is_first_refused_an_old_authentication_is_found_by_the_next_request(p: P, make: Make) -> None:
    p.set_now(p.freeze() - 120_000)
    token = p.login("ada", ip="192.0.2.7", user_agent=_FIREFOX).token
    moved: list[Session] = []
    site = make(on_move=moved.append, fresh={"/pay": 60})
    assert site.ask("/x", peer="192.0.2.7", user_agent=_FIREFOX, **brought("cookie", token)).status == 200
    for path, status in (("/pay", 401), ("/x", 200)):
        answer = site.ask(path, peer="203.0.113.7", user_agent=_CURL, **brought("cookie", token))
        assert answer.status == status
    assert len(moved) == 1


@on("valkey-sync")
@pytest.mark.parametrize("cookies", [1, 2])
def test_a_request_that_moves_a_session_is_refused_if_the_settings_say_so(p: P, bed: Bed, cookies: int) -> None:
    token = p.login("ada", ip="192.0.2.7", user_agent=_FIREFOX).token
    sent = "; ".join([f"presence={token}", f"presence={token[:-43]}{'A' * 43}"][:cookies])
    settings = Settings(bed.namespace, timeout=PATIENT, on_move="require_sign_in")
    site = wsgi_site(bed.url, settings, Rules(on_unavailable="grace"), None)
    answer = site.ask("/x", peer="203.0.113.7", cookie=sent, user_agent=_CURL)
    site.close()
    assert (answer.status, answer.json["code"]) == (401, "sign_in_required")


def test_a_misspelled_mode_fails_the_type_check() -> None:
    """mypy reports an unused ignore here if one of these types is widened to str."""
    with pytest.raises(InvalidArgument):
        Rules(mode="enforec")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument):
        Rules(on_unavailable="closd")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument):
        Rules(routes={"/pay": "closd"})  # type: ignore[dict-item]
    with pytest.raises(InvalidArgument):
        set_cookie_header("a.b.c", same_site="laxe")  # type: ignore[arg-type]


def test_bad_hooks_and_clients_are_refused_when_the_middleware_is_made() -> None:
    with Presence.from_url("redis://127.0.0.1:1") as presence:
        for make in (wsgi.PresenceMiddleware, asgi.PresenceMiddleware):
            for arguments, options in (
                ((None, presence), {}),
                ((print, None), {}),
                ((print, presence), {"user_of": "ada"}),
                ((print, presence), {"on_ended": 1}),
                ((print, presence), {"rules": {"mode": "adopt"}}),
                ((print, presence), {"tally": []}),
            ):
                with pytest.raises(InvalidArgument):
                    make(*arguments, **options)


def test_the_cookie_is_protected_from_scripts_and_other_hosts() -> None:
    assert set_cookie_header("a.b.c") == "presence=a.b.c; Path=/; HttpOnly; Secure; SameSite=Lax"
    header = set_cookie_header("a.b.c", name="__Host-s", same_site="strict", max_age=60)
    assert header == "__Host-s=a.b.c; Path=/; Max-Age=60; HttpOnly; Secure; SameSite=Strict"
    assert clear_cookie_header(secure=False) == "presence=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax"
    bad: list[dict[str, Any]] = [
        {"name": "__Host-s", "secure": False}, {"name": "__Host-s", "path": "/x"},
        {"name": "__host-s", "domain": "a.b"},
        {"name": "__Secure-s", "secure": False}, {"name": "a;b"}, {"name": ""}, {"same_site": "None"},
        {"same_site": ["lax"]}, {"same_site": "none", "secure": False}, {"path": "x"}, {"path": "/;x"},
        {"domain": "a b"}, {"max_age": 0}, {"max_age": True},
    ]  # fmt: skip
    for options in bad:
        with pytest.raises(InvalidArgument):
            set_cookie_header("a.b.c", **options)
    for token in ("", "a b", "a;b", "a\r\nSet-Cookie: x=1", 5):
        with pytest.raises(InvalidArgument):
            set_cookie_header(token)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("presence=x", "x"),
        ("a=1;presence=x; b=2", "x"),
        ('presence="x"', "x"),
        ("presence=x; presence=y", "x"),
        ("xpresence=x", None),
        ("presence=", None),
        ("presence", None),
        ("", None),
    ],
)
def test_the_cookie_is_found_in_any_header(header: str, value: str | None) -> None:
    assert read_cookie(header, "presence") == value


def test_a_secret_key_is_hashed_before_it_is_a_session_id() -> None:
    assert len(hashed_id("k" * 32)) == 43
    assert hashed_id("a") != hashed_id("b")
    with pytest.raises(InvalidArgument):
        hashed_id("")


def test_prefixes_match_whole_segments() -> None:
    assert longest_prefix("/api/x", ["/api", "/api/x", "/"]) == "/api/x"
    assert longest_prefix("/apix", ["/api"]) is None
    assert longest_prefix("/x", ["/"]) is None
    assert longest_prefix("/", ["/"]) == "/"


@pytest.mark.parametrize("rest", ["/../admin", "/./x", "//x", "/..", "/.", "/x\\..\\admin"])
def test_an_ambiguous_path_matches_no_prefix(rest: str) -> None:
    assert longest_prefix("/static/x", ["/static"]) == "/static"
    assert longest_prefix(f"/static{rest}", ["/static"]) is None


def test_many_threads_share_a_checker(server: Server) -> None:
    with Presence.from_url(server.url, Settings(timeout=PATIENT)) as presence:
        tokens = [presence.login(f"u{number}").token for number in range(8)]
        site = wsgi_site(server.url, Settings(), Rules(), None)
        barrier = threading.Barrier(8)

        def visit(token: str) -> set[bytes]:
            barrier.wait()
            return {site.ask(**brought("bearer", token)).body for _ in range(50)}

        with ThreadPoolExecutor(8) as threads:
            assert list(threads.map(visit, tokens)) == [{f"u{number}".encode()} for number in range(8)]
        assert site.checker.tally == {"live": 400}
        site.close()


def test_a_call_refused_by_the_breaker_reports_it() -> None:
    with Presence.from_url("redis://127.0.0.1:1", Settings(timeout=0.1)) as presence:
        checker = RequestChecker(presence, Rules(breaker_failures=1))
        checker.breaker.failed()
        with pytest.raises(Unavailable, match="did not answer recently"):
            next(checker._call(lambda p: p.counts()))
