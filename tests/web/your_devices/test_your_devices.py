"""Your devices: what visitors see and may end, as a page and as JSON, for ASGI and WSGI alike."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlencode

import pytest

from presence_core import InvalidArgument, Login, OutcomeUnknown, Presence, Settings
from presence_core.drive_generators import drive
from presence_core.web.rules import Rules, State, Verdict
from presence_core.web.your_devices import csrf, handles
from presence_core.web.your_devices.answers import DeviceAnswers
from presence_core.web.your_devices.device_list import MAX_SHOWN, DevicesPage, list_devices
from presence_core.web.your_devices.exchange import MAX_BODY, DeviceRequest
from presence_core.web.your_devices.language import translations
from presence_core.web.your_devices.options import DeviceOptions
from presence_core.web.your_devices.page_html import list_content
from tests.conftest import Bed, on
from tests.support.facade import EventLoop, P
from tests.support.fair_clock import PATIENT
from tests.support.place_file import LYON, city, write_place_file
from tests.support.servers import KEEPS_ALL, Server, missing, redis_binary, valkey_binary
from tests.support.soak import size
from tests.web.your_devices.device_sites import HOST, KEY, KINDS, DeviceSite, forms_of, make_site

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"

Make = Callable[..., DeviceSite]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(kind: str, bed: Bed, loop: EventLoop) -> Iterator[Make]:
    """Make a site over the bed's Redis. Arguments are those of DeviceOptions."""
    made: list[DeviceSite] = []

    def make_one(rules: Rules | None = None, url: str = "", keep_sign_ins: int = 0, **options: Any) -> DeviceSite:
        settings = Settings(bed.namespace, timeout=PATIENT, keep_sign_ins=keep_sign_ins)
        chosen = DeviceOptions(**{"key": KEY} | options)
        made.append(make_site(kind, url or bed.url, settings, loop, chosen, rules or Rules()))
        return made[-1]

    yield make_one
    for site in made:
        site.close()


def log_in(p: P, *names: str, uid: str = "ada") -> list[Login]:
    return [p.login(uid, device=name, session_id=f"session-of-{name}") for name in names]


def log_in_before(p: P, seconds: float, **fields: Any) -> Login:
    """A login of some time ago, of a session that is seen now."""
    now = time.time()
    [login] = p.login_many([{"uid": "ada", "login_at": now - seconds, "last_seen": now} | fields], imported=True)
    assert isinstance(login, Login)
    return login


def devices(p: P, uid: str = "ada") -> set[str | None]:
    return {session.device for session in p.sessions(uid)}


# -- what is shown ----------------------------------------------------------------------------------------------------


@on("valkey-sync")
def test_this_device_is_first_then_the_others_then_those_that_ended(p: P, make: Make) -> None:
    old, phone = log_in(p, "old", "phone")
    desk = log_in_before(p, 200, device="desk", last_seen=time.time() - 180)
    p.login("ada", device="<b>tablet", user_agent=FIREFOX)
    p.login("eve", device="foreign")
    p.kick("ada", old.session.session_id, by="sam@support", reason="stolen", ticket="T-1", message="<i>Call us.")
    site = make()
    page = site.ask("", phone.token).text
    places = [page.index(f"<bdi>{name}</bdi>") for name in ("phone", "&lt;b&gt;tablet", "desk", "old")]
    assert places == sorted(places)
    assert "Firefox on Linux" in page
    assert "Last active 3 minutes ago" in page
    assert f'Signed in since <time datetime="{desk.session.login_at:%Y-%m-%dT%H:%M:%SZ}">' in page
    assert page.index("This device") < places[0] < page.index("Other devices") < places[1]
    assert places[2] < page.index("Recently signed out") < places[3] < page.index("Signed out by support.")
    assert "<blockquote>&lt;i&gt;Call us.</blockquote>" in page
    for hidden in ("foreign", "sam", "stolen", "T-1", "<b>", "<i>"):
        assert hidden not in page, hidden
    listed = site.api(phone.token).json()
    assert [(device["name"], device["is_this"]) for device in listed["devices"]] == [
        ("phone", True), ("<b>tablet", False), ("desk", False),
    ]  # fmt: skip
    assert {name: listed["devices"][1][name] for name in ("browser", "os")} == {"browser": "Firefox", "os": "Linux"}
    assert listed["devices"][2]["signed_in"] == desk.session.login_at.isoformat()
    [end] = listed["ended"]
    assert (end["name"], end["reason"], end["why"], end["sentence"], end["message"]) == (
        "old", "kicked", "support", "Signed out by support.", "<i>Call us.",
    )  # fmt: skip
    assert "sam" not in str(listed)
    assert (listed["more"], site.api(desk.token).json()["devices"][0]["name"]) == (0, "desk")


