"""Sign a browser in and out: what a second sign-in ends, and what it leaves."""

from __future__ import annotations

from http.cookies import SimpleCookie
from types import SimpleNamespace
from typing import Any

import pytest

from presence_core import InvalidArgument, LoginRefused
from presence_core.drive_generators import drive
from presence_core.web import asgi, wsgi
from presence_core.web.cookies import DEVICE_COOKIE
from presence_core.web.middleware.request_check import RequestChecker
from presence_core.web.middleware.request_data import RequestData
from presence_core.web.middleware.sign_in_out import SignedIn, login_failed_calls, sign_in_calls, sign_out_calls
from presence_core.web.rules import Rules, Visitor
from tests.conftest import Bed, on
from tests.support.facade import P


class Browser:
    """Keeps the cookies of a site whose sign-in and sign-out it asks for."""

    def __init__(self, p: P, cookies: dict[str, str] | None = None, **rules: Any) -> None:
        self.p = p
        self.checker = RequestChecker(p, Rules(**{"public": ("/sign-in",), "trusted_proxies": ()} | rules))
        self.cookies = cookies or {}

    def request(self, **more: Any) -> RequestData:
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        return RequestData(
            **{"path": "/sign-in", "cookie": cookie, "peer": "192.0.2.1", "user_agent": "Firefox"} | more
        )

    def run(self, calls: Any) -> Any:
        return drive(calls, lambda call: call(self.p))

    def _keep(self, headers: list[str]) -> None:
        for header in headers:
            for name, morsel in SimpleCookie(header).items():
                self.cookies.pop(name, None)
                if morsel["max-age"] != "0":
                    self.cookies[name] = morsel.value

    def sign_in(self, uid: str, request: RequestData | None = None, **login: Any) -> SignedIn:
        request = request or self.request()
        options = {"max_age": login.pop("max_age", None), "device_cookie": login.pop("device_cookie", True)}
        verdict = self.run(self.checker.check(request))
        signed_in: SignedIn = self.run(sign_in_calls(self.checker, request, verdict, uid, login, **options))
        self._keep(signed_in.cookies)
        return signed_in

    def fail(self, who: str) -> None:
        request = self.request()
        self.run(
            login_failed_calls(request, self.run(self.checker.check(request)), who, "wrong_password", False, "web")
        )

    def sign_out(self, request: RequestData | None = None, user: Any = None) -> int:
        request = request or self.request()
        verdict = self.run(self.checker.check(request, user))
        signed_out = self.run(sign_out_calls(self.checker, request, verdict))
        self._keep(signed_out.cookies)
        return int(signed_out.ended)


@on("valkey-sync")
def test_a_second_sign_in_of_a_browser_ends_the_first_of_any_user(p: P) -> None:
    browser, other = Browser(p), Browser(p)
    stays = other.sign_in("ada").login.session
    first = browser.sign_in("ada").login.session
    second = browser.sign_in("ada", device="Mac").login.session
    assert {session.session_id for session in p.sessions("ada")} == {stays.session_id, second.session_id}
    assert (second.device, second.ip, second.user_agent) == ("Mac", "192.0.2.1", "Firefox")
    [end] = p.ended("ada")
    assert (end.session_id, end.reason, end.by) == (first.session_id, "logout", "ada")
    browser.sign_in("eve")
    assert [session.session_id for session in p.sessions("ada")] == [stays.session_id]
    assert (browser.sign_out(), p.sessions("eve"), list(browser.cookies)) == (1, [], [DEVICE_COOKIE])
    assert browser.sign_out() == 0


@on("valkey-sync")
def test_without_its_cookie_a_sign_in_ends_what_the_same_user_has_on_the_device_and_no_one_else(p: P) -> None:
    browser = Browser(p)
    browser.sign_in("ada")
    device = {DEVICE_COOKIE: browser.cookies[DEVICE_COOKIE]}
    Browser(p, dict(device)).sign_in("eve")
    assert len(p.sessions("ada")) == len(p.sessions("eve")) == 1, "a shared device"
    again = Browser(p, dict(device)).sign_in("ada").login.session
    assert [session.session_id for session in p.sessions("ada")] == [again.session_id]
    assert not again.new_device
    for _ in range(2):
        Browser(p).sign_in("ada", device_id="device-of-an-app", device="phone")
    Browser(p).sign_in("ada", device_id="another-phone-of-hers", device="phone")
    assert len(p.sessions("ada")) == 3, "one of a device"
    Browser(p, dict(device)).sign_in("ada", device_cookie=False)
    assert len(p.sessions("ada")) == 4


