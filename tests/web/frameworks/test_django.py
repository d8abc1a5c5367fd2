"""The Django app: login, logout, a new password and a kick, on a site with Django's own sessions."""

from __future__ import annotations

import json
import logging
import struct
import time
from collections.abc import Iterator
from http.cookies import SimpleCookie
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlencode

import pytest

from presence_core import Presence, Session, Settings
from presence_core.web.cookies import DEVICE_COOKIE
from presence_core.web.rules import hashed_id
from tests.support.fair_clock import PATIENT
from tests.support.programs.oidc_provider import CLIENT, Provider
from tests.support.servers import KEEPS_ALL, Server, missing, redis_binary, valkey_binary, wait_for
from tests.web.framework_pages.printed import blocks
from tests.web.frameworks import django_site
from tests.web.frameworks.django_site import PASSWORD


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    directory = tmp_path_factory.mktemp("django")
    with Server.start(binary, directory, *KEEPS_ALL, port=True) as running:
        django_site.configure(running.url, "site")
        yield running


@pytest.fixture
def presence(server: Server) -> Iterator[Presence]:
    """The sessions that the dashboard would show."""
    from django.contrib.auth import get_user_model
    from django.test import override_settings

    server.command("FLUSHALL")
    users = get_user_model().objects
    quick = {"namespace": "site", "timeout": PATIENT}
    with (
        override_settings(PRESENCE_REDIS_URL=server.url, PRESENCE_SETTINGS=quick, PRESENCE_RULES={}),
        Presence.from_url(server.url, Settings("site", timeout=PATIENT)) as watching,
    ):
        users.all().delete()  # the product ends their sessions, on the server that the settings name
        users.create_user("ada", "ada@example.org", PASSWORD, first_name="Ada", last_name="Lovelace")
        users.create_user("eve", "eve@example.org", PASSWORD)
        yield watching


def test_djangos_own_signal_reports_the_sign_ins_that_fail(presence: Presence) -> None:
    from django.contrib.auth import authenticate, get_user_model

    eve = get_user_model().objects.get(username="eve")
    eve.is_active = False
    eve.save()
    ada = str(get_user_model().objects.get(username="ada").pk)
    presence.login(ada)
    for name, password in (("ada", "wrong"), ("ada", "wrong"), ("eve", PASSWORD), ("kim@example.org", "hunter2")):
        assert authenticate(username=name, password=password) is None
    assert authenticate(username="ada", password=PASSWORD) is not None
    found = {(failure.uid, failure.why): failure.count for failure in presence.failed_logins()}
    assert found == {(ada, "wrong_password"): 2, (str(eve.pk), "locked"): 1, (None, "unknown_name"): 1}
    assert [failure.name_kind for failure in presence.failed_logins("kim@example.org")] == ["email"]


class NoBackend:
    """Knows no account: the handler of the signal is the first to look in the database."""

    def authenticate(self, request: Any, username: str, password: str) -> None:
        return None


@pytest.mark.parametrize("typed", ["a\udfff", "a\0b", "x" * 100_000, "9" * 400])
def test_a_name_that_no_database_takes_is_a_failed_sign_in_too(presence: Presence, typed: str) -> None:
    from django.contrib.auth import authenticate
    from django.test import override_settings

    with override_settings(AUTHENTICATION_BACKENDS=[f"{__name__}.NoBackend"]):
        assert authenticate(username=typed, password="wrong") is None
    assert [(failure.uid, failure.why) for failure in presence.failed_logins()] == [(None, "unknown_name")]


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


def test_a_kicked_browser_is_logged_out_of_django_and_gets_the_reason(presence: Presence) -> None:
    client, other = browser(), browser()
    sign_in(client)
    sign_in(other)
    [newest, first] = presence.sessions(uid("ada"))
    presence.kick(uid("ada"), first.session_id, by="sam", reason="stolen", message="Please call us.")
    answer = client.get("/")
    assert (answer.status_code, answer.headers["Location"]) == (302, "/sign-in?next=/")
    assert client.get("/sign-in").content == b"Please call us."
    assert client.get("/").content == b"nobody none"
    assert other.get("/").content.decode() == f"ada {newest.session_id}"
    assert sign_in(client).content == b"in"
    assert len(presence.sessions(uid("ada"))) == 2