@on("valkey-sync")
def test_a_device_without_a_name_has_that_of_its_browser(p: P, make: Make) -> None:
    p.login("ada")
    p.login("ada", user_agent=FIREFOX)
    p.login("ada", user_agent="curl/8.1")
    token = p.login("ada", device="here", user_agent=FIREFOX).token
    page = make().ask("", token).text
    names = re.findall(r"<bdi>(.*?)</bdi>", page)
    assert (names[0], set(names[1:])) == ("here", {"Unknown device", "Firefox on Linux", "curl"})
    assert page.count("<span>Firefox on Linux</span>") == 1, "once for a device"


@on("valkey-sync")
def test_each_end_has_its_reason(p: P, make: Make, bed: Bed) -> None:
    site, here = make(), p.login("ada").token
    p.login("ada", device="idle", idle_timeout=60)
    p.login("ada", device="absolute", idle_timeout=60, absolute_timeout=60)
    p.advance(70)
    p.sweep()
    names = ("out", "elsewhere", "kicked", "changed")
    sids = {name: p.login("ada", device=name).session.session_id for name in names}
    p.logout("ada", sids["out"])
    p.logout_others("ada", sids["kicked"], sids["elsewhere"])
    p.kick("ada", sids["kicked"], by="sam", reason="why")
    p.kick("ada", sids["changed"], by="ada", reason="password changed")
    single = bed.connect(max_sessions_per_device=1)
    single.login("ada", device="single")
    single.login("ada", device="single")
    whys = {end["name"]: (end["why"], end["message"]) for end in site.api(here).json()["ended"]}
    assert whys == {
        "out": ("signed_out", None), "elsewhere": ("other_device", None), "idle": ("inactive", None),
        "absolute": ("time_limit", None), "kicked": ("support", None), "changed": ("account", None),
        "single": ("newer_sign_in", None),
    }  # fmt: skip


@on("valkey-sync")
def test_neither_page_nor_json_nor_headers_hold_a_session_id_a_uid_or_a_token(p: P, make: Make) -> None:
    logins = [*log_in(p, "phone", "desk", "old", uid="ada-lovelace"), *log_in(p, "x", uid="eve")]
    phone, desk, old = logins[:3]
    p.logout("ada-lovelace", old.session.session_id)
    site, token = make(), phone.token
    _, other = site.forms(token)
    answers = [site.ask("", token), site.ask("?confirm=others", token), site.api(token), site.post(token, other),
               site.post(token, other | {"device": "x"}), site.ask("nowhere", token),
               site.api(token, "/sign-out", {"device": desk.session.session_id})]  # fmt: skip
    assert len({answer.status_code for answer in answers}) > 3
    for answer in answers:
        said = f"{answer.text} {answer.headers}"
        for login in logins:
            assert login.session.session_id not in said
            assert login.token.rpartition(".")[2] not in said
        assert "ada-lovelace" not in said


@on("valkey-sync")
def test_a_page_of_a_thousand_sessions_shows_some_and_ends_all(p: P, make: Make) -> None:
    here = p.login("ada", device="here").token
    p.login_many([{"uid": "ada", "device": f"d{number}"} for number in range(300)])
    site = make()
    forms = site.forms(here)
    assert len(forms) == MAX_SHOWN
    assert f"{301 - MAX_SHOWN} more devices are not shown." in site.ask("", here).text
    [confirm] = site.forms(here, "?confirm=others")
    assert "300 other devices will be signed out." in site.ask("?confirm=others", here).text
    assert site.post(here, confirm).status_code == 303
    assert devices(p) == {"here"}


# -- what a visitor may end -------------------------------------------------------------------------------------------


@on("valkey-sync")
def test_signing_out_a_device_ends_that_one_only(p: P, make: Make) -> None:
    _, phone, _ = log_in(p, "tablet", "phone", "desk")
    log_in(p, "eve", uid="eve")
    site = make()
    forms = site.forms(phone.token)
    names = [device["name"] for device in site.api(phone.token).json()["devices"]]
    assert names[0] == "phone"
    answer = site.post(phone.token, forms[names.index("desk")])
    assert (answer.status_code, answer.headers["location"]) == (303, "?done=device")
    assert "The device has been signed out." in site.ask("?done=device", phone.token).text
    assert devices(p) == {"tablet", "phone"}
    assert devices(p, "eve") == {"eve"}
    [end] = p.ended("ada")
    assert (end.device, end.reason, end.cause, end.by) == ("desk", "logout", "self", "ada")