@on("valkey-sync")
def test_sessions_on_behalf_neither_end_others_nor_are_ended_by_a_sign_in(p: P) -> None:
    browser = Browser(p)
    browser.sign_in("sam")
    browser.sign_in("ada", on_behalf_by="sam@support", reason="ticket 7")
    assert len(p.sessions("sam")) == 1
    [support] = p.sessions("ada")
    browser.sign_in("ada")
    assert [session.session_id for session in p.sessions("ada")][1:] == [support.session_id]
    browser.sign_in("ada", on_behalf_by="sam@support", reason="ticket 7")
    assert (browser.sign_out(), len(p.sessions("ada"))) == (1, 2), "staff sign out of it"


@on("valkey-sync", soak=("cluster-sync",))
def test_a_sign_out_ends_every_live_session_that_the_request_names(p: P) -> None:
    tokens = [p.login(uid).token for uid in ("ada", "eve", "bob", "ida")]
    p.require_sign_in("ida", by="sam", reason="odd")
    wrong = f"{p.login('una').token[:-43]}{'A' * 43}"
    cookie = "; ".join(f"presence={token}" for token in ("", tokens[0], wrong, tokens[1], tokens[3]))
    request = RequestData("/shop/x", cookie=cookie, authorization=f"Bearer {tokens[2]}")
    browser = Browser(p)
    assert browser.sign_out(request) == 4
    assert [len(p.sessions(uid)) for uid in ("ada", "eve", "bob", "ida", "una")] == [0, 0, 0, 0, 1]
    nothing = SimpleNamespace(session=None)
    cleared = browser.run(sign_out_calls(browser.checker, request, nothing))  # type: ignore[arg-type]
    assert {SimpleCookie(header)["presence"]["path"] for header in cleared.cookies} == {"/", "/shop", "/shop/x"}


@on("valkey-sync")
def test_a_sign_out_ends_the_session_that_the_site_itself_names(p: P) -> None:
    login = p.login("ada", session_id="id-of-the-site")
    browser = Browser(p, cookie=None)
    assert browser.sign_out(user=lambda: Visitor("ada", login.session.session_id)) == 1
    assert p.sessions("ada") == []


@on("valkey-sync")
def test_a_wrong_argument_ends_nothing_and_a_limit_does_not_count_what_ends(p: P, bed: Bed) -> None:
    browser = Browser(p)
    browser.sign_in("ada")
    wrong: list[tuple[str, dict[str, Any]]] = [("", {}), ("ada", {"methods": "pwd"}), ("ada", {"nmae": "Ada"})]
    for uid, arguments in wrong:
        with pytest.raises(InvalidArgument):
            browser.sign_in(uid, **arguments)
    assert len(p.sessions("ada")) == 1
    limited = bed.connect(max_sessions=1, on_limit="reject")
    browser.p, browser.checker = limited, RequestChecker(limited, Rules(public=("/sign-in",)))
    browser.sign_in("ada")
    with pytest.raises(LoginRefused):
        Browser(limited).sign_in("ada")
    assert len(p.sessions("ada")) == 1


@on("valkey-sync")
def test_the_cookie_has_the_settings_of_the_rules(p: P) -> None:
    browser = Browser(p, cookie="__Host-sid", same_site="strict")
    signed_in = browser.sign_in("ada", max_age=60, device_cookie=False)
    assert signed_in.cookies == [
        f"__Host-sid={signed_in.login.token}; Path=/; Max-Age=60; HttpOnly; Secure; SameSite=Strict"
    ]
    assert Browser(p, cookie=None).sign_in("ada", device_cookie=False).cookies == []


def test_without_the_middleware_a_sentence_says_what_is_missing() -> None:
    with pytest.raises(RuntimeError, match="no PresenceMiddleware around this route"):
        wsgi.sign_out(None, SimpleNamespace(environ={}))
    with pytest.raises(RuntimeError, match="no PresenceMiddleware around this route"):
        asgi._middleware(SimpleNamespace(scope={}))


@on("valkey-sync")
def test_a_sign_in_that_the_site_refuses_is_recorded_and_an_outage_keeps_no_answer(bed: Bed) -> None:
    browser = Browser(bed.connect())
    browser.fail("kim@example.org")
    [failure] = browser.p.failed_logins("kim@example.org").items
    assert (failure.ip, failure.app, failure.why) == ("192.0.2.1", "web", "wrong_password")
    away = Browser(bed.connect_to("redis://127.0.0.1:1", timeout=0.1), on_unavailable="open")
    away.fail("kim@example.org")
