"""The first sign-in with a one-time password: staff choose a password before they get a session."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from presence_core import Presence, Settings
from presence_core.files.password_file import PasswordFile
from presence_dashboard import texts
from presence_dashboard.gate import first_password
from presence_dashboard.gate.staff_sessions import COOKIE
from tests.conftest import Servers
from tests.dashboard.gate.test_sign_in import HOME, GatedSite, close, gated_site, sign_in
from tests.support.fair_clock import PATIENT

ONCE, CHOSEN = "k7f3m-9xq2p-abcde-23456", "correct horse battery"


@pytest.fixture
def passwords(tmp_path: Path) -> PasswordFile:
    """A file in which dana has a one-time password."""
    file = PasswordFile(tmp_path / "passwords")
    file.set("dana", ONCE, valid_until=int(time.time()) + 3_600)
    return file


@pytest.fixture
def site(servers: Servers, passwords: PasswordFile, request: pytest.FixtureRequest) -> Iterator[GatedSite]:
    namespace = f"f{os.getpid()}-{abs(hash(request.node.name)) % 10**9}"
    url = servers.url("valkey")
    with Presence.from_url(url, Settings(namespace=namespace, timeout=PATIENT)) as presence:
        presence.set_staff("root", "admin", by="test")
        presence.set_staff("dana", "viewer", by="root")
        environ = {"PRESENCE_DASHBOARD_ACCESS": "password", "PRESENCE_STAFF_FILE": str(passwords.path)}
        made = gated_site(presence, url, environ, passwords, "127.0.0.1")
        yield made
        close(made)


def hidden(page: str, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', page)
    assert found, page
    return found[1]


def choose(client: TestClient, form: Any, new: str = CHOSEN, repeat: str | None = None, **changed: str) -> Any:
    """Send the form that asks for a password."""
    fields = {name: hidden(form.text, name) for name in ("csrf", "next", "proof", "name")}
    data = fields | {"password": new, "repeat": new if repeat is None else repeat} | changed
    return client.post("/sign-in", data=data, headers={"origin": HOME})


def outcomes(site: GatedSite) -> list[str]:
    return [entry.outcome for entry in site.presence.audit(by="dana") if entry.action == "staff"]


def test_a_member_chooses_a_password_and_is_signed_in(site: GatedSite, passwords: PasswordFile) -> None:
    client = site.visit()
    form = sign_in(client, "Dana", ONCE)
    assert form.status_code == 200
    assert COOKIE not in client.cookies, "a one-time password alone opens nothing"
    assert client.get("/").status_code == 401
    assert ONCE not in form.text
    assert form.headers["cache-control"] == "no-store"
    assert form.text.count('autocomplete="new-password"') == 2

    answer = choose(client, form)
    assert (answer.status_code, answer.headers["location"]) == (303, "/person?q=ada")
    assert client.get("/").status_code == 200
    assert sign_in(site.visit(), "dana", ONCE).status_code == 403
    assert sign_in(site.visit(), "dana", CHOSEN).status_code == 303
    assert outcomes(site) == ["dana chose a password"]
    assert choose(client, form).status_code == 403, "a form that is sent again changes nothing"
    assert passwords.verify("dana", CHOSEN)


@pytest.mark.parametrize(
    ("new", "repeat", "sentence"),
    [
        ("short", "short", texts.first_password_length(12, 1024)),
        ("x" * 1025, "x" * 1025, texts.first_password_length(12, 1024)),
        (CHOSEN, CHOSEN + "x", texts.FIRST_PASSWORD_DIFFERS),
        (CHOSEN, "", texts.FIRST_PASSWORD_DIFFERS),
        (ONCE, ONCE, texts.FIRST_PASSWORD_SAME),
    ],
)
def test_a_password_that_cannot_be_chosen_gets_one_sentence(
    site: GatedSite, passwords: PasswordFile, new: str, repeat: str, sentence: str
) -> None:
    client, before = site.visit(), passwords.path.read_bytes()
    again = choose(client, sign_in(client, "dana", ONCE), new, repeat)
    assert again.status_code == 403
    assert f'id="wrong">{sentence}' in again.text
    assert new not in again.text
    assert passwords.path.read_bytes() == before
    assert choose(client, again).status_code == 303, "the next try may be right"


def test_an_expired_one_time_password_is_refused(site: GatedSite, passwords: PasswordFile) -> None:
    passwords.set("dana", ONCE, valid_until=int(time.time()) - 1)
    refused = sign_in(site.visit(), "dana", ONCE)
    assert refused.status_code == 403
    assert texts.FIRST_PASSWORD_EXPIRED in refused.text
    assert site.audit() == [("dana", "one-time password has expired, from 127.0.0.1")]
    wrong = sign_in(site.visit(), "dana", "wrong horse battery")
    assert texts.SIGN_IN_WRONG in wrong.text, "only the right password shows that it has expired"


def test_the_form_works_for_one_name_one_browser_one_password_and_some_minutes(
    site: GatedSite, passwords: PasswordFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    passwords.set("root", ONCE, valid_until=int(time.time()) + 3_600)
    client, other = site.visit(), site.visit()
    form = sign_in(client, "dana", ONCE)
    proof = hidden(form.text, "proof")
    changed = proof[:-1] + ("0" if proof[-1] != "0" else "1")
    later = f"{int(proof.split('.')[0]) + 60}.{proof.split('.')[1]}"
    for attempt in (
        {"name": "root"},
        {"name": "eve"},
        *({"proof": value} for value in (changed, later, "", ".", "é.")),
    ):
        assert texts.FIRST_PASSWORD_STALE in choose(client, form, **attempt).text, attempt
    csrf = hidden(other.get("/sign-in").text, "csrf")
    assert texts.FIRST_PASSWORD_STALE in choose(other, form, csrf=csrf).text

    passwords.set("dana", "k7f3m-9xq2p-abcde-99999", valid_until=int(time.time()) + 3_600)
    assert texts.FIRST_PASSWORD_STALE in choose(client, form).text, "an admin has reset the password"
    form = sign_in(client, "dana", "k7f3m-9xq2p-abcde-99999")
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now + first_password.PROOF_SECONDS)
    assert texts.FIRST_PASSWORD_STALE in choose(client, form).text
    assert outcomes(site) == []


def test_a_member_who_is_removed_before_they_choose_gets_no_session(site: GatedSite, passwords: PasswordFile) -> None:
    client = site.visit()
    form = sign_in(client, "dana", ONCE)
    site.presence.remove_staff("dana", by="root")
    site.forget()
    refused = choose(client, form)
    assert refused.status_code == 403
    assert texts.no_role("dana") in refused.text
    assert passwords.verify("dana", ONCE), "nothing was stored"


def test_a_file_that_cannot_be_written_keeps_the_one_time_password(
    site: GatedSite, passwords: PasswordFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    client = site.visit()
    form = sign_in(client, "dana", ONCE)
    monkeypatch.setattr("presence_core.files.password_file.mkstemp", read_only)
    assert texts.FIRST_PASSWORD_NOT_STORED in choose(client, form).text
    assert passwords.verify("dana", ONCE)


def test_a_password_file_that_cannot_be_read_is_not_reported_as_an_outage(
    site: GatedSite, passwords: PasswordFile
) -> None:
    client = site.visit()
    passwords.path.write_bytes(b"\xff")
    answer = sign_in(client, "dana", ONCE)
    assert answer.status_code == 503
    assert texts.SIGN_IN_FILE in answer.text


def test_a_password_that_is_reset_during_a_sign_in_leaves_no_session(
    site: GatedSite, passwords: PasswordFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    passwords.set("dana", CHOSEN)
    start = site.staff_sessions.sign_in_as

    def reset_then_start(*args: Any, **options: Any) -> str:
        passwords.set("dana", ONCE, valid_until=int(time.time()) + 3_600)
        return start(*args, **options)

    monkeypatch.setattr(site.staff_sessions, "sign_in_as", reset_then_start)
    client = site.visit()
    assert sign_in(client, "dana", CHOSEN).status_code == 403
    assert COOKIE not in client.cookies
    assert site.staff_sessions.sessions.sessions("dana") == []