@on("valkey-sync")
def test_all_other_devices_are_signed_out_after_a_question(p: P, make: Make) -> None:
    _, phone, _ = log_in(p, "tablet", "phone", "desk")
    log_in(p, "eve", uid="eve")
    site = make()
    assert 'href="?confirm=others"' in site.ask("", phone.token).text
    assert "2 other devices will be signed out." in site.ask("?confirm=others", phone.token).text
    assert devices(p) == {"tablet", "phone", "desk"}, "the question changes nothing"
    [confirm] = site.forms(phone.token, "?confirm=others")
    answer = site.post(phone.token, confirm)
    assert (answer.status_code, answer.headers["location"]) == (303, "?done=others")
    assert "All other devices have been signed out." in site.ask("?done=others", phone.token).text
    assert (devices(p), devices(p, "eve")) == ({"phone"}, {"eve"})
    assert {end.cause for end in p.ended("ada")} == {"self"}
    assert "You are not signed in on any other device." in site.ask("", phone.token).text


@on("valkey-sync")
def test_this_device_can_always_be_signed_out(p: P, make: Make) -> None:
    log_in(p, "desk")
    old = log_in_before(p, 4000, device="old")
    site = make(sign_in_url="/sign-in", fresh=60)
    answer = site.post(old.token, site.forms(old.token)[0])
    assert answer.status_code == 200
    assert "You are signed out" in answer.text
    assert 'href="/sign-in"' in answer.text
    assert devices(p) == {"desk"}
    assert [(end.device, end.cause) for end in p.ended("ada")] == [("old", "user")]
    assert site.ask("", old.token).status_code == 401


@on("valkey-sync")
def test_the_api_ends_one_device_all_others_and_this_one(p: P, make: Make) -> None:
    phone, *_ = log_in(p, "phone", "desk", "tablet", "watch")
    site = make()
    listed = site.api(phone.token).json()
    header = {"x_csrf_token": listed["csrf"]}
    handles_of = {device["name"]: device["handle"] for device in listed["devices"]}
    answer = site.api(phone.token, "/sign-out", {"device": handles_of["desk"]}, **header)
    assert (answer.status_code, answer.json()) == (200, {"ended": 1})
    assert devices(p) == {"phone", "tablet", "watch"}
    assert site.api(phone.token, "/sign-out-others", {}, **header).json() == {"ended": 2}
    assert devices(p) == {"phone"}
    assert site.api(phone.token, "/sign-out", {"device": handles_of["phone"]}, **header).json() == {"ended": 1}
    assert devices(p) == set()


# -- a recent login ---------------------------------------------------------------------------------------------------


@on("valkey-sync")
def test_others_are_signed_out_only_after_a_recent_login(p: P, make: Make) -> None:
    log_in(p, "desk")
    old = log_in_before(p, 400, device="old")
    site, token = make(sign_in_url="/sign-in?then={next}"), old.token
    other, csrf_token = site.forms(token)[1], site.api(token).json()["csrf"]
    pages = [site.post(token, other), site.post(token, other | {"action": "sign-out-others"}),
             site.post(token, other | {"device": "no-such-device"}), site.ask("?confirm=others", token)]  # fmt: skip
    for page in pages:
        assert page.status_code == 401
        assert "Sign in again to sign out other devices." in page.text
        assert 'href="/sign-in?then=/devices/"' in page.text
        assert 'error="insufficient_user_authentication", max_age="300"' in page.headers["www-authenticate"]
    for path, body in (("/sign-out", {"device": other["device"]}), ("/sign-out-others", {})):
        refused = site.api(token, path, body, x_csrf_token=csrf_token)
        assert refused.status_code == 401
        assert refused.headers["content-type"] == "application/problem+json"
        said = refused.json()
        assert (said["type"], said["max_age"]) == ("urn:presence:authentication-too-old", 300)
        assert said["code"] == "authentication_too_old"
        assert said["sign_in_url"] == "/sign-in?then=/devices/", "the page, which a GET can open"
    assert devices(p) == {"desk", "old"}
    assert make(fresh=500).post(token, other).status_code == 303
    assert devices(p) == {"old"}


@on("valkey-sync")
def test_who_signs_in_again_in_the_same_session_may_sign_out_others(p: P, make: Make) -> None:
    log_in(p, "desk")
    old = log_in_before(p, 400, device="old")
    site = make()
    assert site.post(old.token, site.forms(old.token)[1]).status_code == 401
    again = p.reauthenticated(old.token, methods=["pwd"]).token
    assert site.post(again, site.forms(again)[1]).status_code == 303
    assert devices(p) == {"old"}


@on("valkey-sync")
def test_a_site_may_ask_for_no_recent_login(p: P, make: Make) -> None:
    log_in(p, "desk", "tablet")
    old = log_in_before(p, 80_000)
    site = make(fresh=None)
    assert site.post(old.token, site.forms(old.token)[1]).status_code == 303
    assert site.post(old.token, site.forms(old.token, "?confirm=others")[0]).status_code == 303
    assert devices(p) == {None}


