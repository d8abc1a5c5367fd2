"""Your devices in Django, under WSGI and ASGI."""

from __future__ import annotations

import asyncio
import json
from io import BytesIO
from typing import Any
from urllib.parse import urlencode

import pytest

from presence_core import Presence
from presence_core.web.rules import Verdict
from tests.support.servers import Server
from tests.web.frameworks.django_site import PASSWORD
from tests.web.frameworks.test_django import authenticate_earlier, browser, presence, server, sign_in, uid
from tests.web.frameworks.test_django_async import browser as async_browser
from tests.web.frameworks.test_django_async import run
from tests.web.your_devices.device_sites import forms_of

__all__ = ["presence", "server"]  # the fixtures


def devices_settings(**given: Any) -> Any:
    from django.test import override_settings

    return override_settings(PRESENCE_YOUR_DEVICES=given)


@pytest.fixture
def signed_in(presence: Presence) -> Any:
    """A browser of ada, whose account has two other sessions."""
    client = browser()
    sign_in(client)
    for name in ("phone", "tablet"):
        presence.login(uid("ada"), device=name)
    return client


def send(client: Any, fields: dict[str, str], **more: Any) -> Any:
    """Send a form as a browser does: Django's client would send multipart."""
    return client.post("/devices/", urlencode(fields), content_type="application/x-www-form-urlencoded", **more)


def names(presence: Presence, who: str = "ada") -> set[str | None]:
    return {session.device for session in presence.sessions(uid(who))}


def form_of(page: Any, place: int) -> dict[str, str]:
    return forms_of(page.content.decode())[place]


def test_a_user_sees_their_devices_and_signs_them_out(presence: Presence, signed_in: Any) -> None:
    from django.urls import reverse

    presence.login("eve", device="foreign")
    assert reverse("your_devices") == "/devices/"
    page = signed_in.get("/devices/")
    assert page.status_code == 200
    assert "<bdi>phone</bdi>" in page.content.decode()
    assert "foreign" not in page.content.decode()
    forms = forms_of(page.content.decode())
    listed = json.loads(signed_in.get("/devices/api").content)["devices"]
    assert [form["device"] for form in forms] == [device["handle"] for device in listed]
    phone = next(device["handle"] for device in listed if device["name"] == "phone")
    answer = send(signed_in, forms[1] | {"device": phone})
    assert (answer.status_code, answer.headers["Location"]) == (303, "?done=device")
    assert names(presence) == {None, "tablet"}
    assert send(signed_in, form_of(signed_in.get("/devices/?confirm=others"), 0)).status_code == 303
    assert names(presence) == {None}
    assert {end.cause for end in presence.ended(uid("ada"))} == {"self"}


def test_signing_out_this_device_logs_out_of_django(presence: Presence, signed_in: Any) -> None:
    answer = send(signed_in, form_of(signed_in.get("/devices/"), 0))
    assert (answer.status_code, b"You are signed out" in answer.content) == (200, True)
    assert b'href="/sign-in?next=/devices/"' in answer.content
    assert signed_in.get("/").content == b"nobody none"
    assert names(presence) == {"phone", "tablet"}
    assert signed_in.get("/devices/").status_code == 401


