"""Staff sign in at an OpenID provider, in a real browser: the claim seeds the record, and then the record counts."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import httpx
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from presence_core import Presence, Settings
from presence_dashboard import texts
from tests.browser.conftest import ROOT
from tests.dashboard.wire import Wire, pressed
from tests.fair_clock import PATIENT
from tests.oidc_provider import CLIENT, Provider
from tests.servers import Server, free_port, missing, redis_binary, valkey_binary, wait_for

pytestmark = pytest.mark.browser

SECRETS = """[auth]
redirect_uri = "{url}/oauth2callback"
cookie_secret = "{secret}"
client_id = "{client}"
client_secret = "not so secret"
server_metadata_url = "{provider}/.well-known/openid-configuration"
"""


@dataclass
class Team:
    url: str
    provider: Provider
    presence: Presence
    sessions: Presence


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    directory = tmp_path_factory.mktemp("oidc")
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    url = f"http://127.0.0.1:{free_port()}"
    with ExitStack() as stack:
        provider = stack.enter_context(Provider())
        server = stack.enter_context(Server.start(binary, directory / "redis"))
        secrets = directory / "secrets.toml"
        secrets.write_text(SECRETS.format(url=url, secret="x" * 64, client=CLIENT, provider=provider.url))
        environ = os.environ | {
            "PRESENCE_REDIS_URL": server.url,
            "PRESENCE_DASHBOARD_ACCESS": "oidc",
            "PRESENCE_OIDC_ROLE_CLAIM": "groups",
            "PRESENCE_ROLE_MAP": "desk=support",
            "STREAMLIT_SECRETS_FILES": str(secrets),
            "AUTHLIB_INSECURE_TRANSPORT": "1",
        }
        command = [sys.executable, "-m", "streamlit", "run", "dashboard.py", "--server.port", url.rpartition(":")[2]]
        output = stack.enter_context((directory / "log").open("wb"))
        process = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=output, stderr=subprocess.STDOUT)
        stack.callback(process.wait, 15)
        stack.callback(process.terminate)

        def answers() -> bool:
            try:
                return httpx.get(f"{url}/healthz").status_code == 200
            except httpx.HTTPError:
                return False

        wait_for("the dashboard", answers)
        presence = stack.enter_context(Presence.from_url(server.url, Settings(timeout=PATIENT)))
        sessions = stack.enter_context(
            Presence.from_url(server.url, Settings(namespace="online-staff", timeout=PATIENT))
        )
        yield Team(url, provider, presence, sessions)


@pytest.fixture
def page(context: BrowserContext, team: Team) -> Iterator[Page]:
    assert context.browser is not None
    team.provider.claims = {
        "sub": "4711",
        "email": "Dana@Example.com",
        "email_verified": True,
        "groups": ["desk", "all"],
    }
    own = context.browser.new_context()
    own.set_default_timeout(30_000)
    page = own.new_page()
    page.goto(team.url)
    page.get_by_role("button", name=texts.SIGN_IN_BUTTON).click()
    yield page
    own.close()


def leave(page: Page, button: str) -> None:
    """Press what signs out. The page says so before the browser has gone by the provider and come back: what is done in
    between is done to a page that is going away."""
    with page.expect_navigation():
        page.get_by_role("button", name=button).click()


def test_a_claim_seeds_the_record_and_a_sign_in_that_was_ended_stays_ended(page: Page, team: Team) -> None:
    expect(page.get_by_text(texts.signed_in_as("dana@example.com", "support"))).to_be_visible()
    member = team.presence.staff_member("dana@example.com")
    assert member is not None
    assert (member.role, member.by) == ("support", "sign-in by OIDC")
    [session] = team.sessions.sessions("dana@example.com")
    cookies = page.context.cookies()

    team.sessions.kick("dana@example.com", session.session_id, by="root", reason="laptop stolen")
    expect(page.get_by_text(texts.signed_out_by_staff(None))).to_be_visible()
    page.reload()
    expect(page.get_by_text(texts.signed_out_by_staff(None))).to_be_visible()

    # Again from the start: only what the record says counts, whatever the claim.
    leave(page, texts.SIGN_IN_AGAIN)
    team.presence.set_staff("root", "admin", by="test")
    team.presence.set_staff("dana@example.com", "viewer", by="root")
    page.get_by_role("button", name=texts.SIGN_IN_BUTTON, exact=True).click()
    expect(page.get_by_text(texts.signed_in_as("dana@example.com", "viewer"))).to_be_visible()
    leave(page, texts.SIGN_OUT_BUTTON)
    expect(page.get_by_text(texts.NOT_SIGNED_IN)).to_be_visible()
    assert team.sessions.sessions("dana@example.com") == []
    page.context.add_cookies([{"name": one["name"], "value": one["value"], "url": team.url} for one in cookies])
    page.reload()
    expect(page.get_by_text(texts.signed_out_by_staff(None))).to_be_visible()


def test_an_email_that_is_not_verified_and_an_old_sign_in_are_refused(page: Page, team: Team) -> None:
    expect(page.get_by_role("button", name=texts.SIGN_OUT_BUTTON)).to_be_visible()
    leave(page, texts.SIGN_OUT_BUTTON)
    for claims, refusal in (
        ({"email_verified": False}, texts.PROVIDER_NO_EMAIL),
        ({"email": "eve@example.com", "groups": "all"}, texts.no_role("eve@example.com")),
        ({"iat": int(time.time()) - 50_000}, texts.PROVIDER_TOO_OLD),
    ):
        good = {"sub": "4711", "email": "dana@example.com", "email_verified": True, "groups": ["desk"]}
        team.provider.claims = good | claims
        page.get_by_role("button", name=texts.SIGN_IN_BUTTON, exact=True).click()
        expect(page.get_by_text(refusal)).to_be_visible()
        leave(page, texts.SIGN_IN_AGAIN)
    assert [one.by for one in team.presence.audit() if one.action == "denied"] == ["eve@example.com"]
    assert team.presence.staff_member("eve@example.com") is None


def test_forged_frames_kick_nobody_and_a_kick_after_a_demotion_is_refused_and_written_down(
    page: Page, team: Team
) -> None:
    name = "dana@example.com"
    expect(page.get_by_text(texts.signed_in_as(name, ""))).to_be_visible()  # with whatever role
    team.presence.set_staff("root", "admin", by="test")
    team.presence.set_staff(name, "support", by="test")
    session = team.presence.login("visitor-7", name="Ada Lovelace").session
    cookies = {one["name"]: one["value"] for one in page.context.cookies()}
    line, xsrf = "; ".join(f"{key}={value}" for key, value in cookies.items()), cookies["_streamlit_xsrf"]

    with Wire.open(team.url, line, xsrf=xsrf) as dana:
        wait_for("her role, which is kept for a second", lambda: "kick" in dana.go().cells())
        kick = dana.cells()["kick"]
        dana.ask(pressed(kick))
        confirm = (dana.fill(), {"id": dana.buttons()[texts.confirm(1)], "trigger_value": True})
        team.presence.set_staff(name, "viewer", by="root")
        dana.send_later(dana.wish(*confirm))
    with Wire.open(team.url, line, xsrf=xsrf) as viewer:
        wait_for("her lower role", lambda: "kick" not in viewer.go().cells())
        for forged in ((pressed(kick),), confirm):
            viewer.ask(*forged)
    assert team.presence.validate_session(session.uid, session.session_id, touch=False)
    denied = [one.outcome for one in team.presence.audit(by=name) if one.action == "denied"]
    assert denied == ["kick refused once"], "the one that the page had offered"