# -- hostile requests -------------------------------------------------------------------------------------------------


@on("valkey-sync")
def test_foreign_unknown_malformed_and_ended_handles_get_the_same_answer(p: P, make: Make) -> None:
    phone, gone = log_in(p, "phone", "gone")
    [eve] = log_in(p, "eve", uid="eve")
    site = make()
    mine, ended = site.forms(phone.token)
    foreign = site.forms(eve.token)[0]["device"]
    p.logout("ada", gone.session.session_id)
    under_my_name = handles.handle_of(handles.derive_key(KEY.encode(), "handle"), "ada", eve.session.session_id)
    hostile: list[str] = [
        foreign, under_my_name, ended["device"], "A" * 22, "", "é", "x" * 2000, "../..", "<script>",
        eve.session.session_id, eve.session.ref, gone.session.session_id, mine["device"] + "A", mine["device"][:-1],
    ]  # fmt: skip
    pages = [site.post(phone.token, mine | {"device": handle}) for handle in hostile]
    pages.append(site.post(phone.token, {name: value for name, value in mine.items() if name != "device"}))
    assert {(page.status_code, page.text) for page in pages} == {(404, pages[0].text)}
    assert "This device was not found." in pages[0].text
    header = {"x_csrf_token": site.api(phone.token).json()["csrf"]}
    others: list[Any] = [None, 5, ["x"], {}]
    bodies = [{"device": value} for value in [*hostile, *others]]
    answers = [site.api(phone.token, "/sign-out", body, **header) for body in [*bodies, {}]]
    assert {(answer.status_code, answer.text) for answer in answers} == {(404, answers[0].text)}
    assert answers[0].json()["code"] == "unknown_device"
    assert (devices(p), devices(p, "eve")) == ({"phone"}, {"eve"})


@on("valkey-sync")
def test_two_visitors_have_different_handles_for_equal_session_ids(p: P, make: Make) -> None:
    site = make()
    tokens = [p.login(uid, session_id="the-same-id").token for uid in ("ada", "eve")]
    ada, eve = (site.forms(token)[0]["device"] for token in tokens)
    assert ada != eve
    assert re.fullmatch(r"[\w-]{22}", ada)
    assert make().forms(tokens[0])[0]["device"] == ada, "in each process"
    assert make(key="another key for tests").forms(tokens[0])[0]["device"] != ada