def test_the_view_checks_its_own_token_also_where_django_checks_none(presence: Presence, signed_in: Any) -> None:
    from django.test import Client

    form = form_of(signed_in.get("/devices/"), 1)
    strict = Client(enforce_csrf_checks=True, headers={"accept": "text/html"})
    strict.cookies = signed_in.cookies
    for wrong in ({"csrf": ""}, {"csrf": form["csrf"][:-1]}):
        assert send(strict, form | wrong).status_code == 403
    assert send(strict, form, headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert send(strict, form | {"x": "y" * 5000}).status_code == 413
    assert names(presence) == {None, "phone", "tablet"}
    assert send(strict, form).status_code == 303


def test_the_api_and_its_refusals(presence: Presence, signed_in: Any) -> None:
    token = json.loads(signed_in.get("/devices/api").content)["csrf"]

    def post(path: str, body: Any, **headers: str) -> Any:
        return signed_in.post(f"/devices/api/{path}", body, content_type="application/json", headers=headers)

    assert post("sign-out", {"device": "x"}, **{"x-csrf-token": token}).status_code == 404
    assert post("sign-out-others", {}).status_code == 403
    assert json.loads(post("sign-out-others", {}, **{"x-csrf-token": token}).content) == {"ended": 2}
    assert signed_in.get("/devices/api/nowhere").status_code == 404
    assert signed_in.put("/devices/").status_code == 405
    assert json.loads(browser().get("/devices/api").content)["code"] == "unknown"


def test_the_language_is_djangos_and_options_come_from_the_settings(presence: Presence, signed_in: Any) -> None:
    from django.utils import translation

    german = {"accept-language": "de"}
    assert b"<h1>Your devices</h1>" in signed_in.get("/devices/", headers=german).content
    with translation.override("fr"):
        assert b"<h1>Vos appareils</h1>" in signed_in.get("/devices/", headers=german).content
    drawer = "tests.web.your_devices.test_django_devices.draw"
    with devices_settings(language="es", theme={"accent": "#123456"}, template=drawer):
        drawn = signed_in.get("/devices/").content.decode()
        assert drawn.startswith("drawn: Sus dispositivos")
        assert "--devices-accent: #123456" in drawn


def draw(page: Any) -> str:
    return f"drawn: {page.title} {page.style}"


def test_signing_in_again_is_a_recent_login(server: Server, presence: Presence, signed_in: Any) -> None:
    """In the same session: its login time stays."""
    with devices_settings(fresh=60):
        form = form_of(signed_in.get("/devices/"), 1)
        login = presence.sessions(uid("ada"))[-1]
        authenticate_earlier(server, presence, login)
        refused = send(signed_in, form)
        assert (refused.status_code, b'href="/sign-in?next=/devices/"' in refused.content) == (401, True)
    with devices_settings(fresh=600):
        sign_in(signed_in)
        session = presence.sessions(uid("ada"))[-1]
        assert session.login_at == login.login_at, "the same session"
        assert session.authenticated_at >= login.login_at, "renewed"
        assert send(signed_in, form_of(signed_in.get("/devices/"), 1)).status_code == 303


def test_it_runs_under_asgi(presence: Presence) -> None:
    async def site() -> None:
        client = async_browser()
        await client.post("/async/sign-in", {"who": "ada", "password": PASSWORD})
        page = await client.get("/devices/")
        assert page.status_code == 200
        answer = await send(client, form_of(page, 1))
        assert (answer.status_code, answer.headers["Location"]) == (303, "?done=device")
        ours = form_of(await client.get("/devices/"), 0)
        answer = await send(client, ours)
        assert b"You are signed out" in answer.content
        assert (await client.get("/")).content == b"nobody none"
        assert (await asyncio.to_thread(presence.sessions, ada)) == []

    ada = uid("ada")
    presence.login(ada, device="phone")
    run(site)
    assert [end.cause for end in presence.ended(ada)] == ["user", "self"]


@pytest.mark.parametrize("length", [None, b"", b"0", b"\xb2", b"-1", b"5000"], ids=repr)
def test_no_body_is_read_whose_length_is_unknown_or_too_large(presence: Presence, length: bytes | None) -> None:
    from django.core.handlers.asgi import ASGIRequest

    from presence_core.web.django.your_devices import your_devices

    class Unread(BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise AssertionError(f"read {size}")

    headers = [(b"content-type", b"application/x-www-form-urlencoded")]
    headers += [] if length is None else [(b"content-length", length)]
    scope = {"type": "http", "method": "POST", "path": "/devices/", "query_string": b"", "headers": headers}
    request = ASGIRequest(scope, Unread())
    request.presence_verdict = Verdict(passes=True, state="anonymous")
    assert your_devices(request).status_code == 401


def test_while_redis_is_away_the_page_answers_503(presence: Presence, signed_in: Any, server: Any) -> None:
    from tests.web.frameworks.test_django import rules

    with rules(on_unavailable="grace"):
        assert signed_in.get("/devices/").status_code == 200
        server.kill()
        try:
            answer = signed_in.get("/devices/")
        finally:
            server.restart()
    assert (answer.status_code, b"Your devices cannot be shown right now" in answer.content) == (503, True)


def test_the_link_of_a_notice_needs_no_login_to_django(presence: Presence, signed_in: Any) -> None:
    from presence_core.web.django.config import notice_link

    phone = next(session for session in presence.sessions(uid("ada")) if session.device == "phone")
    made = notice_link("https://shop.example/devices/notice").make(phone.uid, phone.session_id, phone.login_at)
    path = made.removeprefix("https://shop.example")
    assert b"Was this you?" in browser().get(path).content
    form = {"path": path, "data": urlencode({"answer": "not-me"}), "content_type": "application/x-www-form-urlencoded"}
    assert browser().post(**form).status_code == 200
    assert (browser().get(path).status_code, browser().post(**form).status_code) == (404, 404)
    assert [end.cause for end in presence.ended(phone.uid)] == ["denied"]
    assert names(presence) == {None, "tablet"}
