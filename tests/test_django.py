"""The Django app: login, logout, a new password and a kick, as a site with Django's own sessions meets them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from presence_core import Presence, Settings
from presence_core.web.rules import hashed_id
from tests import django_site
from tests.django_site import PASSWORD
from tests.fair_clock import PATIENT
from tests.servers import Server, missing, redis_binary, valkey_binary


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    directory = tmp_path_factory.mktemp("django")
    with Server.start(binary, directory, "--appendonly", "yes", "--appendfsync", "always", port=True) as running:
        django_site.configure(running.url, "site")
        yield running


@pytest.fixture
def presence(server: Server) -> Iterator[Presence]:
    """What the dashboard would see."""
    from django.contrib.auth import get_user_model
    from django.test import override_settings

    server.command("FLUSHALL")
    users = get_user_model().objects
    users.all().delete()
    users.create_user("ada", "ada@example.org", PASSWORD, first_name="Ada", last_name="Lovelace")
    users.create_user("eve", "eve@example.org", PASSWORD)
    quick = {"namespace": "site", "timeout": PATIENT}
    with (
        override_settings(PRESENCE_REDIS_URL=server.url, PRESENCE_SETTINGS=quick, PRESENCE_RULES={}),
        Presence.from_url(server.url, Settings("site", timeout=PATIENT)) as watching,
    ):
        yield watching


def rules(**given: Any) -> Any:
    from django.test import override_settings

    return override_settings(PRESENCE_RULES=given)


def browser() -> Any:
    from django.test import Client

    return Client(headers={"accept": "text/html,*/*;q=0.8"})


def sign_in(client: Any, who: str = "ada", password: str = PASSWORD) -> Any:
    return client.post("/sign-in", {"who": who, "password": password}, headers={"user-agent": "Firefox"})


def uid(name: str) -> str:
    from django.contrib.auth import get_user_model

    return str(get_user_model().objects.get(username=name).pk)


def test_a_login_begins_a_session_by_a_hash_of_djangos_key_and_a_logout_ends_it(presence: Presence) -> None:
    client = browser()
    assert client.get("/").content == b"nobody none"
    assert sign_in(client).content == b"in"
    [session] = presence.sessions(uid("ada"))
    assert (session.name, session.aliases) == ("Ada Lovelace", ("ada", "ada@example.org"))
    assert (session.ip, session.user_agent) == ("127.0.0.1", "Firefox")
    assert session.session_id == hashed_id(client.session.session_key)
    assert session.absolute_timeout == 1_209_600, "as long as Django lets it"
    assert client.get("/").content.decode() == f"ada {session.session_id}"
    client.get("/sign-out")
    assert presence.sessions(uid("ada")) == []
    assert [end.reason for end in presence.ended(uid("ada"))] == ["logout"]


def test_a_kicked_browser_is_logged_out_of_django_and_told_why(presence: Presence) -> None:
    client, other = browser(), browser()
    sign_in(client)
    sign_in(other)
    [newest, first] = presence.sessions(uid("ada"))
    presence.kick(uid("ada"), first.session_id, by="sam", reason="stolen", message="Please call us.")
    answer = client.get("/")
    assert (answer.status_code, answer.headers["Location"]) == (302, "/sign-in")
    assert client.get("/sign-in").content == b"Please call us."
    assert client.get("/").content == b"nobody none"
    assert other.get("/").content.decode() == f"ada {newest.session_id}"
    assert sign_in(client).content == b"in"
    assert len(presence.sessions(uid("ada"))) == 2


def test_who_was_kicked_and_is_blocked_reads_until_when(presence: Presence) -> None:
    client = browser()
    sign_in(client)
    presence.block(uid("ada"), by="sam", reason="fraud")
    presence.kick(uid("ada"), by="sam", reason="fraud", message="Please call us.")
    assert client.get("/").status_code == 302
    said = "Please call us. Signing in is blocked until our staff unblock it."
    assert client.get("/sign-in").content.decode() == said


def test_what_asks_for_no_html_gets_problem_json(presence: Presence) -> None:
    client = browser()
    sign_in(client)
    presence.kick(uid("ada"), by="sam", reason="stolen", message="Please call us.")
    answer = client.get("/", headers={"accept": "application/json"})
    assert (answer.status_code, answer.headers["Content-Type"]) == (401, "application/problem+json")
    assert (answer.json()["code"], answer.json()["message"]) == ("kicked", "Please call us.")


def test_a_new_password_keeps_this_session_with_a_new_key_and_ends_the_others(presence: Presence) -> None:
    client, other, eve = browser(), browser(), browser()
    sign_in(client)
    sign_in(other)
    sign_in(eve, "eve")
    key, here = client.session.session_key, client.get("/").content
    assert client.post("/password", {"password": "another one"}).content == b"changed"
    assert client.session.session_key != key
    assert client.get("/").content == here
    [session] = presence.sessions(uid("ada"))
    assert here.decode() == f"ada {session.session_id}"
    assert len(presence.sessions(uid("eve"))) == 1
    assert other.get("/").status_code == 302
    assert other.get("/sign-in").content == b"The password was changed. Please sign in again."
    [end] = presence.ended(uid("ada"), reason="kicked")
    assert (end.by, end.note) == (uid("ada"), "password changed")


def test_a_password_set_by_somebody_else_ends_all_of_a_users_sessions(presence: Presence) -> None:
    from django.contrib.auth import get_user_model

    client = browser()
    sign_in(client)
    user = get_user_model().objects.get(username="ada")
    user.first_name = "A."
    user.save()
    assert len(presence.sessions(uid("ada"))) == 1, "only a new password ends anything"
    user.set_password("reset")
    user.save()
    assert presence.sessions(uid("ada")) == []
    assert client.get("/").status_code == 302


def test_signing_in_again_in_one_browser_leaves_one_session(presence: Presence) -> None:
    client = browser()
    sign_in(client)
    first = client.get("/").content
    sign_in(client)
    assert client.get("/").content == first
    client.post("/password", {"password": PASSWORD + "!"})
    sign_in(client, password=PASSWORD + "!")
    assert len(presence.sessions(uid("ada"))) == 1
    sign_in(client, "eve")
    assert presence.sessions(uid("ada")) == []
    assert client.get("/").content.startswith(b"eve ")


def test_a_session_that_was_kicked_may_sign_in_again_at_once(presence: Presence) -> None:
    client = browser()
    sign_in(client)
    presence.kick(uid("ada"), by="sam", reason="test")
    with rules(public=("/sign-in",)):  # the sign-in page is reached with Django's session as it was
        assert sign_in(client).content == b"in"
        assert client.get("/").content.startswith(b"ada ")
    assert len(presence.sessions(uid("ada"))) == 1


def test_a_blocked_user_may_not_sign_in(presence: Presence) -> None:
    presence.block(uid("ada"), by="sam", reason="fraud", message="Please call us.")
    client = browser()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logging.getLogger("django.request"), "disabled", True)
        assert sign_in(client).status_code == 403
    assert client.get("/").content == b"nobody none"
    with rules(mode="observe"):
        assert sign_in(client).content == b"in"


def test_a_live_site_rolls_out_in_steps(presence: Presence) -> None:
    from django.contrib.auth import get_user_model

    before = browser()
    before.force_login(get_user_model().objects.get(username="ada"))
    session = before.session  # as it was before presence came: Django knows it, we do not
    session.pop("_presence_id", None)
    session.save()
    presence.kick(uid("ada"), by="sam", reason="test")
    session.cycle_key()
    before.cookies["sessionid"] = session.session_key
    with rules(mode="observe"):
        assert before.get("/").content == b"ada none"
    with rules(mode="adopt"):
        adopted = before.get("/").content
        assert adopted.startswith(b"ada ")
        assert adopted != b"ada none"
        assert before.get("/").content == adopted
        [one] = presence.sessions(uid("ada"))
        presence.kick(uid("ada"), one.session_id, by="sam", reason="test")
        assert before.get("/").status_code == 302
        assert before.get("/").content == b"nobody none"
    late = browser()
    late.force_login(get_user_model().objects.get(username="eve"))
    session = late.session
    session.pop("_presence_id", None)
    session.save()
    presence.kick(uid("eve"), by="sam", reason="test")
    session.cycle_key()
    late.cookies["sessionid"] = session.session_key
    assert late.get("/").status_code == 302, "enforced: no session, no entry"


def test_while_redis_is_away(presence: Presence, server: Server, caplog: pytest.LogCaptureFixture) -> None:
    client, fresh = browser(), browser()
    with rules(on_unavailable="closed", breaker_seconds=0.1):
        sign_in(client)
        server.kill()
        try:
            assert client.get("/").status_code == 503
            assert sign_in(fresh).status_code == 503
            assert browser().get("/").content == b"nobody none", "who is not signed in needs no Redis"
        finally:
            server.restart()
    with rules(on_unavailable="open", breaker_seconds=0.1):
        server.kill()
        try:
            assert sign_in(fresh).content == b"in"
            assert fresh.get("/").content == b"ada none"
        finally:
            server.restart()
        assert fresh.get("/").content.startswith(b"ada ")
        assert fresh.get("/").content != b"ada none", "begun as soon as Redis was back"
    assert client.get("/").content.startswith(b"ada ")
    assert len(presence.sessions(uid("ada"))) == 2


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("PRESENCE_RULES", {"mode": "on"}, "mode must be"),
        ("PRESENCE_RULES", ["x"], "PRESENCE_RULES must be a dict"),
        ("PRESENCE_RULES", {"mod": "on"}, "mod"),
        ("PRESENCE_SETTINGS", {"namespace": "A"}, "namespace must be"),
        ("PRESENCE_DESCRIBE", "no.such.function", "no"),
    ],
)
def test_bad_settings_are_told_in_one_sentence(presence: Presence, name: str, value: Any, word: str) -> None:
    from django.core.exceptions import ImproperlyConfigured
    from django.test import override_settings

    from presence_core.web.django.apps import config

    here = config()
    with pytest.raises(ImproperlyConfigured, match=word), override_settings(**{name: value}):
        pass
    here.check_settings()


def test_hooks_describe_a_login_and_answer_who_is_refused(presence: Presence) -> None:
    from django.http import HttpResponse
    from django.test import override_settings

    client = browser()
    with override_settings(
        PRESENCE_DESCRIBE=lambda request, user: {"device": "Mac", "name": user.username.upper()},
        PRESENCE_ON_ENDED=lambda request, ended: HttpResponse(ended.public.code, status=418),
    ):
        sign_in(client)
        [session] = presence.sessions(uid("ada"))
        assert (session.device, session.name, session.aliases) == ("Mac", "ADA", ("ada", "ada@example.org"))
        presence.kick(uid("ada"), by="sam", reason="test")
        assert (client.get("/").status_code, client.get("/").content) == (418, b"nobody none")


def test_no_name_that_django_takes_keeps_its_user_out(presence: Presence) -> None:
    from django.contrib.auth import get_user_model

    users = get_user_model().objects
    users.create_user("Ж" * 150, "", PASSWORD, first_name="Ж" * 150, last_name="Ж" * 150)
    users.create_user("bob", "", PASSWORD, first_name="Bob\n\x00", last_name="\x9b2J")
    for who, name in (("Ж" * 150, "Ж" * 126 + "…"), ("bob", "Bob    2J")):
        client = browser()
        sign_in(client, who)
        assert client.get("/").status_code == 200
        [session] = presence.sessions(str(users.get(username=who).pk))
        assert session.name == name
    [session] = presence.sessions(str(users.get(username="Ж" * 150).pk))
    assert session.aliases == ("Ж" * 126 + "…",)


def test_a_description_that_cannot_be_recorded_is_left_out(
    presence: Presence, caplog: pytest.LogCaptureFixture
) -> None:
    from django.test import override_settings

    with override_settings(PRESENCE_DESCRIBE=lambda request, user: {"device": "x" * 65, "app": "shop"}):
        client = browser()
        sign_in(client)
        assert client.get("/").status_code == 200
    [session] = presence.list_sessions()
    assert (session.name, session.device, session.app) == ("Ada Lovelace", None, None)
    assert "without what PRESENCE_DESCRIBE says of it: device must be text" in caplog.text