@on("valkey-sync")
def test_a_form_needs_the_token_of_its_session(p: P, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    phone, _ = log_in(p, "phone", "desk")
    [eve] = log_in(p, "eve", uid="eve")
    site, token = make(), phone.token
    form = site.forms(token)[1]
    header = site.api(token).json()["csrf"]
    made, _, mac = form["csrf"].partition(".")
    wrong = ["", "x", form["csrf"][:-1], f"{int(made, 16) + 1:x}.{mac}", site.forms(eve.token)[0]["csrf"],
             site.forms(p.login("ada", device="desk").token)[0]["csrf"],
             make(key="another key for tests").forms(token)[0]["csrf"], "é", form["device"]]  # fmt: skip
    for value in wrong:
        page = site.post(token, form | {"csrf": value})
        assert page.status_code == 403, value
        assert "Open it again" in page.text
        refused = site.api(token, "/sign-out-others", {}, **{"x_csrf_token": value} if value.isascii() else {})
        assert (refused.status_code, refused.json()["code"]) == (403, "expired_form"), value
    later = time.time() + csrf.TOKEN_SECONDS + 5
    with monkeypatch.context() as patched:
        patched.setattr("presence_core.web.your_devices.answers.time.time", lambda: later)
        assert site.post(token, form).status_code == 403
    assert devices(p) == {"phone", "desk"}
    assert site.api(token, "/sign-out-others", {}, x_csrf_token=header).json() == {"ended": 2}


@on("valkey-sync")
def test_a_form_of_another_origin_changes_nothing(p: P, make: Make) -> None:
    phone, _ = log_in(p, "phone", "desk")
    site, token = make(), phone.token
    form, header = site.forms(token)[1], site.api(token).json()["csrf"]
    foreign = [{"sec_fetch_site": "cross-site"}, {"sec_fetch_site": "same-site"}, {"sec_fetch_site": "x"},
               {"origin": "http://evil.example"}, {"origin": "null"}, {"origin": ""}]  # fmt: skip
    for headers in foreign:
        sent = headers if "sec_fetch_site" in headers else headers | {"sec_fetch_site": "cross-site"}
        page = site.post(token, form, **sent)
        assert page.status_code == 403, headers
        assert "came from another site" in page.text
        refused = site.api(token, "/sign-out-others", {}, x_csrf_token=header, **headers)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden"), headers
    assert devices(p) == {"phone", "desk"}
    assert site.ask("", token, method="POST", data=form, headers={"origin": HOST}).status_code == 303


@on("valkey-sync")
def test_malformed_requests_change_nothing_and_get_one_sentence(p: P, make: Make) -> None:
    phone, _ = log_in(p, "phone", "desk")
    site, token = make(), phone.token
    form, header = site.forms(token)[1], {"x-csrf-token": site.api(token).json()["csrf"]}
    plain, json = {"content-type": "text/plain"}, {"content-type": "application/json"}

    def post(path: str, **sent: Any) -> int:
        return site.ask(path, token, method="POST", **sent).status_code

    assert post("", content=b"x") == 400
    assert post("", content=b"\xff=\xfe", headers={"content-type": "application/x-www-form-urlencoded"}) == 400
    assert post("", data=form | {"action": "delete-all"}) == 400
    assert post("", data=form | {"x": "y" * MAX_BODY}) == 413
    assert post("api/sign-out-others", content=b"{}", headers=header | plain) == 415
    assert post("api/sign-out-others", headers=header) == 415
    for content in (b"", b"{", b"[]", b"5", b"\xff", b"[" * 4000):
        assert post("api/sign-out-others", content=content, headers=header | json) == 400, content
    assert post("api/sign-out-others", json={"x": "y" * MAX_BODY}, headers=header) == 413
    for path in ("api/", "x", "api/x", "api/sign-out-others/x", "apis", "%2e%2e/"):
        assert site.ask(path, token).status_code in (200, 404, 405), path
    others = [("PUT", "", "GET, HEAD, POST"), ("POST", "api", "GET, HEAD"), ("GET", "api/sign-out", "POST"),
              ("DELETE", "api/sign-out-others", "POST")]  # fmt: skip
    for method, path, allowed in others:
        answer = site.ask(path, token, method=method)
        assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
    head = site.ask("", token, method="HEAD")
    assert (head.status_code, head.content) == (200, b"")
    assert devices(p) == {"phone", "desk"}


@on("valkey-sync")
def test_no_made_up_request_breaks_the_page_or_ends_a_session(p: P) -> None:
    """Random parts of valid requests, without the token of the session."""
    phone, _ = log_in(p, "phone", "desk")
    answers = DeviceAnswers(DeviceOptions(key=KEY, per_minute=10_000, fresh=None))
    verdict = Verdict(passes=True, state="live", session=phone.session)
    draw = Random(17)
    words = ["", "sign-out", "sign-out-others", "x", "\ud800", "é" * 9, "%00", "..", answers.csrf(phone.session)[:-1],
             answers.handle(phone.session)("session-of-desk"), "x" * 999, "null", "{}", "[", "0", "-1"]  # fmt: skip
    kinds = ["application/json", "application/x-www-form-urlencoded", "application/json; charset=x", "", "é"]
    statuses = set()
    for _ in range(size(300, 3000)):
        fields = {draw.choice(["csrf", "action", "device", "x"]): draw.choice(words) for _ in range(draw.randrange(5))}
        raw = draw.choice(words).encode("utf-8", "surrogatepass")
        form = urlencode(fields, errors="surrogatepass").encode()
        request = DeviceRequest(
            method=draw.choice(["GET", "POST", "POST", "POST", "HEAD", "PUT", "é"]),
            path=draw.choice(["", "/", "/api", "/api/sign-out", "/api/sign-out-others", "/api/" + draw.choice(words)]),
            url_path="/devices/", query=draw.choice(["", "confirm=others", "done=x", "&=&;%", "a=1&" * 99]),
            headers={"content-type": draw.choice(kinds), "x-csrf-token": draw.choice(words),
                     "accept-language": draw.choice(words)},
            body=draw.choice([json.dumps(fields).encode(), form, raw, None]), session=phone.session, verdict=verdict,
        )  # fmt: skip
        response = drive(answers.answer(request), lambda call: call(p))
        statuses.add(response.status)
        assert response.status < 500
        assert not any("\n" in value or "\r" in value for _, value in response.headers)
    assert statuses >= {200, 400, 403, 404, 405, 413, 415}
    assert devices(p) == {"phone", "desk"}


@on("valkey-sync")
def test_a_session_may_send_so_many_requests_a_minute(p: P, make: Make) -> None:
    phone, desk = log_in(p, "phone", "desk")
    site = make(per_minute=3)
    assert [site.ask("", phone.token).status_code for _ in range(5)] == [200, 200, 200, 429, 429]
    refused = site.ask("", phone.token)
    assert (int(refused.headers["retry-after"]) > 0, "too many requests" in refused.text) == (True, True)
    assert site.api(phone.token).json()["code"] == "too_many_requests"
    assert site.ask("", desk.token).status_code == 200


@on("valkey-sync")
def test_without_a_session_the_page_asks_to_sign_in(make: Make) -> None:
    site = make(Rules(anonymous="pass"), sign_in_url="/sign-in?next={next}")
    page = site.ask("")
    assert (page.status_code, "Sign in to see your devices." in page.text) == (401, True)
    assert 'href="/sign-in?next=/devices/"' in page.text
    assert site.ask("api").json()["code"] == "unknown"
    assert site.ask("", method="POST", data={"action": "sign-out-others"}).status_code == 401


# -- Redis is away ----------------------------------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with Server.start(binary, tmp_path, *KEEPS_ALL) as running:
        yield running


@on("valkey-sync")
@pytest.mark.parametrize("mode", ["grace", "open", "closed"])
def test_while_redis_is_away_each_request_gets_a_503_with_one_sentence(
    bed: Bed, make: Make, server: Server, mode: Any
) -> None:
    p = bed.connect_to(server.url)
    phone, _ = log_in(p, "phone", "desk")
    site = make(Rules(on_unavailable=mode), server.url, language="en")
    form = site.forms(phone.token)[1]
    header = {"x_csrf_token": site.api(phone.token).json()["csrf"]}
    server.kill()
    shown, changed = site.ask("", phone.token), site.post(phone.token, form)
    api, api_change = site.api(phone.token), site.api(phone.token, "/sign-out-others", {}, **header)
    for answer in (shown, changed, api, api_change):
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) > 0
        assert "Traceback" not in answer.text
    assert (api.json()["code"], api_change.json()["code"]) == ("unavailable", "unavailable")
    if mode != "closed":  # there the middleware answers
        assert "<p>Your devices cannot be shown right now, but you have not been signed out.</p>" in shown.text
        assert "<p>Nothing could be changed right now, and you have not been signed out.</p>" in changed.text


