"""Staff sign in at an OpenID provider: the claim seeds the record, and from then on the record counts."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from presence_dashboard import texts
from presence_dashboard.format import code
from presence_dashboard.format import name as in_bold
from presence_dashboard.gate.oidc.redirects import AGAIN, name_digest
from tests.dashboard.gate.oidc_team import OidcTeam, Visitor, oidc_team
from tests.support.programs.oidc_provider import CLIENT
from tests.support.servers import wait_for


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OidcTeam]:
    with oidc_team(tmp_path_factory.mktemp("oidc")) as team:
        yield team


@pytest.fixture
def team(running: OidcTeam) -> Iterator[OidcTeam]:
    running.begin()
    yield running
    running.server.command("FLUSHALL")


@pytest.fixture
def dana(team: OidcTeam) -> Iterator[Visitor]:
    """They have signed in, and have the role of their claim."""
    with Visitor(team.url) as visitor:
        assert signed_in_as(team, "support") in visitor.sign_in()
        yield visitor


def signed_in_as(team: OidcTeam, role: str) -> str:
    return texts.signed_in_as(in_bold(team.name), role)


def test_a_claim_seeds_the_record_and_then_only_the_record_counts(team: OidcTeam, dana: Visitor) -> None:
    member = team.presence.staff_member(team.name)
    assert member is not None
    assert (member.role, member.by) == ("support", "sign-in by OIDC")
    team.presence.set_staff(team.name, "viewer", by="test")
    assert code(texts.NOT_SIGNED_IN) in dana.press(texts.SIGN_OUT_BUTTON)
    assert signed_in_as(team, "viewer") in dana.sign_in()


def test_a_sign_in_that_was_ended_stays_ended_also_for_its_cookies(team: OidcTeam, dana: Visitor) -> None:
    kept = dana.cookies
    [session] = team.sessions.sessions(team.name)
    team.sessions.kick(team.name, session.session_id, by="root", reason="laptop stolen")
    refused = code(texts.signed_out_by_staff(None))
    wait_for("the refusal: an answer is cached for a second", lambda: refused in dana.read())
    assert code(texts.NOT_SIGNED_IN) in dana.press(texts.SIGN_IN_AGAIN)

    assert signed_in_as(team, "support") in dana.sign_in()
    assert code(texts.NOT_SIGNED_IN) in dana.press(texts.SIGN_OUT_BUTTON)
    assert team.sessions.sessions(team.name) == []
    with Visitor(team.url, kept) as thief:
        assert refused in thief.read()


def test_who_signs_out_is_signed_out_at_the_provider_too(team: OidcTeam, dana: Visitor) -> None:
    del team.provider.signed_out[:]
    assert code(texts.NOT_SIGNED_IN) in dana.press(texts.SIGN_OUT_BUTTON)
    [asked] = team.provider.signed_out
    assert (asked["client_id"], asked["post_logout_redirect_uri"]) == (CLIENT, f"{team.url}/oauth2callback")


def test_strangers_cause_one_request_for_the_metadata_while_the_provider_is_away(tmp_path: Path) -> None:
    with oidc_team(tmp_path) as team:
        team.provider.is_away, before = True, team.provider.discoveries
        with ThreadPoolExecutor(8) as threads:
            send = partial(httpx.post, f"{team.url}/backchannel-logout", data={"logout_token": "x"})
            sent = [threads.submit(send) for _ in range(20)]
        assert {future.result().status_code for future in sent} == {503}
        assert team.provider.discoveries == before + 1


@pytest.mark.parametrize("named", ["sid", "sub"])
def test_who_is_signed_out_at_the_provider_is_signed_out_here(team: OidcTeam, named: str) -> None:
    team.claim(sid="at-the-provider", iss=team.provider.url)
    with Visitor(team.url) as visitor:
        assert signed_in_as(team, "support") in visitor.sign_in()
        [session] = team.sessions.sessions(team.name)
        claims: dict[str, Any] = {"sid": "at-the-provider"} if named == "sid" else {"sub": "4711"}
        for wrong in (dict[str, str](), {"logout_token": team.provider.logout_token(aud="other", **claims)}):
            assert httpx.post(f"{team.url}/backchannel-logout", data=wrong).status_code == 400
        assert signed_in_as(team, "support") in visitor.read()
        token = team.provider.logout_token(**claims)
        assert httpx.post(f"{team.url}/backchannel-logout", data={"logout_token": token}).status_code == 200
        wait_for("the refusal: an answer is cached for a second", lambda: code(texts.SESSION_ENDED) in visitor.read())
    [ended] = team.sessions.ended(team.name)
    assert (ended.session_id, ended.cause) == (session.session_id, "idp_logout")


@pytest.mark.parametrize(
    ("claims", "refusal"),
    [
        ({"email_verified": False}, texts.PROVIDER_NO_EMAIL),
        ({"iat": int(time.time()) - 50_000}, texts.PROVIDER_TOO_OLD),
        ({"email": "eve@example.com", "groups": "all"}, texts.no_role("eve@example.com")),
    ],
    ids=["email not verified", "too old", "no role"],
)
def test_an_email_that_is_not_verified_an_old_sign_in_and_no_role_are_refused(
    team: OidcTeam, claims: dict[str, Any], refusal: str
) -> None:
    team.claim(**claims)
    with Visitor(team.url) as visitor:
        assert code(refusal) in visitor.sign_in()
        assert code(texts.NOT_SIGNED_IN) in visitor.press(texts.SIGN_IN_AGAIN)
    denied = [entry for entry in team.presence.audit() if entry.action == "denied"]
    assert [entry.by for entry in denied] == (["eve@example.com"] if "email" in claims else [])
    assert team.presence.staff_member("eve@example.com") is None


def test_forged_frames_kick_no_one_and_a_kick_after_a_demotion_is_refused_and_logged(
    team: OidcTeam, dana: Visitor
) -> None:
    session = team.presence.login("visitor-7", name="Ada Lovelace").session
    with dana.open_page() as wire:
        kick = wire.kick()
        wire.ask(kick)
        confirm = (wire.fill(), {"id": wire.buttons()[texts.confirm(1)], "trigger_value": True})
        team.presence.set_staff(team.name, "viewer", by="root")
        wire.send_later(wire.wish(*confirm))
    with dana.open_page() as wire:
        wait_for("their lower role", lambda: not (wire.go().table() or {})["canKick"])
        for forged in ((kick,), confirm):
            wire.ask(*forged)
    assert team.presence.validate_session(session.uid, session.session_id, touch=False)
    denied = [entry.outcome for entry in team.presence.audit(by=team.name) if entry.action == "denied"]
    assert denied == ["kick refused once"], "the one that the page had offered"


@pytest.mark.parametrize(
    "claims",
    [
        {"email": "\u212aelvin@example.com"},
        {"email": "kelvin@example.com\xa0"},
        {"email": "\u2007kelvin@example.com"},
        {"email": None, "sub": "kelvin@example.com"},
        {"email": None, "sub": "Kelvin@example.com"},
        {"email": "", "email_verified": None, "sub": "kelvin@example.com"},
        {"email": None, "sub": "Root4711"},
        {"email": None, "sub": "root4711\xa0"},
    ],
)
def test_no_other_identity_of_the_provider_becomes_an_admin_by_folding(team: OidcTeam, claims: dict[str, Any]) -> None:
    for admin in ("kelvin@example.com", "root4711"):
        team.presence.set_staff(admin, "admin", by="test")
    team.claim(groups=[], **claims)
    with Visitor(team.url) as visitor:
        text = visitor.sign_in()
    assert texts.signed_in_as(in_bold("kelvin@example.com"), "admin") not in text
    assert texts.signed_in_as(in_bold("root4711"), "admin") not in text
    assert [session for admin in ("kelvin@example.com", "root4711") for session in team.sessions.sessions(admin)] == []


# -- A fresh authentication -------------------------------------------------------------------------------------------


def bulk_kick_page(visitor: Visitor) -> tuple[str, str, bool]:
    """Open the dialog of a bulk kick: the page's text, the address to sign in again, whether it can be started."""
    with visitor.open_page() as wire:
        wire.ask({"id": wire.buttons()[texts.kick_all("1", matching=False, exact=True)], "trigger_value": True})
        links = "".join(frame.html.body for frame in wire.elements() if frame.WhichOneof("type") == "html")
        address = re.search(r'href="(/sign-in-again[^"]*)"', links)
        buttons = [frame.button for frame in wire.elements() if frame.WhichOneof("type") == "button"]
        [confirm] = [button for button in buttons if button.label == texts.confirm(1)]
        return wire.text(), address[1].replace("&amp;", "&") if address else "", not confirm.disabled


