"""Django's admin: the page of a user's sessions, and a member of staff who is kicked or blocked."""

from __future__ import annotations

import re
from typing import Any

import pytest

from presence_core import Presence
from tests.web.frameworks.django_site import PASSWORD
from tests.web.frameworks.test_django import browser, presence, server, sign_in, uid

__all__ = ["presence", "server"]  # the fixtures


def staff(name: str, *permissions: str) -> Any:
    """A browser in which this member of staff has signed in to the admin."""
    from django.contrib.auth import get_user_model
    from django.contrib.auth.models import Permission
    from django.test import Client

    user = get_user_model().objects.create_user(name, "", PASSWORD, is_staff=True, is_superuser=not permissions)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client(enforce_csrf_checks=True, headers={"accept": "text/html,*/*;q=0.8", "user-agent": "Firefox"})
    page = client.get("/admin/login/?next=/admin/")
    form = {"username": name, "password": PASSWORD, "csrfmiddlewaretoken": client.cookies["csrftoken"].value}
    assert client.post("/admin/login/?next=/admin/", form).headers["Location"] == "/admin/", page.content
    return client


def page_of(name: str) -> str:
    return f"/admin/auth/user/{uid(name)}/sessions/"


def post(client: Any, path: str, **form: str) -> Any:
    return client.post(path, form | {"csrfmiddlewaretoken": client.cookies["csrftoken"].value})


def test_staff_see_a_users_sessions_and_sign_one_out(presence: Presence) -> None:
    from django.contrib.admin.models import LogEntry

    first, second, sam = browser(), browser(), staff("sam")
    sign_in(first)
    sign_in(second)
    [newest, oldest] = presence.sessions(uid("ada"))
    assert page_of("ada") in sam.get(f"/admin/auth/user/{uid('ada')}/change/").content.decode()
    text = sam.get(page_of("ada")).content.decode()
    assert text.count("Firefox") == 2
    assert (newest.session_id in text, oldest.session_id in text) == (True, True)
    answer = post(sam, page_of("ada"), session_id=oldest.session_id, reason="stolen", message="Please call us.")
    assert answer.headers["Location"] == page_of("ada")
    assert "Signed out 1 of the user&#x27;s sessions: stolen" in sam.get(page_of("ada")).content.decode()
    [end] = presence.ended(uid("ada"))
    assert (end.session_id, end.by, end.note, end.message) == (oldest.session_id, "sam", "stolen", "Please call us.")
    assert [entry.by for entry in presence.audit(uid=uid("ada"))] == ["sam"]
    assert LogEntry.objects.get().get_change_message() == "Signed out 1 of the user's sessions: stolen"
    assert first.get("/").status_code == 302
    assert first.get("/sign-in").content == b"Please call us."
    assert second.get("/").status_code == 200


def test_the_link_to_the_page_quotes_a_primary_key_as_the_admin_reads_it(presence: Presence) -> None:
    """The admin reads "_40" in an address as "@": with another key the page would be that of another user, or none."""
    from django.contrib.admin import site
    from django.contrib.auth import get_user_model

    linked = site._registry[get_user_model()].presence_sessions(get_user_model()(pk="team_40"))
    assert "/admin/auth/user/team_5F40/sessions/" in linked


def test_staff_sign_out_all_sessions_of_a_user(presence: Presence) -> None:
    sam = staff("sam")
    for _ in range(2):
        sign_in(browser())
    post(sam, page_of("ada"), session_id="", reason="stolen")
    assert presence.sessions(uid("ada")) == []
    assert "No live sessions." in sam.get(page_of("ada")).content.decode()
    post(sam, page_of("ada"), session_id="", reason="stolen")
    assert "it had ended before" in sam.get(page_of("ada")).content.decode()