@on("valkey-sync")
@pytest.mark.parametrize("state", ["grace", "open"])
def test_a_session_that_was_not_checked_sees_and_ends_nothing(p: P, state: State) -> None:
    """While the middleware passes known sessions without Redis, one of them may have been kicked."""
    phone, _ = log_in(p, "phone", "desk")
    answers = DeviceAnswers(DeviceOptions(key=KEY))
    verdict = Verdict(passes=True, state=state, session=phone.session)
    form = {"csrf": answers.csrf(phone.session), "action": "sign-out-others"}
    for method, body in (("GET", b""), ("POST", urlencode(form).encode())):
        request = DeviceRequest(
            method=method, path="/", url_path="/devices/", query="", session=phone.session, verdict=verdict, body=body,
            headers={"content-type": "application/x-www-form-urlencoded"},
        )  # fmt: skip
        assert drive(answers.answer(request), lambda call: call(p)).status == 503
    assert devices(p) == {"phone", "desk"}


@on("valkey-sync")
def test_a_session_of_support_cannot_open_the_page(p: P) -> None:
    log_in(p, "phone", "desk")
    answers = DeviceAnswers(DeviceOptions(key=KEY))
    support = p.login("ada", on_behalf_by="sam@support", reason="ticket 7", methods=["pwd"]).session
    verdict = Verdict(passes=True, state="live", session=support)
    form = urlencode({"csrf": answers.csrf(support), "action": "sign-out-others"}).encode()
    for method, path, body in (("GET", "/", b""), ("POST", "/", form), ("GET", "/api", b"")):
        request = DeviceRequest(
            method=method, path=path, url_path="/devices/", query="", session=support, verdict=verdict, body=body,
            headers={"content-type": "application/x-www-form-urlencoded"},
        )  # fmt: skip
        response = drive(answers.answer(request), lambda call: call(p))
        assert response.status == 403
        assert b"Only the user can see and sign out these devices." in response.body
        assert b"phone" not in response.body
    assert devices(p) == {"phone", "desk", None}


@on("valkey-sync")
def test_a_session_of_support_is_shown_without_what_describes_staff(p: P) -> None:
    [phone] = log_in(p, "phone")
    support, past = (
        p.login("ada", on_behalf_by="sam@support", reason="ticket 7", device="staff-pc", user_agent=FIREFOX).session
        for _ in range(2)
    )
    p.logout("ada", past.session_id)
    shown = list_devices(phone.session, p.sessions("ada"), p.ended("ada").items, p.clock.now, lambda _: "handle")
    page = list_content(translations("en"), shown, "", None).body
    assert re.findall(r"<bdi>(.*?)</bdi>", page) == ["phone", "Support session", "Support session"]
    assert "staff-pc" not in page
    assert (support.browser, "Firefox" in page, "sam" in page) == ("Firefox", False, False)
    assert [device.is_support for device in shown.devices] == [False, True]
    assert [device.is_support for device in shown.ended] == [True]