def test_an_older_authentication_is_renewed_at_the_provider_and_leads_back_to_the_page(team: OidcTeam) -> None:
    team.presence.login("visitor-7", name="Ada Lovelace")
    team.claim(auth_time=int(time.time()) - 1_000)
    with Visitor(team.url) as dana:
        assert signed_in_as(team, "support") in dana.sign_in()
        assert team.provider.asked["max_age"] == "43200"
        assert team.provider.asked["prompt"] == "select_account"
        text, address, may_start = bulk_kick_page(dana)
        assert texts.provider_too_old("15 min") in text
        assert not may_start

        team.claim()
        assert address == f"/sign-in-again?next=/&member={name_digest(team.name)}"
        assert dana.follow(address.replace("next=/", "next=/person%3Fq%3Dada")) == "/person?q=ada"
        assert team.provider.asked["max_age"] == "900"
        assert team.provider.asked["prompt"] == "login"
        assert bulk_kick_page(dana)[1:] == ("", True)


def test_an_answer_of_the_provider_without_a_fresh_time_makes_no_sign_in_fresh(team: OidcTeam, dana: Visitor) -> None:
    team.presence.login("visitor-7", name="Ada Lovelace")
    assert bulk_kick_page(dana)[1:] == ("", True), "a sign-in of a moment ago is fresh"
    now = int(time.time())
    for auth_time, problem in (
        (None, texts.PROVIDER_SILENT),
        (now - 1_000, texts.provider_too_old("15 min")),
        (now + 1_000, texts.PROVIDER_CLOCK),
    ):
        team.claim(auth_time=auth_time)
        dana.follow(f"/sign-in-again?next=/&member={name_digest(team.name)}")
        text, address, may_start = bulk_kick_page(dana)
        assert problem in text
        assert address
        assert not may_start