def test_a_kick_in_the_admin_needs_a_reason_a_permission_and_a_csrf_token(presence: Presence) -> None:
    sign_in(browser())
    sam, viewer, editor = staff("sam"), staff("viewer", "view_user"), staff("editor", "change_group")
    for client in (sam, viewer):
        assert client.get(page_of("ada")).status_code == 200
    assert "Sign out" not in viewer.get(page_of("ada")).content.decode()
    assert "Sign out" in sam.get(page_of("ada")).content.decode()
    assert editor.get(page_of("ada")).status_code == 403
    assert post(viewer, page_of("ada"), reason="test").status_code == 403
    assert post(editor, page_of("ada"), reason="test").status_code == 403
    assert sam.post(page_of("ada"), {"reason": "test"}).status_code == 403, "without the CSRF token"
    post(sam, page_of("ada"), reason="test")
    assert "Choose a session to sign out." in sam.get(page_of("ada")).content.decode()
    post(sam, page_of("ada"), reason=" ", session_id="")
    [said] = re.findall(r'<li class="error">(.*?)</li>', sam.get(page_of("ada")).content.decode())
    assert said.startswith("Reason must be text")
    assert browser().post(page_of("ada"), {"reason": "test"}).status_code == 302, "to the login page"
    assert len(presence.sessions(uid("ada"))) == 1


def test_what_a_visitor_sends_is_escaped_on_the_page(presence: Presence) -> None:
    presence.login(uid("ada"), device="<script>alert(1)</script>")
    text = staff("sam").get(page_of("ada")).content.decode()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<script>alert(1)" not in text


def test_the_page_says_that_redis_is_away(presence: Presence, server: Any) -> None:
    from django.test import override_settings

    sam = staff("sam")
    with override_settings(PRESENCE_RULES={"on_unavailable": "open"}, PRESENCE_SETTINGS={"namespace": "site"}):
        server.kill()
        try:
            assert "cannot be shown now" in sam.get(page_of("ada")).content.decode()
        finally:
            server.restart()


def test_a_kicked_member_of_staff_returns_to_the_page_after_a_login(presence: Presence) -> None:
    sam, page = staff("sam"), "/admin/auth/user/?is_staff__exact=1"
    presence.kick(uid("sam"), by="eve", reason="test", message="Please call us.")
    answer = sam.get(page)
    assert (answer.status_code, answer.headers["Location"]) == (
        302, "/admin/login/?next=/admin/auth/user/%3Fis_staff__exact%3D1",
    )  # fmt: skip
    assert "Please call us." in sam.get(answer.headers["Location"]).content.decode()
    form = {"username": "sam", "password": PASSWORD}
    assert post(sam, answer.headers["Location"], **form).headers["Location"] == page
    presence.kick(uid("sam"), by="eve", reason="test")
    answer = post(sam, f"/admin/auth/user/{uid('ada')}/change/", first_name="A.")
    assert answer.headers["Location"] == "/admin/login/", "the next page would be opened with GET"


def test_a_password_that_staff_set_in_the_admin_is_in_the_audit_by_their_name(presence: Presence) -> None:
    client, sam = browser(), staff("sam")
    sign_in(client)
    page = f"/admin/auth/user/{uid('ada')}/password/"
    sam.get(page)
    answer = post(sam, page, password1="a new horse", password2="a new horse", usable_password="true")
    assert answer.status_code == 302
    [end] = presence.ended(uid("ada"))
    assert (end.by, end.note) == ("sam", "password changed")
    assert client.get("/").status_code == 302
    assert sam.get(page).status_code == 200
    own = f"/admin/auth/user/{uid('sam')}/password/"
    post(sam, own, password1="a new horse", password2="a new horse", usable_password="true")
    assert sam.get(own).status_code == 200, "staff who change their own password stay signed in"


@pytest.mark.parametrize("how", ["inactive", "delete"])
def test_an_account_that_staff_close_in_the_admin_loses_its_sessions(presence: Presence, how: str) -> None:
    sign_in(browser())
    ada, sam = uid("ada"), staff("sam")
    page = f"/admin/auth/user/{ada}/{'delete' if how == 'delete' else 'change'}/"
    sam.get(page)
    joined = {"date_joined_0": "2026-01-31", "date_joined_1": "12:00:00"}
    form = {"post": "yes"} if how == "delete" else {"username": "ada", **joined}
    assert post(sam, page, **form).status_code == 302
    assert [end.by for end in presence.ended(ada)] == ["sam"]
    assert presence.sessions(ada) == []


def test_a_blocked_member_of_staff_reads_why_the_login_failed(presence: Presence) -> None:
    from django.contrib.auth import get_user_model

    get_user_model().objects.create_user("sam", "", PASSWORD, is_staff=True)
    presence.block(uid("sam"), by="eve", reason="fraud", message="Please call us.")
    answer = browser().post("/admin/login/", {"username": "sam", "password": PASSWORD})
    assert answer.status_code == 403
    assert "Please call us. Signing in is blocked until our staff unblock it." in answer.content.decode()