@on("valkey-sync")
def test_each_device_has_the_place_of_its_sign_in_but_that_of_staff(bed: Bed, make: Make, tmp_path: Path) -> None:
    networks = {"192.0.2.0/24": LYON, "203.0.113.0/24": city("JP", "<b>x</b>", (35, 139))}
    p = bed.connect(place_file=str(write_place_file(tmp_path / "places.mmdb", networks)))
    here = p.login("ada", device="phone", ip="192.0.2.7")
    p.login("ada", device="tablet", ip="203.0.113.7")
    p.login("ada", device="unknown")
    p.login("ada", on_behalf_by="sam", reason="call", ip="203.0.113.7")
    old = p.login("ada", device="old", ip="192.0.2.7").session
    p.logout("ada", old.session_id)
    site = make()
    page = site.ask("", here.token).text
    assert page.count("<bdi>Lyon, FR</bdi>") == 2
    assert page.count("<bdi>&lt;b&gt;x&lt;/b&gt;, JP</bdi>") == 1
    listed = site.api(here.token).json()
    assert {device["name"]: device["place"] for device in listed["devices"]} == {
        "phone": "Lyon, FR", "tablet": "<b>x</b>, JP", "unknown": None, None: None,
    }  # fmt: skip
    assert [ended["place"] for ended in listed["ended"]] == ["Lyon, FR"]


@on("valkey-sync")
def test_sign_ins_of_a_month_are_shown_whose_sessions_are_not(bed: Bed, make: Make, tmp_path: Path) -> None:
    places = str(write_place_file(tmp_path / "places.mmdb", {"192.0.2.0/24": LYON}))
    p = bed.connect(place_file=places, keep_sign_ins=90, keep_logout=0)
    p.login("eve", device="foreign")
    for device, days in (("too old", 31), ("<b>gone", 20)):
        login = log_in_before(p, days * 86_400, device=device, ip="192.0.2.7", absolute_timeout=40 * 86_400)
        p.logout("ada", login.session.session_id)
    p.login("ada", device="support", on_behalf_by="sam", reason="call")
    here = p.login("ada", device="phone")
    site = make(keep_sign_ins=90)
    page = site.ask("", here.token).text
    assert page.index("Other sign-ins of the last 30 days") < page.index("<bdi>&lt;b&gt;gone</bdi>")
    assert page.count("<bdi>phone</bdi>") == 1
    [gone] = site.api(here.token).json()["sign_ins"]
    assert (gone["name"], gone["place"], gone["browser"]) == ("<b>gone", "Lyon, FR", None)
    for hidden in ("too old", "foreign", "<b>"):
        assert hidden not in page, hidden
    without = make()
    assert "Other sign-ins" not in without.ask("", here.token).text
    assert without.api(here.token).json()["sign_ins"] == []