def authenticated_long_ago(server: Server, presence: Presence) -> Session:
    """Ada's only session, whose authentication is moved back by 61 seconds."""
    [session] = presence.sessions(uid("ada"))
    authenticate_earlier(server, presence, session)
    return session


def authenticate_earlier(server: Server, presence: Presence, session: Session) -> None:
    """Move its authentication back by 61 seconds."""
    record = presence.internal.context.shard(session.uid).record(session.uid, session.session_id)
    past = round(session.login_at.timestamp() * 1000) - 61_000
    with server.client() as raw:
        raw.hset(record, "h", struct.pack(">Q", past) + b"0")


@pytest.mark.parametrize("path", ["/pay", "/async/pay", "/by-rules"])
def test_a_view_may_need_a_fresh_session_and_a_new_sign_in_makes_it_fresh(
    server: Server, presence: Presence, path: str
) -> None:
    with rules(fresh={"/by-rules": 60}, anonymous="pass"):
        client = browser()
        assert sign_in(client).content == b"in"
        assert client.get(path).status_code == 200
        session = authenticated_long_ago(server, presence)
        answer = client.get(path)
        assert (answer.status_code, answer.headers["Location"]) == (302, f"/sign-in?next={path}")
        assert client.post(path).headers["Location"] == "/sign-in"
        plain = client.get(path, headers={"accept": "application/json"})
        assert (plain.status_code, plain.json()["code"], plain.json()["max_age"]) == (401, "authentication_too_old", 60)
        assert client.get("/").content.decode() == f"ada {session.session_id}", "they are still signed in"
        stolen = browser()
        stolen.cookies = SimpleCookie({name: morsel.value for name, morsel in client.cookies.items()})
        assert stolen.get("/").content == client.get("/").content
        assert sign_in(client).content == b"in"
        assert client.get(path).status_code == 200
        assert stolen.get("/").content == b"nobody none", "a copy of the cookie opens nothing any more"
        [same] = presence.sessions(uid("ada"))
        assert (same.session_id, same.login_at) == (session.session_id, session.login_at)
        assert same.authenticated_at > session.login_at


@pytest.mark.parametrize("gateway", ["wsgi", "asgi"])
def test_rules_match_a_path_that_is_not_ascii(server: Server, presence: Presence, gateway: str) -> None:
    from asgiref.sync import async_to_sync
    from django.test import AsyncClient, override_settings

    def status(path: str) -> int:
        return int(get(path, headers={"accept": "application/json"}).status_code)

    class DecodingClient(AsyncClient):  # type: ignore[misc]  # Django ships no types
        def _base_scope(self, **request: Any) -> Any:
            scope = super()._base_scope(**request)
            return scope | {"path": scope["path"].encode("latin-1").decode()}  # as a server decodes it

    client = browser() if gateway == "wsgi" else DecodingClient()
    get = client.get if gateway == "wsgi" else async_to_sync(client.get)
    with rules(public=("/größe",), anonymous="refuse"):
        assert (status("/größe"), status("/by-rules")) == (200, 401)
    in_thread = browser()
    sign_in(in_thread)
    client.cookies = in_thread.cookies
    assert status("/größe") == 200
    authenticated_long_ago(server, presence)
    with rules(fresh={"/größe": 60}):
        assert (status("/größe"), status("/by-rules")) == (401, 200)
    with rules(routes={"/größe": "open"}), override_settings(PRESENCE_REDIS_URL="redis://127.0.0.1:1"):
        assert (status("/größe"), status("/by-rules")) == (200, 503)


def test_a_browser_that_must_sign_in_again_gets_the_message_of_staff_and_a_new_session(presence: Presence) -> None:
    client, other = browser(), browser()
    sign_in(client)
    [session] = presence.sessions(uid("ada"))
    sign_in(other)
    presence.require_sign_in(uid("ada"), session.session_id, by="sam", reason="odd", message="Is it you?")
    answer = client.get("/")
    assert (answer.status_code, answer.headers["Location"]) == (302, "/sign-in?next=/")
    assert client.get("/sign-in").content == b"Is it you?"
    assert client.get("/").content == b"nobody none"
    assert other.get("/").status_code == 200
    assert sign_in(client).content == b"in"
    assert client.get("/").status_code == 200