def test_another_member_who_signs_in_again_is_refused_and_can_sign_in_as_themselves(
    team: OidcTeam, dana: Visitor
) -> None:
    team.claim(email="kim@example.com")
    dana.follow(f"/sign-in-again?next=/&member={name_digest(team.name)}")
    assert code(texts.PROVIDER_OTHER) in dana.read()
    assert team.sessions.sessions("kim@example.com") == []
    assert code(texts.NOT_SIGNED_IN) in dana.press(texts.SIGN_IN_AGAIN)
    assert texts.signed_in_as(in_bold("kim@example.com"), "support") in dana.sign_in()


def test_the_way_back_stays_on_this_site(team: OidcTeam, dana: Visitor) -> None:
    assert dana.follow("/auth/login?provider=forged&again=1") == "/", "a stale address"
    for query in (
        "next=//evil.example&member={}",
        "next=https://evil.example&member={}",
        "next=/%5Cevil.example&member={}",
        "next=/person",
        "member={}",
    ):
        assert dana.follow(f"/sign-in-again?{query.format(name_digest(team.name))}") == "/", query
    assert signed_in_as(team, "support") in dana.read()


def test_a_link_on_another_site_starts_no_new_sign_in_and_locks_no_one_out(team: OidcTeam, dana: Visitor) -> None:
    link = f"/sign-in-again?next=/person&member={name_digest('eve@example.com')}"
    for site in ("cross-site", "same-site"):
        assert dana.follow(link, sec_fetch_site=site) == "/"
        assert AGAIN not in dana.cookies
    assert signed_in_as(team, "support") in dana.read()
    own = f"/sign-in-again?next=/person&member={name_digest(team.name)}"
    assert dana.follow(own, sec_fetch_site="same-origin") == "/person"


def test_a_page_with_a_long_address_leaves_the_check_of_the_name(team: OidcTeam, dana: Visitor) -> None:
    """A browser drops a cookie of more than 4,096 bytes, and with it the name of the member who left."""
    long = "%25" * 1_900
    assert dana.follow(f"/sign-in-again?next=/?q={long}&member={name_digest(team.name)}") == "/"
    assert len(dana.cookies[AGAIN]) < 4_000
    team.claim(email="kim@example.com")
    dana.follow(f"/sign-in-again?next=/?q={long}&member={name_digest(team.name)}")
    assert code(texts.PROVIDER_OTHER) in dana.read()