@on("valkey-sync")
def test_an_unknown_outcome_is_not_called_a_failure(p: P, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    phone, _ = log_in(p, "phone", "desk")
    site = make()
    form = site.forms(phone.token)[1]

    def unknown(*_: Any) -> Any:
        raise OutcomeUnknown("Redis did not reply in time.")

    monkeypatch.setattr("presence_core.operations.sessions.end.logout_others", unknown)
    page = site.post(phone.token, form)
    assert (page.status_code, "It is not certain whether the device was signed out" in page.text) == (503, True)


# -- the look ---------------------------------------------------------------------------------------------------------


@on("valkey-sync")
def test_every_answer_has_the_security_headers(p: P, make: Make) -> None:
    [phone] = log_in(p, "phone")
    site = make()
    form = site.forms(phone.token)[0]
    answers = [site.ask("", phone.token), site.ask("x", phone.token), site.api(phone.token),
               site.post(phone.token, form | {"device": "x"}), site.post(phone.token, form | {"csrf": ""})]  # fmt: skip
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["content-length"] == str(len(answer.content))
        assert "<script" not in answer.text


@on("valkey-sync")
def test_the_language_is_that_of_the_browser_or_of_the_site(p: P, make: Make) -> None:
    [phone] = log_in(p, "phone")
    languages = {
        "de-AT,de;q=0.9": "Ihre Geräte", "fr": "Vos appareils", "ja": "お使いのデバイス", "zh-CN": "您的设备",
        "pt,es;q=0.5": "Sus dispositivos", "zh-TW, en;q=0.1": "Your devices", "": "Your devices",
    }  # fmt: skip
    site = make()
    for header, title in languages.items():
        page = site.ask("", phone.token, headers={"accept-language": header})
        assert f"<h1>{title}</h1>" in page.text, header
        assert f'<html lang="{page.headers["content-language"]}">' in page.text
        assert "Accept-Language" in page.headers["vary"]
    assert site.ask("", phone.token, headers={"accept-language": "zh"}).headers["content-language"] == "zh-Hans"
    german = {"accept-language": "de"}
    assert "<h1>Vos appareils</h1>" in make(language="fr").ask("", phone.token, headers=german).text
    by_user = make(language=lambda session: {"ada": "ja"}.get(session.uid))
    assert "<h1>お使いのデバイス</h1>" in by_user.ask("", phone.token, headers=german).text
    unknown = make(language=lambda session: "xx")
    assert "<h1>Ihre Geräte</h1>" in unknown.ask("", phone.token, headers=german).text
    assert site.ask("x", phone.token, headers=german).text.count("Seite nicht gefunden") == 2
    assert site.ask("api/x", phone.token, headers=german).json()["title"] == "Seite nicht gefunden"


@on("valkey-sync")
def test_a_site_may_set_colours_and_draw_the_page_itself(p: P, make: Make) -> None:
    phone, _ = log_in(p, "phone", "desk")
    page = make(theme={"accent": "#b3261e", "accent_dark": "light-dark(red, blue)", "font": "'My Font', serif"}).ask(
        "", phone.token
    )
    light, dark = page.text.split("@media", 1)
    assert "--devices-accent: #b3261e" in light
    assert "--devices-font: 'My Font', serif" in light
    assert "--devices-accent: light-dark(red, blue)" in dark

    def draw(shown: DevicesPage) -> str:
        names = [] if shown.devices is None else [device.name for device in shown.devices.devices]
        return f"<title>{shown.title}</title>{names}{shown.csrf[:0]}{shown.body}<style>{shown.style}</style>"

    site = make(template=draw)
    page = site.ask("", phone.token)
    assert page.text.startswith("<title>Your devices</title>['phone', 'desk']<div")
    assert page.headers["content-security-policy"].startswith("default-src 'self'; style-src 'self' 'sha256-")
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    assert len(forms_of(page.text)) == 2
    assert site.ask("x", phone.token).text.startswith("<title>Page not found</title>[]")
    own = make(template=draw, policy="style-src https://cdn.example {style}").ask("", phone.token)
    ours = re.findall(r"'sha256-.+?'", page.headers["content-security-policy"])[0]
    assert own.headers["content-security-policy"] == f"style-src https://cdn.example {ours}"


BAD_OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"key": "short"}, "key must be text or bytes of at least 16 bytes"),
    ({"key": 5}, "key must be text or bytes of at least 16 bytes"),
    ({"fresh": 0}, "fresh must be"),
    ({"fresh": "300"}, "fresh must be"),
    ({"sign_in_url": "javascript:alert(1)"}, "sign_in_url must begin with / or https://"),
    ({"sign_in_url": "//evil.example"}, "sign_in_url must begin with / or https://"),
    ({"sign_in_url": "/a\nb"}, "sign_in_url must begin with / or https://"),
    ({"language": 5}, "language must be"),
    ({"theme": {"accnt": "red"}}, "theme must be a dict with the names accent"),
    ({"theme": {"accent": "red;}</style><script>"}}, "theme must hold CSS values"),
    ({"theme": {"accent": 5}}, "theme must hold CSS values"),
    ({"theme": "red"}, "theme must be a dict"),
    ({"template": "page.html"}, "template must be a function"),
    ({"policy": "default-src 'self'\r\nX-Header: 1"}, "policy must be"),
    ({"per_minute": 0}, "per_minute must be"),
]


@pytest.mark.parametrize(("options", "sentence"), BAD_OPTIONS, ids=[str(case[0]) for case in BAD_OPTIONS])
def test_a_wrong_option_is_refused_in_one_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        DeviceOptions(**{"key": KEY} | options)
    assert str(error.value).startswith(sentence)
    assert "short" not in str(error.value)
    assert KEY not in repr(DeviceOptions(key=KEY))


def test_the_page_needs_the_middleware_and_a_client_of_its_kind() -> None:
    from presence_core.web.your_devices import asgi, wsgi

    options = DeviceOptions(key=KEY)
    with Presence.from_url("redis://127.0.0.1:1") as presence:
        with pytest.raises(RuntimeError, match="no PresenceMiddleware around YourDevices"):
            wsgi.YourDevices(presence, options)({"REQUEST_METHOD": "GET"}, None)
        for wrong in ("x", None):
            with pytest.raises(InvalidArgument, match="presence must be a Presence"):
                asgi.YourDevices(wrong, options)  # type: ignore[arg-type]
            with pytest.raises(InvalidArgument, match="presence must be a Presence"):
                wsgi.YourDevices(wrong, options)  # type: ignore[arg-type]
            with pytest.raises(InvalidArgument, match="options must be DeviceOptions"):
                wsgi.YourDevices(presence, wrong)  # type: ignore[arg-type]