def test_a_kicked_and_blocked_user_sees_the_end_of_the_block(presence: Presence) -> None:
    client = browser()
    sign_in(client)
    presence.block(uid("ada"), by="sam", reason="fraud")
    presence.kick(uid("ada"), by="sam", reason="fraud", message="Please call us.")
    assert client.get("/").status_code == 302
    said = "Please call us. Signing in is blocked until our staff unblock it."
    assert client.get("/sign-in").content.decode() == said


def test_a_request_that_does_not_accept_html_gets_problem_json(presence: Presence) -> None:
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


def test_a_password_set_by_another_person_ends_all_of_a_users_sessions(presence: Presence) -> None:
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


def test_the_view_of_the_identity_provider_ends_the_session_that_it_signs_out(
    presence: Presence, tmp_path: Path
) -> None:
    """Also what a process before has left in the spool, when the site starts."""
    from django.core.handlers.wsgi import WSGIHandler
    from django.test import Client, override_settings
    from django.urls import path

    from presence_core.web.backchannel_logout import django as view

    with Provider() as provider:
        issuer = {"issuer": provider.url, "audience": CLIENT, "jwks_uri": f"{provider.url}/jwks", "name": "Okta",
                  "algorithms": ["RS256"]}  # fmt: skip
        logins = [presence.login("ada", idp={"iss": provider.url, "sid": f"sid-{n}"}).token for n in range(3)]
        waits = {"issuer": provider.url, "subject": None, "session": "sid-2", "token_id": "t", "issued_at": time.time(),
                 "seconds": 300}  # fmt: skip
        (tmp_path / "a.json").write_text(json.dumps({"logout": waits, "by": "Okta"}))
        view.receiver.cache_clear()
        urls = ModuleType("urls")
        vars(urls)["urlpatterns"] = [path("backchannel-logout", view.backchannel_logout)]
        with override_settings(ROOT_URLCONF=urls, PRESENCE_ISSUERS=[issuer], PRESENCE_LOGOUT_SPOOL=str(tmp_path)):
            WSGIHandler()  # as a server starts it
            wait_for("the spool", lambda: not presence.validate(logins[2]))
            client = Client(enforce_csrf_checks=True)
            token = provider.logout_token(sub="ada", sid="sid-1")
            assert client.post("/backchannel-logout", {"logout_token": token}).status_code == 400, "multipart"
            form = {"data": urlencode({"logout_token": token}), "content_type": "application/x-www-form-urlencoded"}
            assert [client.post("/backchannel-logout", **form).status_code for _ in range(2)] == [200, 400]
            assert client.get("/backchannel-logout").status_code == 405
        view.receiver.cache_clear()
    assert [bool(presence.validate(token)) for token in logins] == [True, False, False]


def ends(presence: Presence, who: str) -> list[tuple[str | None, str | None]]:
    return [(end.by, end.note) for end in presence.ended(who, reason="kicked")]


def test_changes_of_staff_to_an_account_are_audited_under_their_name(presence: Presence) -> None:
    ada, eve, client, staff = uid("ada"), uid("eve"), browser(), browser()
    sign_in(client)
    sign_in(staff, "eve")
    staff.post("/act", {"who": "ada", "password": "reset"})
    assert ends(presence, ada) == [("eve", "password changed")]
    assert [entry.by for entry in presence.audit(uid=ada)] == ["eve"]
    assert len(presence.sessions(eve)) == 1
    sign_in(browser(), password="reset")
    browser().post("/act", {"who": "ada", "password": "by a link"})  # by a link in an e-mail: no user is signed in
    assert ends(presence, ada)[0] == ("anonymous visitor", "password changed")


def test_changes_of_a_program_to_an_account_are_audited_under_its_name(
    presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.contrib.auth import get_user_model

    ada = uid("ada")
    for words, by in (
        (["/srv/site/manage.py", "changepassword", "ada"], "manage.py changepassword"),
        (["/usr/lib/django/__main__.py", "changepassword"], "manage.py changepassword"),
        (["/usr/bin/celery", "-A", "site", "worker"], "celery"),
        (["-c"], "Django"),
    ):
        sign_in(browser())
        user = get_user_model().objects.get(pk=ada)
        monkeypatch.setattr("sys.argv", words)
        user.set_password(PASSWORD)
        user.save()
        assert ends(presence, ada)[0] == (by, "password changed")


@pytest.mark.parametrize(("act", "note"), [("inactive", "account deactivated"), ("delete", "account deleted")])
def test_the_sessions_of_a_closed_account_end_with_it(presence: Presence, act: str, note: str) -> None:
    ada, eve, client, staff = uid("ada"), uid("eve"), browser(), browser()
    sign_in(client)
    sign_in(browser())
    sign_in(staff, "eve")
    staff.post("/act", {"who": "ada", act: "yes"})
    assert presence.sessions(ada) == []
    assert ends(presence, ada) == [("eve", note)] * 2
    assert client.get("/").status_code == 302
    assert client.get("/").content == b"nobody none"
    assert len(presence.sessions(eve)) == 1


def test_an_account_whose_closing_is_rolled_back_keeps_its_sessions(presence: Presence) -> None:
    from django.contrib.auth import get_user_model
    from django.db import transaction

    ada, client = uid("ada"), browser()
    sign_in(client)
    for close in ("save", "delete"):
        user = get_user_model().objects.get(pk=ada)
        user.is_active = False
        with transaction.atomic():
            getattr(user, close)()
            assert len(presence.sessions(ada)) == 1
            transaction.set_rollback(True)
        assert len(presence.sessions(ada)) == 1
    assert client.get("/").content.startswith(b"ada ")
    with transaction.atomic():
        get_user_model().objects.filter(pk=ada).delete()
        assert len(presence.sessions(ada)) == 1, "not before it is committed"
    assert presence.sessions(ada) == []


def test_only_the_save_that_deactivates_an_account_ends_its_sessions(presence: Presence) -> None:
    """Some sites let inactive users sign in (AllowAllUsersModelBackend)."""
    from django.contrib.auth import get_user_model

    class Customer(get_user_model()):  # type: ignore[misc]
        class Meta:
            proxy = True
            app_label = "auth"

    user, ada = Customer.objects.get(username="ada"), uid("ada")
    presence.login(ada)
    user.is_active = False
    user.save(update_fields=["first_name"])
    assert len(presence.sessions(ada)) == 1
    signals_of(Customer)
    user.save()
    assert [note for _, note in ends(presence, ada)] == ["account deactivated"]
    presence.login(ada)
    user.first_name = "A."
    user.save()
    assert len(presence.sessions(ada)) == 1
    assert len(presence.audit(uid=ada).items) == 1


def _named(presence: Presence, who: str) -> list[tuple[Any, ...]]:
    return [(session.name, *session.aliases) for session in presence.sessions(who)]


def test_a_saved_name_or_email_is_that_of_the_users_sessions(presence: Presence) -> None:
    from django.contrib.auth import get_user_model
    from django.db import transaction

    ada, client = uid("ada"), browser()
    sign_in(client)
    sign_in(browser(), "eve")
    presence.login(ada, name="of another system")
    user = get_user_model().objects.get(pk=ada)
    user.is_staff = True
    user.save()
    assert _named(presence, ada)[0] == ("of another system",), "a save without a new name changes nothing"
    user.first_name, user.email = "Augusta", "augusta@example.org"
    user.save(update_fields=["last_name"])
    assert _named(presence, ada)[0] == ("of another system",), "the database has the former name"
    with transaction.atomic():
        user.save()
        assert presence.people("augusta") == [], "not before it is committed"
    assert _named(presence, ada) == [("Augusta Lovelace", "ada", "augusta@example.org")] * 2
    assert [person.uid for person in presence.people("augusta@")] == [ada]
    assert presence.people("ada@example") == []
    assert _named(presence, uid("eve")) == [("eve", "eve", "eve@example.org")]
    assert client.get("/").content.startswith(b"ada ")
    with transaction.atomic():
        user.first_name = "Rolled back"
        user.save()
        transaction.set_rollback(True)
    assert _named(presence, ada)[0][0] == "Augusta Lovelace"
    user.first_name, user.is_active = "Closed", False
    user.save()
    assert presence.sessions(ada) == []
    assert [(person.uid, person.name) for person in presence.people("closed")] == [(ada, "Closed Lovelace")]


def test_a_save_asks_for_the_former_name_only_where_it_may_have_changed(presence: Presence) -> None:
    from django.contrib.auth import get_user_model
    from django.db import connection
    from django.test import override_settings
    from django.test.utils import CaptureQueriesContext

    user = get_user_model().objects.get(username="ada")
    presence.login(str(user.pk), name="Ada")

    def queries(*changed: str) -> int:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            user.save(update_fields=changed or None)
        return len(captured)

    assert (queries("last_login"), queries("password", "is_active"), queries("email"), queries()) == (1, 1, 2, 2)
    with override_settings(PRESENCE_UPDATE_PERSON=False):
        user.first_name = "Augusta"
        assert queries() == 1
    assert _named(presence, str(user.pk)) == [("Ada",)]


def test_a_save_follows_the_description_of_logins_and_fails_for_no_error(
    presence: Presence, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    from django.contrib.auth import get_user_model
    from django.test import override_settings

    from presence_core.web.django.current_request import answering

    user = get_user_model().objects.get(username="ada")
    ada = str(user.pk)
    presence.login(ada, name="Ada")

    def rename(name: str) -> list[tuple[Any, ...]]:
        user.first_name = name
        user.save()
        return _named(presence, ada)

    with override_settings(PRESENCE_DESCRIBE=lambda request, user: {"device": "Mac", "name": user.first_name.upper()}):
        assert rename("Augusta") == [("Ada",)], "outside of a request the function cannot be asked"
        with answering(object(), None):
            assert rename("Byron") == [("BYRON", "ada", "ada@example.org")]
    with override_settings(PRESENCE_DESCRIBE=lambda request, user: user.no_such_field), answering(object(), None):
        assert rename("Clara") == [("BYRON", "ada", "ada@example.org")]
    assert "the name of a user could not be read" in caplog.text
    with override_settings(PRESENCE_SETTINGS={"namespace": "site", "unfit": "refuse"}):
        user.email = "\x07@example.org"
        assert rename("Dora")[0][0] == "BYRON"
    assert "a new name was not recorded" in caplog.text
    caplog.clear()
    user.email = "ada@example.org"
    quick = {"namespace": "site", "timeout": 0.1}
    with override_settings(PRESENCE_REDIS_URL="redis://127.0.0.1:1", PRESENCE_SETTINGS=quick):
        rename("Emma")
    assert "a new name was not recorded" in caplog.text
    assert get_user_model().objects.get(pk=ada).first_name == "Emma"
    assert rename("Fanny")[0][0] == "Fanny Lovelace"


def signals_of(model: Any) -> None:
    """The effect of ready() on the models that exist when the site starts."""
    from presence_core.web.django.apps import config

    config().listen_to(model)


def test_a_site_that_names_no_server_gets_one_sentence(presence: Presence, monkeypatch: pytest.MonkeyPatch) -> None:
    from django.core.exceptions import ImproperlyConfigured
    from django.test import override_settings

    from presence_core.web.django.apps import get_presence

    for name in ("PRESENCE_REDIS_URL", "REDIS_URL"):
        monkeypatch.delenv(name, raising=False)
    with (
        override_settings(PRESENCE_REDIS_URL=None),
        pytest.raises(ImproperlyConfigured, match=r"^PRESENCE_REDIS_URL must be set: [^.]+\.$"),
    ):
        get_presence()


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


def test_the_urls_of_the_page_run_as_printed(presence: Presence) -> None:
    from django.test import override_settings

    printed = blocks("django")
    urls, answers = ModuleType("mysite_urls"), ModuleType("mysite_answers")
    exec(compile(printed["urls.py"], "docs/use/frameworks/django.md, urls.py", "exec"), vars(urls))
    exec(compile(printed["answers.py"], "docs/use/frameworks/django.md, answers.py", "exec"), vars(answers))
    refused = {"public": ("/sign-in",), "anonymous": "refuse"}

    def form(client: Any, who: str = "ada", password: str = PASSWORD) -> Any:
        return client.post("/sign-in", {"username": who, "password": password})

    with override_settings(ROOT_URLCONF=urls, LOGIN_REDIRECT_URL="/"):
        client = browser()
        assert client.get("/").headers["Location"] == "/sign-in?next=/", "an anonymous visitor"
        assert form(client, password="wrong").status_code == 200
        for _ in range(2):  # the second one too leaves one session
            old = client.cookies["sessionid"].value if "sessionid" in client.cookies else None
            assert form(client).headers["Location"] == "/"
            assert b"Hello ada." in client.get("/").content
            assert len(presence.sessions(uid("ada"))) == 1
            assert client.cookies["sessionid"].value != old
        assert form(client, "eve").status_code == 302
        assert (presence.sessions(uid("ada")), len(presence.sessions(uid("eve")))) == ([], 1)
        for _ in range(2):
            assert client.post("/sign-out").status_code < 400
            assert presence.sessions(uid("eve")) == []
        with override_settings(PRESENCE_ON_ENDED=answers.please_sign_in, PRESENCE_RULES=refused):
            anonymous = client.get("/")
            assert (anonymous.status_code, anonymous.content) == (401, b"Please sign in.")
            form(client)
            presence.kick(uid("ada"), by="sam", reason="test", message="Please call us.")
            assert client.get("/").content == b"Please call us."
            presence.block(uid("ada"), by="sam", reason="test", message="On hold.")
            blocked = form(client)
            assert (blocked.status_code, b"On hold." in blocked.content) == (403, True)


def test_a_kicked_user_may_sign_in_again_at_once(presence: Presence) -> None:
    client = browser()
    sign_in(client)
    presence.kick(uid("ada"), by="sam", reason="test")
    with rules(public=("/sign-in",)):  # the browser opens the sign-in page with its old Django session
        assert sign_in(client).content == b"in"
        assert client.get("/").content.startswith(b"ada ")
    assert len(presence.sessions(uid("ada"))) == 1


def test_a_blocked_user_may_not_sign_in(presence: Presence) -> None:
    presence.block(uid("ada"), by="sam", reason="fraud", message="Please call us.")
    client = browser()
    sentence = "Please call us. Signing in is blocked until our staff unblock it."
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logging.getLogger("django.request"), "disabled", True)
        answer = sign_in(client)
        assert (answer.status_code, sentence in answer.content.decode()) == (403, True)
        form = {"who": "ada", "password": PASSWORD}
        answer = client.post("/sign-in", form, headers={"accept": "application/json"})
        assert (answer.status_code, answer.headers["Content-Type"]) == (403, "application/problem+json")
        assert (answer.json()["code"], answer.json()["message"]) == ("blocked", sentence)
        with own_pages({"403.html": "<p>Sorry. {{ exception }}</p>"}):
            assert sign_in(client).content.decode() == f"<p>Sorry. {sentence}</p>"
    assert client.get("/").content == b"nobody none"
    with rules(mode="observe"):
        assert sign_in(client).content == b"in"


def own_pages(pages: dict[str, str]) -> Any:
    from django.test import override_settings

    loaders = [("django.template.loaders.locmem.Loader", pages)]
    backend = "django.template.backends.django.DjangoTemplates"
    return override_settings(TEMPLATES=[{"BACKEND": backend, "OPTIONS": {"loaders": loaders}}])


def test_a_live_site_can_adopt_the_app_in_steps(presence: Presence) -> None:
    from django.contrib.auth import get_user_model

    before = browser()
    before.force_login(get_user_model().objects.get(username="ada"))
    session = before.session  # before presence was installed: Django knows the session, the library does not
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
        [record] = presence.sessions(uid("ada"))
        presence.kick(uid("ada"), record.session_id, by="sam", reason="test")
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


def test_requests_while_redis_is_down(presence: Presence, server: Server, caplog: pytest.LogCaptureFixture) -> None:
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
def test_bad_settings_are_reported_in_one_sentence(presence: Presence, name: str, value: Any, word: str) -> None:
    from django.core.exceptions import ImproperlyConfigured
    from django.test import override_settings

    from presence_core.web.django.apps import config

    here = config()
    with pytest.raises(ImproperlyConfigured, match=word), override_settings(**{name: value}):
        pass
    here.check_settings()


def test_settings_come_from_the_site_then_from_the_environment_then_from_django(
    presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.core.exceptions import ImproperlyConfigured
    from django.test import override_settings

    from presence_core.web.django.apps import config

    def used(**given: Any) -> tuple[str, int, int, int | None, bool]:
        with override_settings(PRESENCE_SETTINGS=given):
            found = Settings.from_env(config().environ())
            return (found.namespace, found.idle_timeout, found.absolute_timeout, found.max_sessions_per_device,
                    config().has_timeouts)  # fmt: skip

    age = 1_209_600
    assert used() == ("online", age, age, None, False)
    monkeypatch.setenv("PRESENCE_NAMESPACE", "shop")
    monkeypatch.setenv("PRESENCE_MAX_SESSIONS_PER_DEVICE", "2")
    assert used() == ("shop", age, age, 2, False)
    monkeypatch.setenv("PRESENCE_IDLE_TIMEOUT", "900")
    assert used() == ("shop", 900, age, 2, True)
    monkeypatch.setenv("PRESENCE_IDLE_TIMEOUT", "200000")
    assert used(absolute_timeout=300_000) == ("shop", 200_000, 300_000, 2, True)
    assert used(namespace="site", idle_timeout=60, max_sessions_per_device=None) == ("site", 60, age, None, True)
    monkeypatch.setenv("PRESENCE_TIMEOUT", "long")
    with pytest.raises(ImproperlyConfigured, match="PRESENCE_TIMEOUT must be a number"):
        used()


def test_hooks_describe_a_login_and_answer_refused_visitors(presence: Presence) -> None:
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


def test_every_name_that_django_accepts_can_sign_in(presence: Presence) -> None:
    from django.contrib.auth import get_user_model

    users = get_user_model().objects
    users.create_user("Ж" * 150, "", PASSWORD, first_name="Ж" * 150, last_name="Ж" * 150)
    users.create_user("bob", "", PASSWORD, first_name="Bob\n\x00", last_name="\x9b2J")
    for who, name in (("Ж" * 150, "Ж" * 128), ("bob", "Bob  2J")):
        client = browser()
        sign_in(client, who)
        assert client.get("/").status_code == 200
        [session] = presence.sessions(str(users.get(username=who).pk))
        assert session.name == name
    [session] = presence.sessions(str(users.get(username="Ж" * 150).pk))
    assert session.aliases == (), "a key of searches is not cut"


def test_a_name_that_is_not_unicode_can_sign_in_like_others(presence: Presence) -> None:
    from django.contrib.auth import get_user_model

    user = get_user_model().objects.get(username="ada")
    with pytest.MonkeyPatch.context() as patch:  # as a backend without a database may provide them
        patch.setattr(type(user), "get_full_name", lambda self: "Ada \udcff\ud800")
        patch.setattr(type(user), "get_username", lambda self: "a\udce9da")
        client = browser()
        assert client.post("/sign-in", {"who": "ada", "password": PASSWORD}).content == b"in"
    [session] = presence.sessions(uid("ada"))
    assert (session.name, session.aliases[0]) == ("Ada", "ada@example.org")


def test_a_session_lives_as_long_as_the_site_allows(presence: Presence) -> None:
    from django.contrib.auth import get_user_model
    from django.test import override_settings

    user, month = get_user_model().objects.get(username="ada"), 30 * 86_400

    def begun(expiry: int | None) -> Any:
        client = browser()
        session = client.session
        if expiry is not None:
            session.set_expiry(expiry)  # "remember me", before login
            session.save()
            client.cookies["sessionid"] = session.session_key
        client.force_login(user)
        [session] = presence.sessions(uid("ada"))
        presence.kick(uid("ada"), by="sam", reason="test")
        return session.idle_timeout, session.absolute_timeout

    assert begun(None) == (1_209_600, 1_209_600)
    assert begun(0) == (1_209_600, 1_209_600)
    assert begun(month) == (month, month)
    assert begun(3600) == (3600, 1_209_600)
    with override_settings(SESSION_SAVE_EVERY_REQUEST=True, PRESENCE_KICK_OTHERS=True):
        assert begun(None) == (1_209_600, 365 * 86_400), "Django ends no session that is in use"
    given = {"namespace": "site", "timeout": PATIENT, "idle_timeout": 600, "absolute_timeout": 86_400}
    with override_settings(PRESENCE_SETTINGS=given):
        assert begun(month) == (600, 86_400), "what the site says of timeouts holds"


def test_a_description_that_cannot_be_stored_is_left_out(presence: Presence, caplog: pytest.LogCaptureFixture) -> None:
    from django.test import override_settings

    with override_settings(PRESENCE_DESCRIBE=lambda request, user: {"attributes": {"n": float("nan")}, "app": "shop"}):
        client = browser()
        sign_in(client)
        assert client.get("/").status_code == 200
    [session] = presence.list_sessions()
    assert (session.name, session.device, session.app) == ("Ada Lovelace", None, None)
    assert "without the result of PRESENCE_DESCRIBE: attributes must contain only JSON" in caplog.text


class ByHeader:
    """A login before PresenceMiddleware in the chain, like that of Django's RemoteUserMiddleware."""

    def __init__(self, get_response: Any) -> None:
        self._get_response = get_response

    def __call__(self, request: Any) -> Any:
        from django.contrib.auth import get_user_model, login

        name = request.headers.get("remote-user")
        if name and not request.user.is_authenticated:
            login(request, get_user_model().objects.get(username=name), "django.contrib.auth.backends.ModelBackend")
        return self._get_response(request)


def test_a_login_before_the_middleware_is_not_remembered_after_its_request(presence: Presence) -> None:
    from django.conf import settings
    from django.contrib.auth import get_user_model
    from django.test import override_settings

    chain = [*settings.MIDDLEWARE[:-1], "tests.web.frameworks.test_django.ByHeader", settings.MIDDLEWARE[-1]]
    with override_settings(MIDDLEWARE=chain):  # one thread answers all requests, as a WSGI server's does
        for name in ("ada", "eve"):
            assert browser().get("/", headers={"remote-user": name}).content.decode().startswith(name)
    ada, eve = uid("ada"), uid("eve")
    assert len(presence.sessions(ada)) == 1, "eve's login has ended hers"
    get_user_model().objects.get(username="ada").delete()
    assert presence.audit().items[0].by not in (ada, eve), "no request is being answered"


# -- the device ------------------------------------------------------------------------------------------------------


def _sign_in_over_https(client: Any) -> Any:
    return client.post("/sign-in", {"who": "ada", "password": PASSWORD}, secure=True)


def test_a_login_over_https_keeps_the_device_in_a_cookie_and_another_browser_is_new(presence: Presence) -> None:
    phone, laptop = browser(), browser()
    assert DEVICE_COOKIE not in phone.get("/", secure=True).cookies, "not before a login"
    kept = _sign_in_over_https(phone).cookies[DEVICE_COOKIE]
    assert (kept["httponly"], kept["secure"], kept["samesite"], kept["path"]) == (True, True, "Lax", "/")
    assert kept["max-age"] == 400 * 86_400
    assert kept["domain"] == ""
    phone.get("/sign-out", secure=True)
    assert _sign_in_over_https(phone).cookies[DEVICE_COOKIE].value == kept.value
    assert [session.new_device for session in presence.sessions(uid("ada"))] == [False]
    _sign_in_over_https(laptop)
    assert sorted(session.new_device for session in presence.sessions(uid("ada"))) == [False, True]


def test_a_login_without_https_sets_no_device_cookie(presence: Presence) -> None:
    from django.test import override_settings

    for _ in range(2):
        assert DEVICE_COOKIE not in sign_in(browser()).cookies
    with override_settings(PRESENCE_DEVICE_COOKIE=False):
        assert DEVICE_COOKIE not in _sign_in_over_https(browser()).cookies
    assert not any(session.new_device for session in presence.sessions(uid("ada")))


def test_a_device_cookie_that_is_none_of_ours_is_replaced(presence: Presence) -> None:
    client = browser()
    client.cookies[DEVICE_COOKIE] = "x y"
    assert len(_sign_in_over_https(client).cookies[DEVICE_COOKIE].value) == 22
